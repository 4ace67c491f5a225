package httpapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"github.com/labstack/echo/v4"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// messageOfPost is a message with the fields of one post, besides its id.
type messageOfPost interface {
	GetAuthor() string
	GetActors() []string
	GetActorRoles() []string
	GetRelated() []string
	GetFacets() []*feedfilterv1.Facet
}

// postOf returns the post of a message, without its id. Its fields are called prefix and their name
// in errors.
func postOf(m messageOfPost, prefix string) (feed.Post, error) {
	post := []feed.Post{{Author: m.GetAuthor(), Actors: m.GetActors(), Roles: m.GetActorRoles(), Related: m.GetRelated()}}
	for i, f := range m.GetFacets() {
		field := fmt.Sprintf("%sfacets[%d]", prefix, i)
		if len(f.GetPosts()) > 0 {
			return feed.Post{}, refuse(activity.CodeOutOfRange, field+".posts", "the request is about one post: leave this out")
		}
		if err := placeFacet(post, field, f.GetName(), f.GetIds(), make([]uint32, len(f.GetIds()))); err != nil {
			return feed.Post{}, err
		}
	}
	return post[0], nil
}

// explainProcedure answers why a viewer's feed drops or keeps a post.
func (s *procedures) explainProcedure(
	ctx context.Context, k *call, in *incoming[feedfilterv1.ExplainRequest],
) (*feedfilterv1.ExplainResponse, error) {
	p := in.message.GetPost()
	if p == nil {
		return nil, refuse(codeMissingField, "post", "the field is missing")
	}
	post, err := postOf(p, "post.")
	if err != nil {
		return nil, err
	}
	post.ID = p.GetId()
	e, err := s.explainPost(ctx, k, in.message.GetViewer(), post, in.message.GetLists())
	if err != nil {
		return nil, err
	}
	res := &feedfilterv1.ExplainResponse{
		Dropped: e.Dropped,
		Page: &feedfilterv1.Page{
			Number: e.Page.Number, Sequence: e.Page.Sequence, Keys: uint64(e.Page.Keys), Bytes: uint64(e.Page.Bytes),
			FalsePositiveRate: e.Page.FalsePositiveRate,
		},
	}
	for _, r := range e.Reasons {
		res.Reasons = append(res.Reasons, &feedfilterv1.Reason{
			Kind: r.Kind.Name, Effect: r.Kind.Effect.String(), Actor: r.Actor, Target: r.Target, Direction: direction(r.Direction),
			Certainty: r.Certainty.String(), Since: stamp(r.Since), Until: stamp(r.Until), Parts: r.Parts,
			OverruledBy: r.OverruledBy, List: r.List,
		})
	}
	for _, d := range e.Degraded {
		res.Degraded = append(res.Degraded, &feedfilterv1.Degraded{Kind: d.Kind, Reason: d.Reason})
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

// recordProcedure records or undoes one activity.
func (s *procedures) recordProcedure(
	ctx context.Context, k *call, in *incoming[feedfilterv1.RecordRequest],
) (*feedfilterv1.RecordResponse, error) {
	m := &in.message
	if err := s.userMay(m.GetUser(), 1); err != nil {
		return nil, err
	}
	kind, err := s.kindOf(m.GetPlural(), true)
	if err != nil {
		return nil, err
	}
	a, err := activityOf(&feedfilterv1.Activity{
		User: m.GetUser(), Kind: kind.Name, Target: m.GetTarget(), Op: m.GetOp(), Until: m.GetUntil(),
	})
	if err != nil {
		return nil, err
	}
	changed, err := s.recordOne(ctx, k, kind, a)
	if err != nil {
		return nil, err
	}
	return &feedfilterv1.RecordResponse{Changed: changed}, nil
}

// recordPostsProcedure records posts of a kind with a window.
func (s *procedures) recordPostsProcedure(
	ctx context.Context, k *call, in *incoming[feedfilterv1.RecordPostsRequest],
) (*feedfilterv1.RecordPostsResponse, error) {
	m := &in.message
	if err := s.userMay(m.GetUser(), 1); err != nil {
		return nil, err
	}
	kind, err := s.kindOf(m.GetPlural(), false)
	if err != nil {
		return nil, err
	}
	recorded, err := s.recordWindow(ctx, k, m.GetUser(), kind, append([]string{}, m.GetPosts()...))
	if err != nil {
		return nil, err
	}
	return &feedfilterv1.RecordPostsResponse{Recorded: uint32(recorded)}, nil
}

// recordBatchProcedure records and undoes many activities. If one is invalid, it changes nothing.
func (s *procedures) recordBatchProcedure(
	ctx context.Context, k *call, in *incoming[feedfilterv1.RecordBatchRequest],
) (*feedfilterv1.RecordBatchResponse, error) {
	asked := in.message.GetActivities()
	results, err := s.recordBatch(ctx, k, len(asked), func(i int) (activity.Activity, error) { return activityOf(asked[i]) })
	if err != nil {
		return nil, err
	}
	return &feedfilterv1.RecordBatchResponse{Results: resultMessages(results)}, nil
}

// listProcedure answers with one part of the list of a user's activities of one kind.
func (s *procedures) listProcedure(
	ctx context.Context, k *call, in *incoming[feedfilterv1.ListRequest],
) (*feedfilterv1.ListResponse, error) {
	m := &in.message
	if err := s.userMay(m.GetUser(), 1); err != nil {
		return nil, err
	}
	kind, err := s.kindOf(m.GetPlural(), true)
	if err != nil {
		return nil, err
	}
	limit := int64(m.GetLimit())
	if limit == 0 {
		limit = defaultListed
	}
	listing, err := s.listPart(ctx, k, m.GetUser(), kind, m.GetCursor(), int(limit))
	if err != nil {
		return nil, err
	}
	res := &feedfilterv1.ListResponse{Items: make([]*feedfilterv1.Item, len(listing.Items)), Next: listing.Next}
	for i, item := range listing.Items {
		res.Items[i] = &feedfilterv1.Item{Target: item.Target, Since: stamp(item.Since), Until: stamp(item.Until)}
	}
	return res, nil
}

// countProcedure answers how many activities of each kind a user has.
func (s *procedures) countProcedure(
	ctx context.Context, k *call, in *incoming[feedfilterv1.CountRequest],
) (*feedfilterv1.CountResponse, error) {
	user := in.message.GetUser()
	if err := activity.CheckID(user, "user"); err != nil {
		return nil, err
	}
	if err := s.userMay(user, 1); err != nil {
		return nil, err
	}
	counts, err := s.countsOf(ctx, k, user)
	if err != nil {
		return nil, err
	}
	res := &feedfilterv1.CountResponse{Counts: make(map[string]uint64, len(counts))}
	for kind, n := range counts {
		res.Counts[kind] = uint64(n)
	}
	return res, nil
}

// kindOf returns the kind with the plural. With inLedger, it accepts only kinds that the ledger
// keeps, otherwise only kinds with a window.
func (s *procedures) kindOf(plural string, inLedger bool) (activity.Kind, error) {
	for _, k := range s.activities.Kinds().All() {
		switch {
		case k.Plural != plural:
		case k.InLedger() == inLedger:
			return k, nil
		case inLedger:
			return k, refuse(activity.CodeUnsupportedOp, "plural", fmt.Sprintf("not supported for %q, a kind with a window", plural))
		default:
			return k, refuse(activity.CodeUnsupportedOp, "plural", fmt.Sprintf("not supported for %q, a kind without a window", plural))
		}
	}
	return activity.Kind{}, refuse(activity.CodeUnknownKind, "plural", fmt.Sprintf("no kind has the plural %q", plural))
}

// activityOf returns the activity of a message, or an error if the message is not of the right
// form.
func activityOf(m *feedfilterv1.Activity) (activity.Activity, error) {
	a := activity.Activity{User: m.GetUser(), Kind: m.GetKind(), Target: m.GetTarget(), Remove: m.GetOp() == feedfilterv1.Op_OP_REMOVE}
	err := checkLine(m.GetKind(), opName(m.GetOp()), m.GetSince() != nil, m.GetUntil() != nil)
	if err == nil && m.GetSince() != nil {
		a.Since, err = timeOf(paramSince, m.GetSince())
	}
	if err == nil && m.GetUntil() != nil {
		a.Until, err = timeOf(paramUntil, m.GetUntil())
		a.Until = ended(a.Until)
	}
	return a, err
}

// opName returns the name of an op in JSON.
func opName(op feedfilterv1.Op) string {
	switch op {
	case feedfilterv1.Op_OP_UNSPECIFIED:
		return ""
	case feedfilterv1.Op_OP_ADD:
		return opAdd
	case feedfilterv1.Op_OP_REMOVE:
		return opRemove
	default:
		return op.String()
	}
}

// timeOf returns the time of a message, truncated to microseconds.
func timeOf(field string, t *timestamppb.Timestamp) (time.Time, error) {
	if err := t.CheckValid(); err != nil {
		return time.Time{}, refuse(activity.CodeOutOfRange, field, "not a time of the years 1 to 9999")
	}
	return t.AsTime().Truncate(time.Microsecond), nil
}

// resultMessages returns results in the form of messages.
func resultMessages(results []lineResult) []*feedfilterv1.Result {
	all := make([]feedfilterv1.Result, len(results))
	messages := make([]*feedfilterv1.Result, len(results))
	for i, r := range results {
		all[i].Changed = r.changed
		if r.problem.Code != "" {
			all[i].Error = r.problem.detail()
			all[i].Error.HttpStatus = 0
		}
		messages[i] = &all[i]
	}
	return messages
}

// streamMessages is a stream of activities in one direction, and of their results in the other.
type streamMessages = connect.BidiStream[incoming[feedfilterv1.RecordStreamRequest], feedfilterv1.RecordStreamResponse]

// recordStreamProcedure answers each message of a stream with one message, like the NDJSON stream.
func (s *procedures) recordStreamProcedure() echo.HandlerFunc {
	handler := connect.NewBidiStreamHandler(feedfilterv1connect.ActivityServiceRecordStreamProcedure,
		func(ctx context.Context, messages *streamMessages) error {
			k := ctx.Value(callKey{}).(*call) //nolint:forcetypeassert // serveProcedure sets it
			k.begun = true
			if err := s.recordMessages(ctx, k, messages); err != nil {
				return s.problem(k, err) //nolint:contextcheck // the call has the request's
			}
			return nil
		}, connect.WithCodec(codec{}), connect.WithReadMaxBytes(int(s.maxBody)), withoutGzip())
	return overHTTP2(func(c echo.Context) error {
		if _, err := query(c); err != nil {
			return err
		}
		if _, err := messageType(c.Request(), streamTypes()); err != nil {
			return err
		}
		k := callOf(c)
		by := k.by()
		if !s.limits.streams.take(by, 1) {
			return turnAway(c, "streams in progress")
		}
		defer s.limits.streams.give(by, 1)
		k.messages = s.hold(c, c.Request().Body)
		defer k.messages.release()
		c.Request().Body = k.messages
		s.serveProcedure(k, handler)
		return nil
	})
}

// recordMessages records the activities of a stream, message by message, until the stream ends.
func (s *procedures) recordMessages(ctx context.Context, k *call, messages *streamMessages) error {
	conn := newStreamConn(k, s.idle)
	defer conn.release()
	for {
		if err := conn.expectRead(); err != nil {
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
		if err := checkBatch(len(in.message.GetActivities()), maxChunk); err != nil {
			return err
		}
		batch := chunk{batch: s.activities.NewBatch()}
		for _, one := range in.message.GetActivities() {
			batch.add(activityOf(one))
		}
		if err := s.recordChunk(k, &batch); err != nil { //nolint:contextcheck // the call has the request's
			return err
		}
		if err := conn.expectWrite(); err != nil {
			return err
		}
		if err := messages.Send(&feedfilterv1.RecordStreamResponse{Results: resultMessages(batch.results)}); err != nil {
			return fmt.Errorf("answer messages: %w: %w", errGone, err)
		}
		k.messages.release()
	}
}

// streamError returns the error of a stream whose next message cannot be read.
func streamError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("read messages: %w: %w", errGone, err)
	case connect.CodeOf(err) == connect.CodeResourceExhausted:
		return refuse(codeTooLarge, "", "the message is too long")
	default:
		return unreadable(err)
	}
}

// checkBatch refuses a number of activities outside 1 to most.
func checkBatch(n, most int) error {
	if n < 1 || n > most {
		return refuse(activity.CodeOutOfRange, "activities", strconv.Itoa(n)+" activities, not 1 to "+strconv.Itoa(most))
	}
	return nil
}

// tooManyValues returns the error of a list with more than most values.
func tooManyValues(field string, most int) error {
	return refuse(activity.CodeOutOfRange, field, "more than "+strconv.Itoa(most)+" values")
}
