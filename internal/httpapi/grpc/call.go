package grpc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"connectrpc.com/connect"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi/limits"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// overHTTP2 refuses a stream over HTTP/1, where an answer cannot begin before the request ends.
func overHTTP2(next wire.Handler) wire.Handler {
	return func(k *wire.Call) error {
		if k.Request().ProtoMajor < 2 {
			wire.LeaveBody(k)
			return wire.Refuse(wire.CodeMalformedMessage, "", "this stream needs HTTP/2")
		}
		return next(k)
	}
}

// withoutGzip makes connect refuse compressed requests, as the JSON API does, and send answers
// uncompressed, which saves time.
func withoutGzip() connect.HandlerOption { //nolint:ireturn // what the library has for options
	return connect.WithCompression("gzip", nil, nil)
}

// request is a call of a procedure, in the context that connect passes on.
type request struct {
	call     *wire.Call
	body     io.ReadCloser // in place of the call's; nil: the call's own
	messages *limits.Body  // of a stream
	begun    bool          // the procedure has received its message
}

type requestKey struct{}

// begin returns the request of a procedure that has received its message.
func begin(ctx context.Context) *request {
	r := ctx.Value(requestKey{}).(*request) //nolint:forcetypeassert // serve sets it
	r.begun = true
	return r
}

// unary returns the route of a procedure with one request and one answer.
func unary[Req, Res any](
	p *procedures, path string,
	do func(ctx context.Context, k *wire.Call, req *Req) (*Res, error),
	scopes []access.Scope, audit wire.Audit,
) wire.Route {
	handler := connect.NewUnaryHandlerSimple(path, func(ctx context.Context, req *Req) (*Res, error) {
		k := begin(ctx).call
		if bad, ok := any(req).(interface{ problem() error }); ok && bad.problem() != nil {
			return nil, p.problem(k, bad.problem()) //nolint:contextcheck // the call has the request's
		}
		work, done := untilDeadline(ctx, k)
		defer done()
		res, err := do(work, k, req)
		if err != nil {
			//nolint:contextcheck // the call has the request's
			return nil, p.problem(k, atDeadline(ctx, err))
		}
		return res, nil
	}, connect.WithCodec(codec{}), withoutGzip())
	return wire.Route{
		Method: http.MethodPost,
		Path:   path,
		Scopes: scopes,
		Audit:  audit,
		Handle: func(k *wire.Call) error {
			if _, err := wire.Query(k); err != nil {
				return err
			}
			body, release, err := p.holdMessage(k)
			if err != nil {
				return err
			}
			defer release()
			serve(&request{call: k, body: body}, handler)
			return nil
		},
	}
}

// serve calls the handler of a procedure. Connect itself answers a request that fails before the
// procedure begins, for example because gRPC forbids one of its headers. Such a request counts as
// malformed.
//
// The handler gets a copy of the request. net/http looks at the Body of its own request to find out
// whether the body was read to its end. If another Body stood there, net/http would take a body for
// consumed that the handler has closed early. It would keep the connection, and answer the rest of
// the body as a request.
func serve(of *request, handler http.Handler) {
	k := of.call
	ctx := k.Request().Context()
	r := k.Request().WithContext(context.WithValue(ctx, requestKey{}, of))
	if of.body != nil {
		r.Body = of.body
	}
	handler.ServeHTTP(k.Response(), r)
	switch {
	case k.Failed != nil || of.begun:
	case endedAtDeadline(k):
		k.Failed = wire.ErrDeadline
	default:
		k.Failed = wire.Refuse(wire.CodeMalformedMessage, "", "the request violates its protocol")
	}
}

// endedAtDeadline reports whether connect answered that the client's deadline has passed.
func endedAtDeadline(k *wire.Call) bool {
	const exceeded = "4" // as gRPC writes connect.CodeDeadlineExceeded
	res := k.Response()
	return res.Status == http.StatusGatewayTimeout ||
		res.Header().Get(http.TrailerPrefix+"Grpc-Status") == exceeded
}

// untilDeadline returns the context for the work of a call. from is connect's context, with the
// client's deadline. At the deadline, the work is canceled as if the client had left.
//
// The deadline itself stays out of the context. Otherwise Redis and the ledger would count a
// client's short deadline as a failure of their own. Five failures open the circuit breaker of a
// Redis node. A command that Redis is executing ends with its own timeout, as after a client that
// left.
func untilDeadline(
	from context.Context, k *wire.Call,
) (work context.Context, done context.CancelFunc) {
	if _, ok := from.Deadline(); !ok {
		return from, func() {}
	}
	work, cancel := context.WithCancel(k.Request().Context())
	stop := context.AfterFunc(from, cancel)
	return work, func() {
		stop()
		cancel()
	}
}

// atDeadline returns err, with wire.ErrDeadline around it if the client's deadline ended the call.
func atDeadline(from context.Context, err error) error {
	if errors.Is(from.Err(), context.DeadlineExceeded) &&
		wire.Describe(err).Code == wire.CodeUnavailable {
		return fmt.Errorf("%w: %w", wire.ErrDeadline, err)
	}
	return err
}

// incoming is a message, or the error of reading it. The handler answers that error, because
// connect would answer it without an ErrorDetail.
type incoming[M any] struct {
	message M
	err     error
}

func (m *incoming[M]) problem() error { return m.err }
