package main

import (
	"context"
	"net/http"
)

// get sends a GET request to the service. path is given in parts.
func (f *serviceFlags) get(ctx context.Context, into any, path ...string) error {
	return f.call(ctx, http.MethodGet, path, nil, into)
}

// post sends a POST request to the service.
func (f *serviceFlags) post(ctx context.Context, body, into any, path ...string) error {
	return f.call(ctx, http.MethodPost, path, body, into)
}

func (f *serviceFlags) call(ctx context.Context, method string, path []string, body, into any) error {
	service, err := f.service()
	if err != nil {
		return err
	}
	defer service.Close()
	return service.Call(ctx, method, path, nil, body, into)
}
