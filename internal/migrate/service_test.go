package migrate_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/internal/migrate"
)

// scripted gives scripted answers first, and then those of a service.
type scripted struct {
	answers []string // "503 2" has a Retry-After
	calls   int
	token   string
}

func (s *scripted) RoundTrip(req *http.Request) (*http.Response, error) {
	s.calls++
	s.token = req.Header.Get("Authorization")
	next := "200"
	if len(s.answers) > 0 {
		next, s.answers = s.answers[0], s.answers[1:]
	}
	status, after, _ := strings.Cut(next, " ")
	resp := &http.Response{Header: make(http.Header), Status: status, Body: io.NopCloser(strings.NewReader(`{"items":[{"target":"2"}]}`))}
	if req.URL.Path == "/v1/kinds" {
		resp.Body = io.NopCloser(strings.NewReader(`{"kinds":[{"name":"block","plural":"blocks","ledger":true}]}`))
	}
	resp.Request = req
	resp.Header.Set("Retry-After", after)
	resp.Header.Set("Content-Type", "application/json")
	switch status {
	case "200":
		resp.StatusCode = http.StatusOK
	case "503":
		resp.StatusCode = http.StatusServiceUnavailable
	case "429":
		resp.StatusCode = http.StatusTooManyRequests
	case "400":
		resp.StatusCode = http.StatusBadRequest
		resp.Body = io.NopCloser(strings.NewReader(`{"error":{"code":"c","message":"that is wrong","field":"kind"}}`))
	case "nonsense":
		resp.StatusCode, resp.Body = http.StatusOK, io.NopCloser(strings.NewReader("<html>"))
	default:
		return nil, errors.New("connection refused")
	}
	return resp, nil
}

func TestServiceTriesAgain(t *testing.T) {
	many := strings.Split(strings.Repeat("503,", 50), ",")
	for name, c := range map[string]struct {
		answers []string
		calls   int
		least   time.Duration
		failure string // in the error; "": none
	}{
		"at once":         {nil, 1, 0, ""},
		"a bad moment":    {[]string{"503", "refused", "429"}, 4, 0, ""},
		"told to wait":    {[]string{"503 3", "429 2"}, 3, 5 * time.Second, ""},
		"down for good":   {many, 10, 0, "503"},
		"a mistake":       {[]string{"400"}, 1, 0, "kind: that is wrong"},
		"another program": {[]string{"nonsense"}, 1, 0, "unexpected answer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := &scripted{}
				s, err := migrate.NewService(t.Context(), newClient(t, "http://service", answers), "block")
				if err != nil {
					t.Fatal(err)
				}
				answers.answers, answers.calls = c.answers, 0
				begun := time.Now()
				list, err := s.List(t.Context(), "1")
				took := time.Since(begun)
				if answers.calls != c.calls || took < c.least || took > time.Minute {
					t.Errorf("%d calls in %v, want %d in %v or more", answers.calls, took, c.calls, c.least)
				}
				if c.failure == "" && (err != nil || len(list) != 1) {
					t.Errorf("%v, %v", list, err)
				}
				if c.failure != "" && (err == nil || !strings.Contains(err.Error(), c.failure)) {
					t.Errorf("the error is %v, want %q", err, c.failure)
				}
				if answers.token != "Bearer secret" {
					t.Errorf("the token is sent as %q", answers.token)
				}
			})
		})
	}
}

// TestServiceWrongAddress checks that a refused connection fails at once.
func TestServiceWrongAddress(t *testing.T) {
	answers := &scripted{answers: []string{"refused"}}
	if _, err := migrate.NewService(t.Context(), newClient(t, "http://service", answers), "block"); err == nil || answers.calls != 1 {
		t.Errorf("%d calls, %v", answers.calls, err)
	}
}

func TestServiceKind(t *testing.T) {
	w := newWorld(t, 0)
	for name, want := range map[string]string{"mute": `no kind "mute"`, "seen": "is not in the ledger"} {
		if _, err := migrate.NewService(t.Context(), w.client, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}
