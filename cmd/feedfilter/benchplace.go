package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
)

const (
	// benchPrefix keeps a filter that somebody uses from being taken for one to be removed.
	benchPrefix = "bench-"
	// cleanTimeout is how long what was measured on may take to be removed.
	cleanTimeout = time.Minute
)

// benchPlace is the Redis that is measured on.
type benchPlace struct{ dataFlags }

// validate refuses filters that may be in use.
func (p *benchPlace) validate() error {
	_, err := p.redisServers()
	return errors.Join(p.validateFilter(), err)
}

func (p *benchPlace) validateFilter() error {
	if p.Filter == "" {
		return nil
	}
	if !strings.HasPrefix(p.Filter, benchPrefix) {
		return fmt.Errorf("--filter: %q does not begin with %s, so it may be in use", p.Filter, benchPrefix)
	}
	for _, name := range bench.Filters(p.Filter) {
		if _, err := redisstore.New(nil, name); err != nil {
			return fmt.Errorf("--filter: %w", err)
		}
	}
	return nil
}

// benchFilter is a filter to be measured in, and those whose names begin with its.
type benchFilter struct {
	name   string
	server *bench.Server
	open   func(filter string) (favfilter.Store, error)
}

// use calls do with a filter of its own in Redis, and removes that.
func (p *benchPlace) use(ctx context.Context, dir string, std stdio, do func(benchFilter) error) (err error) {
	name := p.Filter
	if name == "" {
		name = benchPrefix + randomName()
	}
	servers, err := p.redisServers()
	if err != nil {
		return err
	}
	clients, err := connect(ctx, servers, nil, p.logger(std), dir)
	if err != nil {
		return fmt.Errorf("--redis: %w", err)
	}
	d := &data{redis: clients}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.pingRedis(ctx); err != nil {
		return err
	}
	server := &bench.Server{Client: clients.pages}
	names := bench.Filters(name)
	switch there, err := server.Holds(ctx, names...); {
	case err != nil:
		return err
	case there:
		return usageError{fmt.Errorf("--filter: there is a filter %s on %s already", name, clients.addrs)}
	}
	std.note(fmt.Sprintf("measuring in filter %s on %s, which is removed at the end", name, clients.addrs))
	defer func() {
		cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		if gone := server.Remove(cleaning, names...); gone != nil {
			err = errors.Join(err, &notRemovedError{"filter " + name, gone})
		}
	}()
	return do(benchFilter{name, server, func(filter string) (favfilter.Store, error) { return redisstore.New(clients.pages, filter) }})
}

func randomName() string {
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// inScratch calls do with a directory that is removed afterwards.
func inScratch(do func(dir string) error) (err error) {
	dir, err := os.MkdirTemp("", "feedfilter-bench-")
	if err != nil {
		return err
	}
	defer func() {
		if gone := os.RemoveAll(dir); gone != nil {
			err = errors.Join(err, &notRemovedError{dir, gone})
		}
	}()
	return do(dir)
}

// benchError is err of a run, or that it was interrupted.
func benchError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("bench: %w", errors.Join(context.Cause(ctx), leftBehind(err)))
	}
	return fmt.Errorf("bench: %w", err)
}

// leftBehind is what of err says more than that the run was interrupted.
func leftBehind(err error) error {
	if left, ok := errors.AsType[*notRemovedError](err); ok {
		return left
	}
	return nil
}

// notRemovedError says what a run has left behind.
type notRemovedError struct {
	what string
	err  error
}

func (e *notRemovedError) Error() string { return fmt.Sprintf("%s is left behind: %v", e.what, e.err) }

func (e *notRemovedError) Unwrap() error { return e.err }

// steps says what is measured, to a terminal.
func steps(std stdio) func(string) {
	if !term.IsTerminal(int(std.err.Fd())) {
		return func(string) {}
	}
	return func(step string) { std.note("measuring: " + step) }
}
