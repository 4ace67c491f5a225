package limits

import (
	"context"
	"io"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// Body is a body whose bytes count in the budget of bodies as they arrive.
type Body struct {
	io.ReadCloser

	of   *Budget
	call *wire.Call
	by   string
	held int64
	full error // why the body was refused; nil: it was not
}

// Hold makes the bytes of the body count. The caller calls Release when it no longer needs them.
func (l *Limits) Hold(k *wire.Call, body io.ReadCloser) *Body {
	return &Body{ReadCloser: body, of: &l.bodies, call: k, by: k.TokenName()}
}

// Read implements [io.Reader].
func (b *Body) Read(p []byte) (int, error) {
	if b.full != nil { // some decoders read on after an error
		return 0, b.full
	}
	n, err := b.ReadCloser.Read(p)
	if !b.of.Take(b.by, int64(n)) {
		b.full = turnAway(b.call, "bytes of bodies in memory")
		return 0, b.full
	}
	b.held += int64(n)
	return n, err
}

// Release gives back what the body has taken so far.
func (b *Body) Release() {
	b.of.Give(b.by, b.held)
	b.held = 0
}

// ReadBody calls read with the JSON body, if it is not longer than MaxBody. The caller calls done
// when it no longer needs what read returned.
func (l *Limits) ReadBody(k *wire.Call, read func(body io.Reader) error) (done func(), err error) {
	return l.readUpTo(k, l.MaxBody, read)
}

func (l *Limits) readUpTo(k *wire.Call, most int64, read func(body io.Reader) error) (done func(), err error) {
	r := k.Request()
	if _, err := wire.MediaType(r, wire.TypeJSON); err != nil {
		return nil, err
	}
	if r.ContentLength > most {
		return nil, wire.TooLarge(most)
	}
	// MaxBytesReader needs net/http's own writer to close the connection at the limit.
	body := l.Hold(k, http.MaxBytesReader(k.Response().Writer, r.Body, most))
	sound := false
	defer func() {
		if !sound { // also after a panic
			body.Release()
		}
	}()
	if err := read(body); err != nil {
		return nil, err
	}
	sound = true
	return body.Release, nil
}

// Requested returns the handler of a call with a JSON body of the type T, which is read with the
// options. user is the one in the path, if it has one.
func Requested[T any](
	l *Limits, strict json.Options, do func(ctx context.Context, k *wire.Call, user string, req T) (any, error),
) wire.Handler {
	return RequestedUpTo(l, l.MaxBody, strict, do)
}

// RequestedUpTo is Requested for a call with another limit of the body's length, in bytes.
func RequestedUpTo[T any](
	l *Limits, most int64, strict json.Options, do func(ctx context.Context, k *wire.Call, user string, req T) (any, error),
) wire.Handler {
	return func(k *wire.Call) error {
		if _, err := wire.Query(k); err != nil {
			return err
		}
		user := ""
		if slices.Contains(k.ParamNames(), "user") {
			var err error
			if user, err = wire.PathID(k, "user"); err != nil {
				return err
			}
		}
		var req T
		done, err := l.readUpTo(k, most, func(body io.Reader) error { return wire.ExplainJSON(json.UnmarshalRead(body, &req, strict)) })
		if err != nil {
			return err
		}
		defer done()
		answer, err := do(k.Request().Context(), k, user, req)
		if err != nil {
			return err
		}
		return wire.Respond(k, answer)
	}
}
