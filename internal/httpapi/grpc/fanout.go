package grpc

import (
	"context"

	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	pb "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// fanoutMessage is an encoded FanoutRequest. Its viewers share its memory.
type fanoutMessage struct{ text string }

func (m *fanoutMessage) read(data []byte) { m.text = string(data) }

// decode returns the request. The feed checks that its viewers are UTF-8.
func (m *fanoutMessage) decode(in *wire.Buffer) (*pb.FanoutRequest, error) {
	rest, ok := splitLists(m.text, func(r *messageReader, field uint64, s string) (took, ok bool) {
		if field != fieldViewers {
			return false, true
		}
		in.Viewers, ok = r.strings(in.Viewers, field, s, feed.MaxViewers)
		return true, ok
	})
	if !ok {
		rest, in.Viewers = []byte(m.text), in.Viewers[:0]
	}
	req := &pb.FanoutRequest{Viewers: in.Viewers}
	err := readMessage(rest, req)
	in.Viewers = req.GetViewers()
	return req, err
}

// fanout answers which of the viewers must not get a new post.
func (p *procedures) fanout(ctx context.Context, k *wire.Call, in *fanoutMessage) (*pb.FanoutResponse, error) {
	memory := p.buffers.Get()
	defer p.buffers.Put(memory)
	m, err := in.decode(memory)
	if err != nil {
		return nil, err
	}
	req, err := fanoutRequest(m)
	if err != nil {
		return nil, err
	}
	a, err := p.operations.Fanout(ctx, k, req)
	if err != nil {
		return nil, err
	}
	return fanoutAnswer(a), nil
}

// fanoutRequest returns the request of a message.
func fanoutRequest(m *pb.FanoutRequest) (feed.FanoutRequest, error) {
	post, err := postOf(m, "")
	if err != nil {
		return feed.FanoutRequest{}, err
	}
	post.ID = m.GetPost()
	req := feed.FanoutRequest{
		Post: post, Viewers: m.GetViewers(), Exact: m.GetExact(), After: m.GetAfter(),
	}
	if m.GetKinds() != nil {
		req.Kinds = append([]string{}, m.GetKinds().GetNames()...)
	}
	req.Within, err = operations.ParseWithin(m.GetWithin())
	return req, err
}

// fanoutAnswer returns the answer as a message.
func fanoutAnswer(a feed.FanoutAnswer) *pb.FanoutResponse {
	m := &pb.FanoutResponse{Degraded: degradedOf(a.Degraded)}
	for _, d := range a.Dropped {
		m.Dropped = append(m.Dropped, &pb.DroppedViewer{
			Index: uint32(d.At), Kind: d.Kind, Actor: d.Actor, Target: d.Target,
		})
	}
	return m
}
