package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// startTimeout is the upper bound of the time until a service listens.
const startTimeout = time.Minute

// service is a "feedfilter serve" process with its own Redis server and a ledger in SQLite. It has
// the activities of the population, and what the viewers have seen.
type service struct {
	url    string // URL of its TCP port
	socket string // URL of its Unix socket
	pid    int
	redis  *redis.Client
	bytes  float64 // memory of Redis per activity, without what was seen
}

// startService fills a ledger and pages, and starts a service on them.
func startService(ctx context.Context, r *run) (*service, error) {
	command, err := r.command(ctx)
	if err != nil {
		return nil, err
	}
	server := redistest.Start(r.host) //nolint:contextcheck // the host has it
	s := &service{redis: server.Client()}
	file := filepath.Join(r.dir, "service.db")
	if s.bytes, err = fillService(ctx, r, s.redis, file); err != nil {
		return nil, fmt.Errorf("fill the service: %w", err)
	}
	port := servertest.ReservePort(r.host) //nolint:contextcheck // the same
	socket := filepath.Join(r.dir, "s")
	s.url, s.socket = "http://"+servertest.Addr(port), "unix:"+socket
	args := append([]string{
		"--addr", servertest.Addr(port) + ",unix:" + socket, "--redis", server.URL(),
		"--ledger", "sqlite:" + file, "--data-dir", filepath.Join(r.dir, "data"), "--filter", serviceFilter,
		"--false-positive-rate", fmt.Sprint(r.rate),
	}, r.serviceArgs...)
	err = s.start(ctx, r, command, args...)
	return s, err
}

// serviceFilter is the name of the service's filter.
const serviceFilter = "feed"

// command returns the path of the feedfilter to run. It builds the command unless a flag names one.
func (r *run) command(ctx context.Context) (string, error) {
	if r.options.service != "" {
		return exec.LookPath(r.options.service)
	}
	root, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/feedfilter/feedfilter").Output()
	if err != nil {
		return "", fmt.Errorf("find the module of feedfilter: %w", err)
	}
	binary := filepath.Join(r.dir, "feedfilter")
	//nolint:gosec // go's own words
	build := exec.CommandContext(ctx, "go", "build", "-C", strings.TrimSpace(string(root)), "-o", binary, "./cmd/feedfilter")
	if text, err := servertest.Run(build); err != nil {
		return "", fmt.Errorf("build feedfilter: %w\n%s", err, text)
	}
	return binary, nil
}

// fillService records everything with a subject in this process. It returns the memory of Redis per
// activity.
func fillService(ctx context.Context, r *run, client *redis.Client, file string) (perActivity float64, err error) {
	store, err := redisstore.New(client, serviceFilter)
	if err != nil {
		return 0, err
	}
	server := redisServer{client: client}
	before, err := server.memory(ctx)
	if err != nil {
		return 0, err
	}
	subject, err := bench.OpenSubject(ctx, bench.SubjectConfig{
		Store: store, File: file, Pages: bench.NumberFor(r.people.Entries()), FalsePositiveRate: r.rate,
	})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, subject.Close()) }()
	if err := subject.Record(ctx, r.people.Activities()); err != nil {
		return 0, err
	}
	after, err := server.memory(ctx)
	if err != nil {
		return 0, err
	}
	return float64(after-before) / float64(r.people.Entries()), subject.Record(ctx, r.people.Seen())
}

// start runs the command until it listens. The host kills it at the end.
func (s *service) start(ctx context.Context, r *run, command string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	//nolint:gosec,contextcheck // our own words; the host ends it
	cmd := exec.CommandContext(context.Background(), command, append([]string{"serve"}, args...)...)
	cmd.Env = append(os.Environ(), "FEEDFILTER_CONFIG=")
	process, err := servertest.Start(ctx, cmd, `"addr":"unix:`) // the service logs this address last
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	r.host.Cleanup(func() { _ = process.Kill() })
	s.pid = cmd.Process.Pid
	return nil
}
