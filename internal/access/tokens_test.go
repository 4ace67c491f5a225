package access_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/internal/access"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, name, text string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(text), 0o600))
}

// opened returns the tokens of a file with text, and their log.
func opened(t testing.TB, c access.TokensConfig, text string) (tokens *access.Tokens, file string, log *bytes.Buffer) {
	t.Helper()
	c.File = filepath.Join(t.TempDir(), "tokens.json")
	write(t, c.File, text)
	log = new(bytes.Buffer)
	c.Logger = slog.New(slog.NewJSONHandler(log, nil))
	tokens, err := access.OpenTokens(c)
	must(t, err)
	return tokens, c.File, log
}

// wantToken checks the result of checking a token.
func wantToken(t testing.TB, tokens *access.Tokens, token, name string, want error) {
	t.Helper()
	k, err := tokens.Check([]string{"Bearer " + token})
	if !errors.Is(err, want) || want == nil && k.Name != name {
		t.Errorf("token %q: %+v, %v; want %q, %v", token, k, err, name, want)
	}
}

func TestNewToken(t *testing.T) {
	a, b := access.NewToken(), access.NewToken()
	if a == b || !regexp.MustCompile(`^ff_[A-Z2-7]{52}$`).MatchString(a) {
		t.Errorf("%s, %s", a, b)
	}
	if h := access.HashToken("abc"); h != "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("hash of abc: %s", h)
	}
}

func errOf(_ *access.Token, err error) error { return err }

func TestCheck(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	expires := `,"expires":"2026-11-22T00:00:01Z"}`
	token := access.NewToken()
	tokens, _, _ := opened(t, access.TokensConfig{Now: func() time.Time { return now }}, fileOf(
		entry("first", "x", `"feed:read"`), entry("renderer", token, `"feed:read"`), strings.TrimSuffix(entry("short", "s", `"ops:read"`), "}")+expires))
	for _, good := range []string{"Bearer " + token, "bearer " + token, "BEARER   " + token} {
		if k, err := tokens.Check([]string{good}); err != nil || k.Name != "renderer" {
			t.Errorf("%q: %+v, %v", good, k, err)
		}
	}
	for header, want := range map[string]error{
		"":                                      access.ErrMalformed,
		"Bearer":                                access.ErrMalformed,
		"Bearer " + "":                          access.ErrMalformed,
		token:                                   access.ErrMalformed,
		"Basic " + token:                        access.ErrMalformed,
		"Bearer\t" + token:                      access.ErrMalformed,
		"Bearer " + token + " ":                 access.ErrMalformed,
		"Bearer " + token + ", Bearer x":        access.ErrMalformed,
		"Bearer " + token + "\x00":              access.ErrMalformed,
		" Bearer " + token:                      access.ErrMalformed,
		"Bearer " + strings.Repeat("x", 257):    access.ErrMalformed,
		"Bearer " + strings.Repeat("x", 256):    access.ErrUnknown,
		"Bearer " + token + "A":                 access.ErrUnknown,
		"Bearer " + token[:len(token)-1]:        access.ErrUnknown,
		"Bearer " + strings.ToLower(token):      access.ErrUnknown,
		"Bearer " + access.HashToken(token)[7:]: access.ErrUnknown,
	} {
		if _, err := tokens.Check([]string{header}); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", header, err, want)
		}
	}
	for range 1000 { // part of a hash must not match
		if guess := access.NewToken(); !errors.Is(errOf(tokens.Check([]string{"Bearer " + guess})), access.ErrUnknown) {
			t.Errorf("%q is accepted as a token", guess)
		}
	}
	if _, err := tokens.Check(nil); !errors.Is(err, access.ErrNoToken) {
		t.Errorf("no header: %v", err)
	}
	if _, err := tokens.Check([]string{"Bearer " + token, "Bearer " + token}); !errors.Is(err, access.ErrMalformed) {
		t.Errorf("two headers: %v", err)
	}
	wantToken(t, tokens, "s", "short", nil)
	now = now.Add(time.Second - time.Nanosecond)
	wantToken(t, tokens, "s", "short", nil)
	now = now.Add(time.Nanosecond)
	wantToken(t, tokens, "s", "", access.ErrExpired)
	wantToken(t, tokens, "x", "first", nil)
}

