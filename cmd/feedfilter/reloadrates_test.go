package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/client"
)

// TestReloadRates reloads new rate limits, and sends one request more than they allow.
func TestReloadRates(t *testing.T) {
	dir := t.TempDir()
	settings, tokens := filepath.Join(dir, "settings.json"), filepath.Join(dir, "tokens.json")
	tokenFile(t, tokens, "app")
	writeFile(t, settings, `{}`)
	s := serve(t, "--data-dir", dir, "--pages=16", "--auth-file", tokens, "--config", settings)
	url := "http://" + s.addr()
	reload := func(text string) {
		writeFile(t, settings, text)
		s.signal(syscall.SIGHUP)
		s.awaitLog("settings reloaded")
	}
	want := func(what, user string, codes ...int) {
		t.Helper()
		for i, code := range codes {
			if got, err := ask(t, http.DefaultClient, http.MethodGet, url+"/v1/users/"+user, "app"); err != nil || got != code {
				t.Errorf("%s, request %d: %d, %v; want %d", what, i, got, err, code)
			}
		}
	}
	want("no limits", "1", 200, 200, 200)
	reload(`{"rate-limit": "0.0001:2"}`)
	want("of a token", "1", 200, 200, 429)
	reload(`{"user-rate-limit": "0.0001:1"}`)
	want("of a user", "1", 200, 429)
	want("of another", "2", 200, 429)
	reload(`{"sample-rate": 1}`)
	want("no limits any more", "1", 200, 200, 200)

	c, err := client.New(url, client.Options{Token: client.StaticToken("app")})
	must(t, err)
	defer c.Close()
	if _, err := c.Filter(t.Context(), client.FilterRequest{Viewer: "1", Posts: []client.Post{{ID: "p", Author: "2"}}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the feed is compared with the ledger", func() bool {
		var stats struct {
			Sampling struct {
				Feeds int `json:"feeds"`
			} `json:"sampling"`
		}
		err := c.Call(t.Context(), http.MethodGet, []string{"v1", "stats"}, nil, nil, &stats)
		return err == nil && stats.Sampling.Feeds == 1
	})
	s.signal(syscall.SIGTERM)
	s.wantExit(0)
}

// TestServerErrorsAreThrottled checks that log lines that strangers can cause are throttled. Failed
// handshakes are an example.
func TestServerErrorsAreThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		server := newServer(nil, slog.New(slog.NewTextHandler(&log, nil)), defaultTimeouts())
		for range 1000 {
			server.ErrorLog.Print("http: TLS handshake error")
		}
		if n := strings.Count(log.String(), "level=WARN msg=\"http: TLS handshake error\"\n"); n != 10 {
			t.Errorf("%d lines of 1000 at once", n)
		}
		time.Sleep(time.Second)
		server.ErrorLog.Print("http: TLS handshake error")
		wantContains(t, log.String(), "suppressed=990")
	})
}
