package grpc

import (
	"context"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/core"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// fanoutMessage is an encoded FanoutRequest.
type fanoutMessage struct{ text string }

func (m *fanoutMessage) read(data []byte) { m.text = string(data) }

// decode returns the request. Its viewers share the memory of the message: the generated code would
// allocate each of them, which takes longer than the answer. The feed checks that they are UTF-8.
func (m *fanoutMessage) decode(in *core.Buffer) (*feedfilterv1.FanoutRequest, error) {
	rest, ok := m.split(in)
	if !ok {
		rest = []byte(m.text)
	}
	req := new(feedfilterv1.FanoutRequest)
	if err := readMessage(rest, req); err != nil {
		return nil, err
	}
	if ok {
		req.Viewers = in.Viewers
	}
	return req, nil
}

// split puts the viewers into the buffer, and returns the other fields. It reports false for an
// unusual message.
func (m *fanoutMessage) split(in *core.Buffer) (rest []byte, ok bool) {
	const field = 4 // viewers
	for r := (messageReader{text: m.text}); r.at < len(m.text) && len(in.Viewers) <= feed.MaxViewers; {
		if id, ok := r.more(field); ok {
			in.Viewers = append(in.Viewers, id)
			continue
		}
		from := r.at
		tag, ok := r.number()
		switch {
		case ok && tag&7 == uint64(protowire.VarintType):
			_, ok = r.number()
		case ok && tag&7 == uint64(protowire.BytesType):
			var id string
			if id, ok = r.bytes(); ok && tag>>3 == field {
				in.Viewers = append(in.Viewers, id)
				continue
			}
		default:
			ok = false
		}
		if !ok {
			return nil, false
		}
		rest = append(rest, m.text[from:r.at]...)
	}
	return rest, len(in.Viewers) <= feed.MaxViewers
}

// fanout answers which of the viewers must not get a new post.
func (p *procedures) fanout(ctx context.Context, k *core.Call, in *fanoutMessage) (*feedfilterv1.FanoutResponse, error) {
	memory := p.buffers.Get()
	defer p.buffers.Put(memory)
	m, err := in.decode(memory)
	if err != nil {
		return nil, err
	}
	post, err := postOf(m, "")
	if err != nil {
		return nil, err
	}
	post.ID = m.GetPost()
	req := feed.FanoutRequest{Post: post, Viewers: m.GetViewers(), Exact: m.GetExact()}
	if m.GetKinds() != nil {
		req.Kinds = append([]string{}, m.GetKinds().GetNames()...)
	}
	a, err := p.operations.Fanout(ctx, k, req)
	if err != nil {
		return nil, err
	}
	res := &feedfilterv1.FanoutResponse{Degraded: degradedOf(a.Degraded)}
	for _, d := range a.Dropped {
		res.Dropped = append(res.Dropped, &feedfilterv1.DroppedViewer{Index: uint32(d.At), Kind: d.Kind, Actor: d.Actor, Target: d.Target})
	}
	return res, nil
}

func degradedOf(kinds []activity.Degraded) (all []*feedfilterv1.Degraded) {
	for _, d := range kinds {
		all = append(all, &feedfilterv1.Degraded{Kind: d.Kind, Reason: d.Reason})
	}
	return all
}
