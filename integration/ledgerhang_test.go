package integration

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/pgtest"
)

// PostgreSQL hangs while writes and feeds that need it keep coming, more than the service takes at
// a time. They fail. Feeds that need only Redis are answered, and as correct as before.
func TestLedgerHangs(t *testing.T) {
	const requests = 16
	postgres := pgtest.Start(t)
	s := serve(t, "--ledger", postgres.Schema(), "--redis", startRedis(t).url, "--max-requests", fmt.Sprint(requests))
	s.logOnFailure()
	s.client.Timeout = 20 * time.Second
	if _, err := s.put("1", "blocks", "2", false); err != nil {
		t.Fatal(err)
	}
	feed := func(exact bool) error {
		var a feedAnswer
		err := s.call(http.MethodPost, "/v1/feed/filter", map[string]any{
			"viewer": "1", "exact": exact, "posts": []post{{ID: "p8", Author: "2"}, {ID: "p9", Author: "3"}},
		}, &a)
		if err == nil && (len(a.Posts) != 1 || a.Posts[0].ID != "p9") {
			err = fmt.Errorf("kept %v", a.Posts)
		}
		return err
	}
	if err := errors.Join(feed(false), feed(true)); err != nil {
		t.Fatal(err)
	}
	postgres.Pause()
	var others sync.WaitGroup
	ended := make(chan error, 2*requests)
	for i := range 2 * requests {
		others.Go(func() {
			if i%2 == 0 {
				ended <- feed(true)
				return
			}
			_, err := s.put("1", "blocks", fmt.Sprint("t", i), false)
			ended <- err
		})
		for s.inProgress()+len(ended) != i+1 { // until it waits, or is refused
			continue
		}
		if err := feed(false); err != nil {
			t.Errorf("a feed after %d requests that need the ledger, %d of them refused: %v", i+1, len(ended), err)
		}
	}
	for { // until it is known, from when on nobody waits
		_, err := s.put("1", "blocks", "9", false)
		wantUnavailable(t, err)
		if t.Failed() || strings.Contains(err.Error(), "unavailable: ledger") {
			break
		}
	}
	s.client.Timeout = time.Second
	wantUnavailable(t, feed(true))
	if err := feed(false); err != nil {
		t.Error(err)
	}
	postgres.Resume()
	others.Wait()
	for range 2 * requests {
		if err := <-ended; err != nil {
			wantUnavailable(t, err)
		}
	}
}

// inProgress returns the number of requests in progress.
func (s *service) inProgress() int {
	var stats struct {
		Requests struct {
			InProgress int `json:"in_progress"`
		}
	}
	if err := s.call(http.MethodGet, "/v1/stats", nil, &stats); err != nil {
		s.t.Fatal(err)
	}
	return stats.Requests.InProgress
}

// wantUnavailable checks that a request was answered 503.
func wantUnavailable(t *testing.T, err error) {
	t.Helper()
	answer, ok := errors.AsType[statusError](err)
	if !ok || answer.status != http.StatusServiceUnavailable || strings.Contains(answer.body, `"internal"`) {
		t.Errorf("%v, want 503", err)
	}
}
