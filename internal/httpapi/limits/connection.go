package limits

import "context"

// connectionKey is the key of a connection in the context of its requests.
type connectionKey struct{}

// WithConnection returns a context for the requests of a connection, for [http.Server.ConnContext].
// The handler calls work when a request begins, with 0. It calls work with 1 when the request has
// been admitted, and with -1 at its end.
func WithConnection(ctx context.Context, work func(n int)) context.Context {
	return context.WithValue(ctx, connectionKey{}, work)
}

// NoteWork tells the connection of a request that n more requests of it have been admitted.
func NoteWork(ctx context.Context, n int) {
	if work, ok := ctx.Value(connectionKey{}).(func(n int)); ok {
		work(n)
	}
}
