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
	// benchPrefix begins the names of filters, so that the command never removes a filter in use.
	benchPrefix = "bench-"
	// cleanTimeout limits the removal of the filter.
	cleanTimeout = time.Minute
)

// benchPlace is the Redis to measure.
type benchPlace struct{ dataFlags }

// validate refuses a filter that may be in use.
func (p *benchPlace) validate() error {
	_, err := p.redisServers()
	return errors.Join(p.validateFilter(), err)
}

func (p *benchPlace) validateFilter() error {
	if p.Filter == "" {
		return nil
	}
	if !strings.HasPrefix(p.Filter, benchPrefix) {
		return fmt.Errorf("--filter: %q does not begin with %s", p.Filter, benchPrefix)
	}
	for _, name := range bench.Filters(p.Filter) {
		if _, err := redisstore.New(nil, name); err != nil {
			return fmt.Errorf("--filter: %w", err)
		}
	}
	return nil
}

// benchFilter is the filter to measure with. Other filters of the run have names that begin with
// its name.
type benchFilter struct {
	name   string
	server *bench.Server
	open   func(filter string) (favfilter.Store, error)
}

// use calls do with a new filter in Redis, and removes the filter.
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
		return usageError{fmt.Errorf("--filter: filter %s already exists on %s", name, clients.addrs)}
	}
	std.note(fmt.Sprintf("measuring with the temporary filter %s on %s", name, clients.addrs))
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

// inScratch calls do with a temporary directory.
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

// benchError wraps the error of a run. For an interruption, it returns only that and what was not
// removed.
func benchError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("bench: %w", errors.Join(context.Cause(ctx), leftBehind(err)))
	}
	return fmt.Errorf("bench: %w", err)
}

// leftBehind returns the part of err about data that was not removed.
func leftBehind(err error) error {
	if left, ok := errors.AsType[*notRemovedError](err); ok {
		return left
	}
	return nil
}

// notRemovedError means that a run could not remove its data.
type notRemovedError struct {
	what string
	err  error
}

func (e *notRemovedError) Error() string { return fmt.Sprintf("%s was not removed: %v", e.what, e.err) }

func (e *notRemovedError) Unwrap() error { return e.err }

// steps returns a function that prints the step being measured, on a terminal.
func steps(std stdio) func(string) {
	if !term.IsTerminal(int(std.err.Fd())) {
		return func(string) {}
	}
	return func(step string) { std.note("measuring: " + step) }
}
