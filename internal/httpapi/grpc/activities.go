package grpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi/operations"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
	pb "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// explain answers why a viewer's feed drops or keeps a post.
func (p *procedures) explain(
	ctx context.Context, k *wire.Call, in *incoming[pb.ExplainRequest],
) (*pb.ExplainResponse, error) {
	asked := in.message.GetPost()
	if asked == nil {
		return nil, wire.Refuse(wire.CodeMissingField, "post", "the field is missing")
	}
	post, err := postOf(asked, "post.")
	if err != nil {
		return nil, err
	}
	post.ID = asked.GetId()
	within, err := operations.ParseWithin(in.message.GetWithin())
	if err != nil {
		return nil, err
	}
	want := activity.Freshness{After: in.message.GetAfter(), Within: within}
	e, err := p.operations.Explain(ctx, k, in.message.GetViewer(), post, in.message.GetLists(), want)
	if err != nil {
		return nil, err
	}
	res := &pb.ExplainResponse{
		Dropped: e.Dropped, Degraded: degradedOf(e.Degraded),
		Page: &pb.Page{
			Number:            e.Page.Number,
			Sequence:          e.Page.Sequence,
			Keys:              uint64(e.Page.Keys),
			Bytes:             uint64(e.Page.Bytes),
			FalsePositiveRate: e.Page.FalsePositiveRate,
		},
	}
	for _, r := range e.Reasons {
		var inText *pb.TextRange
		if r.End > 0 {
			inText = &pb.TextRange{Start: uint32(r.Start), End: uint32(r.End)}
		}
		res.Reasons = append(res.Reasons, &pb.Reason{
			Kind:        r.Kind.Name,
			Effect:      r.Kind.Effect.String(),
			Actor:       r.Actor,
			Target:      r.Target,
			InText:      inText,
			Direction:   operations.Direction(r.Direction),
			Certainty:   r.Certainty.String(),
			Since:       stamp(r.Since),
			Until:       stamp(r.Until),
			Parts:       r.Parts,
			OverruledBy: r.OverruledBy,
			List:        r.List,
		})
	}
	return res, nil
}

// stamp returns a time in the form of messages; nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// record records or undoes one activity.
func (p *procedures) record(
	ctx context.Context, k *wire.Call, in *incoming[pb.RecordRequest],
) (*pb.RecordResponse, error) {
	m := &in.message
	kind, err := p.kindOf(m, true)
	if err != nil {
		return nil, err
	}
	a, err := activityOf(&pb.Activity{
		User: m.GetUser(), Kind: kind.Name, Target: m.GetTarget(), Op: m.GetOp(), Until: m.GetUntil(),
	})
	if err != nil {
		return nil, err
	}
	changed, err := p.operations.Record(ctx, k, kind, a)
	if err != nil {
		return nil, err
	}
	return &pb.RecordResponse{Changed: changed}, nil
}

// recordPosts records posts of a kind with a window.
func (p *procedures) recordPosts(
	ctx context.Context, k *wire.Call, in *incoming[pb.RecordPostsRequest],
) (*pb.RecordPostsResponse, error) {
	m := &in.message
	kind, err := p.kindOf(m, false)
	if err != nil {
		return nil, err
	}
	recorded, err := p.operations.RecordWindow(
		ctx, k, m.GetUser(), kind, append([]string{}, m.GetPosts()...),
	)
	if err != nil {
		return nil, err
	}
	return &pb.RecordPostsResponse{Recorded: uint32(recorded)}, nil
}

// recordBatch records and undoes many activities. If one is invalid, it changes nothing.
func (p *procedures) recordBatch(
	ctx context.Context, k *wire.Call, in *incoming[pb.RecordBatchRequest],
) (*pb.RecordBatchResponse, error) {
	asked := in.message.GetActivities()
	read := func(i int) (activity.Activity, error) { return activityOf(asked[i]) }
	results, err := p.operations.RecordBatch(ctx, k, len(asked), read)
	if err != nil {
		return nil, err
	}
	return &pb.RecordBatchResponse{Results: resultMessages(results)}, nil
}