func TestAllows(t *testing.T) {
	k := access.Token{Scopes: []access.Scope{access.FeedRead}}
	if !k.Allows() || !k.Allows(access.FeedRead) || !k.Allows(access.OpsRead, access.FeedRead) || k.Allows(access.OpsRead) || k.Allows(access.ActivityWrite, access.OpsRead) {
		t.Error("feed:read allows something else")
	}
}

// TestReload replaces the token file in all usual ways.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens, file, log := opened(t, access.TokensConfig{}, fileOf(entry("old", "old", `"feed:read"`)))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { tokens.Watch(ctx); close(ended) }()
		defer func() { cancel(); <-ended }()
		noticed := func(reloads, failures uint64, failing bool) {
			t.Helper()
			time.Sleep(1100 * time.Millisecond) // on the bubble's clock
			synctest.Wait()
			if got, want := tokens.Stats(), (access.ReloadStats{Reloads: reloads, Failures: failures, Failing: failing}); got != want {
				t.Errorf("%+v, want %+v", got, want)
			}
		}
		noticed(0, 0, false)
		write(t, file, fileOf(entry("new", "new", `"feed:read"`)))
		wantToken(t, tokens, "old", "old", nil)
		noticed(1, 0, false)
		wantToken(t, tokens, "new", "new", nil)
		wantToken(t, tokens, "old", "", access.ErrUnknown)

		// The same length and modification time, as some tools keep them.
		info, err := os.Stat(file)
		must(t, err)
		write(t, file, fileOf(entry("neu", "neu", `"feed:read"`)))
		must(t, os.Chtimes(file, info.ModTime(), info.ModTime()))
		noticed(2, 0, false)
		wantToken(t, tokens, "neu", "neu", nil)

		for i, broken := range []string{"", `{"tokens":[]}`, fileOf(entry("bad name", "x", `"feed:read"`))} {
			write(t, file, broken)
			noticed(2, uint64(i+1), true)
			noticed(2, uint64(i+1), true) // one failure for each new content
			wantToken(t, tokens, "neu", "neu", nil)
			if tokens.Reload(ctx) == nil {
				t.Error("an invalid file is reloaded")
			}
		}
		must(t, os.Remove(file))
		noticed(2, 4, true)
		noticed(2, 4, true)
		if tokens.Reload(ctx) == nil {
			t.Error("a missing file is reloaded")
		}
		wantToken(t, tokens, "neu", "neu", nil)
		if n := strings.Count(log.String(), `"level":"ERROR"`); n != 4 || !strings.Contains(log.String(), "reload failed, previous contents stay in force") {
			t.Errorf("%d errors in %s", n, log)
		}

		// Kubernetes replaces a directory behind two symbolic links.
		dir := filepath.Dir(file)
		for _, name := range []string{"one", "two"} {
			must(t, os.Mkdir(filepath.Join(dir, name), 0o700))
			write(t, filepath.Join(dir, name, "tokens.json"), fileOf(entry(name, name, `"ops:read"`)))
		}
		link := func(to string) {
			t.Helper()
			if err := errors.Join(os.Symlink(to, filepath.Join(dir, "next")), os.Rename(filepath.Join(dir, "next"), filepath.Join(dir, "data"))); err != nil {
				t.Fatal(err)
			}
		}
		link("one")
		must(t, os.Symlink("data/tokens.json", file))
		noticed(3, 4, false)
		wantToken(t, tokens, "one", "one", nil)
		link("two")
		noticed(4, 4, false)
		wantToken(t, tokens, "two", "two", nil)
		wantToken(t, tokens, "one", "", access.ErrUnknown)
	})
}

