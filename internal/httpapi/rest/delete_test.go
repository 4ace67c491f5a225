package rest_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	"github.com/feedfilter/feedfilter/internal/servertest"
)

// newOwnedService is a service that calls before ahead of each read of a user's rows, with the
// number of the call, from 1.
func newOwnedService(t *testing.T, c httpapi.Config, before func(ctx context.Context, call int64) error) *httpapitest.Service {
	t.Helper()
	l, err := ledger.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"), ledger.Options{Pages: 16})
	httpapitest.Must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	s := &httpapitest.Service{Ledger: &httpapitest.FaultyLedger{}, Store: &httpapitest.FaultyStore{Store: &favfilter.Memory{}}}
	var calls atomic.Int64
	owned := func(ctx context.Context, c *ledger.Call, next func(ctx context.Context) error) error {
		if c.Operation == "owned" {
			if err := before(ctx, calls.Add(1)); err != nil {
				return err
			}
		}
		return next(ctx)
	}
	s.Activities, err = activity.Open(t.Context(), activity.Config{
		Ledger: l.Around(owned).Around(s.Ledger.Around), Store: s.Store, FalsePositiveRate: 1e-8,
	})
	httpapitest.Must(t, err)
	t.Cleanup(s.Activities.Close)
	c.Activities = s.Activities
	s.Handler = httpapi.New(c)
	return s
}

// record records activities without the service and its timeouts.
func record(t testing.TB, s *httpapitest.Service, activities ...activity.Activity) {
	t.Helper()
	if _, err := s.Activities.Record(t.Context(), activities); err != nil {
		t.Fatal(err)
	}
}

// awaitRequests waits until want requests are in progress.
func awaitRequests(t testing.TB, s *httpapitest.Service, want float64) {
	t.Helper()
	try := func() error {
		if in, _ := s.Requests(t); in != want {
			return fmt.Errorf("%v requests are in progress", in)
		}
		return nil
	}
	err := servertest.Await(t.Context(), fmt.Sprintf("%v requests are in progress", want), func(context.Context) error { return try() })
	httpapitest.Must(t, err)
}

// request sends a request to a real server and returns the answer, with status 0 if there is none.
func request(t testing.TB, client *http.Client, method, url string) httpapitest.Answer {
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Error(err)
		return httpapitest.Answer{}
	}
	res, err := client.Do(r)
	if err != nil {
		return httpapitest.Answer{Body: err.Error()}
	}
	defer res.Body.Close()
	return httpapitest.AnswerOf(t, res)
}

func TestDeleteUser(t *testing.T) {
	s := httpapitest.Open(t)
	s.Want(t, "DELETE", "/v1/users/1", "", 200, `{"deleted":0}`)
	s.Want(t, "POST", "/v1/activities", httpapitest.Lines(
		httpapitest.ActivityLine("1", "hide", "p", "add"), httpapitest.ActivityLine("2", "block", "1", "add"), httpapitest.ActivityLine("2", "block", "3", "add"),
		httpapitest.ActivityLine("1", "seen", "q", "add"),
	), 200, `{"results":[`+httpapitest.Repeated(5, httpapitest.Yes)+`]}`)
	s.Ledger.Set(httpapitest.Failing)
	httpapitest.WantDown(t, "without the ledger", s.Do(t, "DELETE", "/v1/users/1", ""), "ledger")
	s.Ledger.Set(httpapitest.Sound)
	s.Want(t, "DELETE", "/v1/users/1", "", 200, `{"deleted":3}`)
	s.Want(t, "DELETE", "/v1/users/1", "", 200, `{"deleted":0}`)
	s.Want(t, "GET", "/v1/users/1", "", 200, `{"counts":{"block":0,"hide":0,"like":0}}`)
	s.Want(t, "GET", "/v1/users/2", "", 200, `{"counts":{"block":1,"hide":0,"like":0}}`)
	s.Want(t, "POST", "/v1/feed/filter", `{"viewer":"1","posts":[{"id":"p","author":"2"},{"id":"q","author":"9"}]}`, 200,
		`{"posts":[{"id":"p"},{"id":"q"}],"dropped":[],"degraded":[]}`)
}

// TestDeleteTakesItsTime: a deletion outlasts a later request, which exceeds the timeouts of the
// service and its server.
func TestDeleteTakesItsTime(t *testing.T) {
	hold := make(chan struct{})
	s := newOwnedService(t, httpapi.Config{Timeout: 1500 * time.Millisecond}, func(ctx context.Context, _ int64) error {
		select {
		case <-hold:
		case <-ctx.Done():
		}
		return ctx.Err()
	})
	record(t, s, activity.Activity{User: "1", Kind: "block", Target: "2"})
	openLists := s.Ledger.Lists.Shut()
	defer openLists()
	server := httptest.NewUnstartedServer(s)
	server.Config.WriteTimeout = time.Second
	server.Start()
	defer server.Close()
	deleted := make(chan httpapitest.Answer, 1)
	go func() { deleted <- request(t, server.Client(), "DELETE", server.URL+"/v1/users/1") }()
	awaitRequests(t, s, 1)
	list := request(t, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, "GET", server.URL+"/v1/users/1/blocks")
	if list.Status != 0 {
		t.Fatalf("the list was answered: %d %s", list.Status, list.Body)
	}
	close(hold)
	if a := httpapitest.Await(t, deleted); a.Status != 200 || a.Body != `{"deleted":1}` {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// TestDeleteEnds: a deletion ends when its client leaves, and has a timeout of its own.
func TestDeleteEnds(t *testing.T) {
	left := make(chan time.Duration, 1)
	ended := make(chan error, 1)
	s := newOwnedService(t, httpapi.Config{Timeout: time.Second}, func(ctx context.Context, _ int64) error {
		deadline, _ := ctx.Deadline()
		left <- time.Until(deadline)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	})
	conn := httpapitest.Dial(t, s.Start(t))
	if _, err := conn.Write([]byte("DELETE /v1/users/1 HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	if d := httpapitest.Await(t, left); d <= 4*time.Minute || d > 5*time.Minute {
		t.Errorf("a deletion may take %v, want 5 min", d)
	}
	_ = conn.Close()
	if err := httpapitest.Await(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("ended by %v", err)
	}
	awaitRequests(t, s, 0)
}