// list answers with one part of the list of a user's activities of one kind, or of those of others
// with the user.
func (p *procedures) list(
	ctx context.Context, k *wire.Call, in *incoming[pb.ListRequest],
) (*pb.ListResponse, error) {
	m := &in.message
	kind, err := p.kindOf(m, true)
	if err != nil {
		return nil, err
	}
	var listing activity.Listing
	limit := int64(cmp.Or(m.GetLimit(), operations.DefaultListed))
	switch {
	case m.GetIncoming() && m.Target != nil:
		err = wire.Refuse(activity.CodeUnsupportedOp, "target", "leave it out with incoming")
	case m.GetIncoming():
		listing, err = p.operations.Incoming(ctx, k, m.GetUser(), kind, m.GetCursor(), int(limit))
	case m.Target == nil:
		listing, err = p.operations.List(ctx, k, m.GetUser(), kind, m.GetCursor(), int(limit))
	default:
		var item *activity.Item
		if item, err = p.operations.Get(ctx, k, m.GetUser(), kind, m.GetTarget()); item != nil {
			listing.Items = []activity.Item{*item}
		}
	}
	if err != nil {
		return nil, err
	}
	res := &pb.ListResponse{Items: make([]*pb.Item, len(listing.Items)), Next: listing.Next}
	for i, item := range listing.Items {
		res.Items[i] = &pb.Item{
			User:   item.User,
			Target: item.Target,
			Since:  stamp(item.Since),
			Until:  stamp(item.Until),
		}
	}
	return res, nil
}

// count answers how many activities of each kind a user has.
func (p *procedures) count(
	ctx context.Context, k *wire.Call, in *incoming[pb.CountRequest],
) (*pb.CountResponse, error) {
	user := in.message.GetUser()
	if err := activity.CheckID(user, "user"); err != nil {
		return nil, err
	}
	if err := p.operations.Access.UserMay(user, 1); err != nil {
		return nil, err
	}
	counts, err := p.operations.Counts(ctx, k, user)
	if err != nil {
		return nil, err
	}
	res := &pb.CountResponse{Counts: make(map[string]uint64, len(counts))}
	for kind, n := range counts {
		res.Counts[kind] = uint64(n)
	}
	return res, nil
}

// kindOf returns the kind of a message, if the rate of the message's user allows the call. With
// inLedger, it accepts only kinds that the ledger keeps, otherwise only kinds with a window.
func (p *procedures) kindOf(m interface {
	GetUser() string
	GetPlural() string
}, inLedger bool) (activity.Kind, error) {
	if err := p.operations.Access.UserMay(m.GetUser(), 1); err != nil {
		return activity.Kind{}, err
	}
	k, ok := p.operations.Activities.Kinds().Named(m.GetPlural())
	switch {
	case !ok:
		return k, wire.Refuse(
			activity.CodeUnknownKind, "kind", fmt.Sprintf("there is no kind %q", m.GetPlural()),
		)
	case k.InLedger() == inLedger:
		return k, nil
	case inLedger:
		return k, wire.Refuse(
			activity.CodeUnsupportedOp, "kind",
			fmt.Sprintf("not supported for %q, a kind with a window", k.Name),
		)
	default:
		return k, wire.Refuse(
			activity.CodeUnsupportedOp, "kind",
			fmt.Sprintf("not supported for %q, a kind without a window", k.Name),
		)
	}
}

// activityOf returns the activity of a message, or an error if the message is not of the right
// form.
func activityOf(m *pb.Activity) (activity.Activity, error) {
	a := activity.Activity{
		User:   m.GetUser(),
		Kind:   m.GetKind(),
		Target: m.GetTarget(),
		Remove: m.GetOp() == pb.Op_OP_REMOVE,
	}
	err := operations.CheckLine(
		m.GetKind(), opName(m.GetOp()), m.GetSince() != nil, m.GetUntil() != nil,
	)
	if err == nil && m.GetSince() != nil {
		a.Since, err = timeOf(operations.FieldSince, m.GetSince())
	}
	if err == nil && m.GetUntil() != nil {
		a.Until, err = timeOf(operations.FieldUntil, m.GetUntil())
		a.Until = operations.Ended(a.Until)
	}
	return a, err
}