// TestReloadAfterInvalidFile restores the old content of an invalid file. That ends the failure,
// and does not count as a reload.
func TestReloadAfterInvalidFile(t *testing.T) {
	text := fileOf(entry("a", "a", `"feed:read"`))
	tokens, file, _ := opened(t, access.TokensConfig{}, text)
	write(t, file, "x")
	if tokens.Reload(t.Context()) == nil || !tokens.Stats().Failing {
		t.Error("x is accepted")
	}
	write(t, file, text)
	if err := tokens.Reload(t.Context()); err != nil || tokens.Stats().Failing {
		t.Errorf("%v, %+v", err, tokens.Stats())
	}
	write(t, file, text+strings.Repeat(" ", 1<<20))
	if err := tokens.Reload(t.Context()); err == nil || !strings.Contains(err.Error(), "longer than 1 MiB") {
		t.Errorf("a file over 1 MiB: %v", err)
	}
	wantToken(t, tokens, "a", "a", nil)
}

// TestReloadKeepsRates changes the file. A token with an unchanged rate keeps what it has used, and
// a changed rate applies at once.
func TestReloadKeepsRates(t *testing.T) {
	rated := func(rate string) string {
		return fileOf(strings.TrimSuffix(entry("a", "a", `"feed:read"`), "}") + `,"rate":1,"burst":` + rate + `}`)
	}
	tokens, file, _ := opened(t, access.TokensConfig{}, rated("2"))
	now := time.Now()
	use := func() time.Duration {
		t.Helper()
		k, err := tokens.Check([]string{"Bearer a"})
		must(t, err)
		return k.Take(now)
	}
	wantBurst := func(n int) {
		t.Helper()
		for i := range n {
			if wait := use(); wait > 0 {
				t.Errorf("request %d of %d: wait %v", i, n, wait)
			}
		}
		if use() == 0 {
			t.Errorf("more than %d at once", n)
		}
	}
	wantBurst(2)
	write(t, file, rated("2")+"\n")
	if err := tokens.Reload(t.Context()); err != nil || tokens.Stats().Reloads != 1 {
		t.Fatal(err)
	}
	if use() == 0 {
		t.Error("a change of the file reset the token's rate")
	}
	write(t, file, rated("3"))
	must(t, tokens.Reload(t.Context()))
	wantBurst(3)
}

// TestAgain checks Again, which streams call because they may outlive their tokens.
func TestAgain(t *testing.T) {
	now := time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	tokens, file, _ := opened(t, access.TokensConfig{Now: func() time.Time { return now }},
		fileOf(strings.TrimSuffix(entry("a", "a", `"feed:read"`), "}")+`,"expires":"2026-11-22T00:00:01Z"}`))
	k, err := tokens.Check([]string{"Bearer a"})
	must(t, err)
	if _, err := tokens.Again(k); err != nil {
		t.Error(err)
	}
	now = now.Add(time.Second)
	if _, err := tokens.Again(k); !errors.Is(err, access.ErrExpired) {
		t.Errorf("expired: %v", err)
	}
	write(t, file, fileOf(entry("a", "a", `"ops:read"`)))
	must(t, tokens.Reload(t.Context()))
	if again, err := tokens.Again(k); err != nil || again.Allows(access.FeedRead) || !again.Allows(access.OpsRead) {
		t.Errorf("with other scopes: %+v, %v", again, err)
	}
	write(t, file, fileOf(entry("b", "b", `"ops:read"`)))
	must(t, tokens.Reload(t.Context()))
	if _, err := tokens.Again(k); !errors.Is(err, access.ErrUnknown) {
		t.Errorf("removed: %v", err)
	}
}

func FuzzAuthorization(f *testing.F) {
	const token = "ff_TOKEN"
	tokens, _, _ := opened(f, access.TokensConfig{}, fileOf(entry("a", token, `"feed:read"`)))
	for _, header := range []string{"Bearer " + token, "bearer  " + token, "Basic eA==", "Bearer", "Bearer \xff", "Bearer " + token + "\n", ""} {
		f.Add(header)
	}
	right := regexp.MustCompile(`^[Bb][Ee][Aa][Rr][Ee][Rr] +` + token + `$`)
	f.Fuzz(func(t *testing.T, header string) {
		k, err := tokens.Check([]string{header})
		if (err == nil) != right.MatchString(header) || err == nil && k.Name != "a" {
			t.Fatalf("%q: %+v, %v", header, k, err)
		}
	})
}
