package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/feedfilter/feedfilter/client"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
	"github.com/feedfilter/feedfilter/internal/servertest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

const (
	// serviceFilter is the name of the service's filter.
	serviceFilter = "feed"
	// startTimeout is the upper bound of the time until a service listens.
	startTimeout = time.Minute
)

// openService starts "feedfilter serve" with its own Redis server and a ledger in SQLite, which
// have the activities of the population and what the viewers have seen. It adds the rows of all
// formats. The PINGs go to the service's Redis server from then on.
func (r *run) openService(ctx context.Context) error {
	binary, err := command(ctx, r.service, r.dir)
	if err != nil {
		return err
	}
	server := redistest.Start(r.host)
	r.client = server.Client()
	r.ways[0].redis = r.client
	pages := bench.NumberFor(r.people.Entries())
	s, bytes, err := r.subject(ctx, r.client, serviceFilter, r.people, pages)
	if err != nil {
		return err
	}
	if err := s.Close(); err != nil {
		return err
	}
	addr := servertest.Addr(servertest.ReservePort(r.host))
	url, socket := "http://"+addr, "unix:"+filepath.Join(r.dir, "s")
	pid, err := r.host.serve(ctx, binary, append([]string{
		"--addr", addr + "," + socket,
		"--redis", server.URL(),
		"--ledger", "sqlite:" + filepath.Join(r.dir, serviceFilter+".db"),
		"--data-dir", filepath.Join(r.dir, "data"),
		"--filter", serviceFilter,
		"--false-positive-rate", fmt.Sprint(r.rate),
	}, r.serviceArgs...))
	if err != nil {
		return fmt.Errorf("start the service: %w", err)
	}
	add := func(word, name string, checks func([]*bench.Feed) check) {
		r.add(&way{
			name:    "service, " + name,
			word:    word,
			checks:  checks,
			redis:   r.client,
			service: pid,
			bytes:   bytes / float64(r.people.Entries()),
		})
	}
	json, protobuf := client.Options{JSON: true}, client.Options{}
	add("json", "JSON", byClient(url, "", json))
	add("json-dropped", "JSON, only what is dropped", byClient(url, client.AnswerDropped, json))
	add("protobuf", "Protobuf, as package client does", byClient(url, "", protobuf))
	add("grpc", "gRPC over HTTP/2, generated client", byGRPC(url))
	add("socket", "Protobuf over a Unix socket", byClient(socket, "", protobuf))
	r.url, r.servicePID = url, pid
	return nil
}

// command returns the path of the feedfilter to run. It builds the command in dir unless a flag
// names one.
func command(ctx context.Context, service, dir string) (string, error) {
	if service != "" {
		return exec.LookPath(service)
	}
	root, err := exec.CommandContext(
		ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/feedfilter/feedfilter",
	).Output()
	if err != nil {
		return "", fmt.Errorf("find the module of feedfilter: %w", err)
	}
	binary := filepath.Join(dir, "feedfilter")
	build := exec.CommandContext(
		ctx, "go", "build", "-C", strings.TrimSpace(string(root)), "-o", binary, "./cmd/feedfilter",
	)
	if text, err := servertest.Run(build); err != nil {
		return "", fmt.Errorf("build feedfilter: %w\n%s", err, text)
	}
	return binary, nil
}

// serve runs a feedfilter until it listens, and returns its process id. The host kills it at the
// end.
func (h *host) serve(ctx context.Context, binary string, args []string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	cmd := exec.CommandContext(context.Background(), binary, append([]string{"serve"}, args...)...)
	cmd.Env = append(os.Environ(), "FEEDFILTER_CONFIG=")
	process, err := servertest.Start(ctx, cmd, `"addr":"unix:`) // the service logs this address last
	if err != nil {
		return 0, err
	}
	h.Cleanup(func() { _ = process.Kill() })
	return cmd.Process.Pid, nil
}

// degradedError is the error for an answer in which not all kinds were checked.
type degradedError struct{ kind, reason string }

func (e *degradedError) Error() string { return e.kind + " could not be checked: " + e.reason }

// byClient returns the checks of package client.
func byClient(url, answer string, o client.Options) func([]*bench.Feed) check {
	c, err := client.New(url, o)
	if err != nil {
		panic(fmt.Sprintf("a URL that openService does not make: %v", err))
	}
	return func(feeds []*bench.Feed) check {
		requests := make([]client.FilterRequest, len(feeds))
		for i, f := range feeds {
			requests[i] = client.FilterRequest{Viewer: f.Viewer, Answer: answer}
			for _, p := range f.Posts {
				requests[i].Posts = append(requests[i].Posts, client.Post{ID: p.ID, Author: p.Author})
			}
		}
		return func(ctx context.Context, i int, dropped []bool) error {
			a, err := c.Filter(ctx, requests[i])
			switch {
			case err != nil:
				return err
			case len(a.Degraded) > 0:
				return &degradedError{a.Degraded[0].Kind, a.Degraded[0].Reason}
			case dropped == nil:
				return nil
			}
			ids := make(map[string]bool)
			for _, d := range a.Dropped {
				ids[d.ID] = true
			}
			for n, p := range feeds[i].Posts {
				dropped[n] = ids[p.ID]
			}
			return nil
		}
	}
}

// byGRPC returns the checks of the gRPC client that is generated from the schema.
func byGRPC(url string) func([]*bench.Feed) check {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	over := &http.Client{Transport: &http.Transport{Protocols: protocols}}
	c := feedfilterv1connect.NewFeedServiceClient(over, url, connect.WithGRPC())
	return func(feeds []*bench.Feed) check {
		requests := make([]*feedfilterv1.FilterRequest, len(feeds))
		for i, f := range feeds {
			m := &feedfilterv1.FilterRequest{Viewer: f.Viewer, Answer: feedfilterv1.Answer_ANSWER_DROPPED}
			for _, p := range f.Posts {
				m.Posts, m.Authors = append(m.Posts, p.ID), append(m.Authors, p.Author)
			}
			requests[i] = m
		}
		return func(ctx context.Context, i int, dropped []bool) error {
			a, err := c.Filter(ctx, connect.NewRequest(requests[i]))
			switch {
			case err != nil:
				return err
			case len(a.Msg.GetDegraded()) > 0:
				return &degradedError{a.Msg.GetDegraded()[0].GetKind(), a.Msg.GetDegraded()[0].GetReason()}
			case dropped == nil:
				return nil
			}
			clear(dropped)
			for _, d := range a.Msg.GetDropped() {
				if int(d.GetIndex()) >= len(dropped) {
					return fmt.Errorf("candidate %d of %d is dropped", d.GetIndex(), len(dropped))
				}
				dropped[d.GetIndex()] = true
			}
			return nil
		}
	}
}
