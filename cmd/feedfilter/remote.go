package main

import (
	"context"
	"net/http"
	"net/url"
)

// remote is a service that runs elsewhere and is asked over HTTP.
type remote struct {
	address string
	client  clientFlags
}

// get asks for what is at a path, given by its parts, with a query if need be.
func (s remote) get(ctx context.Context, into any, query url.Values, path ...string) error {
	return s.call(ctx, http.MethodGet, path, query, nil, into)
}

// post has the service do something.
func (s remote) post(ctx context.Context, body, into any, path ...string) error {
	return s.call(ctx, http.MethodPost, path, nil, body, into)
}

func (s remote) call(ctx context.Context, method string, path []string, query url.Values, body, into any) error {
	service, err := directly(s.address, askTimeout, s.client.token)
	if err != nil {
		return err
	}
	return service.Call(ctx, method, path, query, body, into)
}