// opName returns the name of an op in JSON.
func opName(op pb.Op) string {
	switch op {
	case pb.Op_OP_UNSPECIFIED:
		return ""
	case pb.Op_OP_ADD:
		return operations.OpAdd
	case pb.Op_OP_REMOVE:
		return operations.OpRemove
	default:
		return op.String()
	}
}

// timeOf returns the time of a message, truncated to microseconds.
func timeOf(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if err := t.CheckValid(); err != nil {
		return time.Time{}, wire.Refuse(
			activity.CodeOutOfRange, field, "not a time of the years 1 to 9999",
		)
	}
	return t.AsTime().Truncate(time.Microsecond), nil
}

// resultMessages returns results in the form of messages.
func resultMessages(results []operations.Result) []*pb.Result {
	all := make([]pb.Result, len(results))
	messages := make([]*pb.Result, len(results))
	for i, r := range results {
		all[i].Changed = r.Changed
		if r.Problem.Code != "" {
			all[i].Error = detailOf(r.Problem)
			all[i].Error.HttpStatus = 0
		}
		messages[i] = &all[i]
	}
	return messages
}

// streamMessages is a stream of activities in one direction, and of their results in the other.
type streamMessages = connect.BidiStream[incoming[pb.RecordStreamRequest], pb.RecordStreamResponse]

// recordStream answers each message of a stream with one message, like the NDJSON stream.
func (p *procedures) recordStream() wire.Handler {
	handler := connect.NewBidiStreamHandler(feedfilterv1connect.ActivityServiceRecordStreamProcedure,
		func(ctx context.Context, messages *streamMessages) error {
			r := begin(ctx)
			if err := p.recordMessages(ctx, r, messages); err != nil {
				return p.problem(r.call, err) //nolint:contextcheck // the call has the request's
			}
			return nil
		}, connect.WithCodec(codec{}), connect.WithReadMaxBytes(int(p.limits.MaxBody)), withoutGzip())
	return overHTTP2(func(k *wire.Call) error {
		if _, err := wire.Query(k); err != nil {
			return err
		}
		if _, err := messageType(k.Request(), streamTypes()); err != nil {
			return err
		}
		return p.limits.Stream(k, func() error {
			messages := p.limits.Hold(k, k.Request().Body)
			defer messages.Release()
			serve(&request{call: k, body: messages, messages: messages}, handler)
			return nil
		})
	})
}

// recordMessages records the activities of a stream, message by message, until the stream ends.
func (p *procedures) recordMessages(
	ctx context.Context, r *request, messages *streamMessages,
) error {
	conn := wire.NewStreamConn(r.call, p.limits.Idle)
	defer conn.Release()
	for {
		if err := conn.ExpectRead(); err != nil {
			return err
		}
		in, err := messages.Receive()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return streamError(ctx, err)
		case in.err != nil:
			return in.err
		}
		activities := in.message.GetActivities()
		if err := operations.CheckBatch(len(activities), operations.MaxChunk); err != nil {
			return err
		}
		chunk := p.operations.NewChunk()
		for _, one := range activities {
			chunk.Add(activityOf(one))
		}
		//nolint:contextcheck // the call has the request's
		if err := p.operations.RecordChunk(r.call, chunk); err != nil {
			return err
		}
		if err := conn.ExpectWrite(); err != nil {
			return err
		}
		answer := &pb.RecordStreamResponse{Results: resultMessages(chunk.Results)}
		if err := messages.Send(answer); err != nil {
			return fmt.Errorf("answer messages: %w: %w", wire.ErrGone, err)
		}
		r.messages.Release()
	}
}

// streamError returns the error of a stream whose next message cannot be read.
func streamError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("read messages: %w: %w", wire.ErrGone, err)
	case connect.CodeOf(err) == connect.CodeResourceExhausted:
		return wire.Refuse(wire.CodeTooLarge, "", "the message is too long")
	default:
		return wire.Unreadable(err)
	}
}
