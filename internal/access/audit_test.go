package access_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/feedfilter/feedfilter/internal/access"
)

// linesOf returns the values of "n" in the lines of an audit log.
func linesOf(t *testing.T, file string) (numbers []int) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		var l struct {
			Time string `json:"time"`
			Msg  string `json:"msg"`
			N    int    `json:"n"`
		}
		if err := json.Unmarshal([]byte(line), &l); err != nil || l.Time == "" || l.Msg != "request" {
			t.Fatalf("line %q: %v", line, err)
		}
		numbers = append(numbers, l.N)
	}
	return numbers
}

func TestAudit(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "audit.log")
	quiet := slog.New(slog.DiscardHandler)
	log := func(a *access.Audit, n int) { a.Log(t.Context(), slog.Int("n", n)) }
	a, err := access.OpenAudit(file, access.AuditDrop, quiet)
	must(t, err)
	log(a, 1)
	if got := linesOf(t, file); len(got) != 1 { // before Close, as a kill would leave it
		t.Errorf("%v", got)
	}
	must(t, os.Rename(file, file+".1"))
	log(a, 2)
	must(t, a.Reopen())
	log(a, 3)
	must(t, a.Close())
	if a, err = access.OpenAudit(file, access.AuditDrop, quiet); err != nil { // appends to the file
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range 100 {
				log(a, 4)
				if i%20 == 0 {
					_ = a.Reopen()
				}
			}
		})
	}
	all.Wait()
	must(t, a.Close())
	if got := linesOf(t, file+".1"); len(got) != 2 || got[0] != 1 || got[1] != 2 {
		t.Errorf("lines of the moved file: %v", got)
	}
	if got := linesOf(t, file); len(got) != 801 || got[0] != 3 {
		t.Errorf("%d lines, want 801", len(got))
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info, err)
	}
	if _, err := access.OpenAudit(filepath.Join(dir, "no", "such", "dir"), access.AuditDrop, quiet); err == nil {
		t.Error("a file in a missing directory was opened")
	}
}

// TestAuditReopenFails checks that the old file stays in use if the file cannot be reopened.
func TestAuditReopenFails(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	must(t, os.Mkdir(dir, 0o700))
	a, err := access.OpenAudit(filepath.Join(dir, "audit.log"), access.AuditDrop, slog.New(slog.DiscardHandler))
	must(t, err)
	must(t, os.Rename(dir, dir+"2"))
	if a.Reopen() == nil {
		t.Error("reopened in a missing directory")
	}
	a.Log(t.Context(), slog.Int("n", 7))
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if got := linesOf(t, filepath.Join(dir+"2", "audit.log")); len(got) != 1 || got[0] != 7 {
		t.Errorf("%v", got)
	}
}

// failing is a file on a disk that is full for some time.
type failing struct {
	bytes.Buffer

	full bool
}

func (f *failing) Write(p []byte) (int, error) {
	if f.full {
		return 0, errors.New("no space left")
	}
	return f.Buffer.Write(p)
}

func TestAuditFailures(t *testing.T) {
	var log bytes.Buffer
	out := &failing{}
	a := access.NewAudit(out, access.AuditDrop, slog.New(slog.NewJSONHandler(&log, nil)))
	for _, full := range []bool{false, true, true, true, false, true} {
		out.full = full
		a.Log(t.Context())
	}
	if err := errors.Join(a.Reopen(), a.Close()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(out.String(), "\n"); a.Failures() != 4 || n != 3 { // one line reports the first three
		t.Errorf("%d failures, %d lines", a.Failures(), n)
	}
	if errs, infos := strings.Count(log.String(), `"ERROR"`), strings.Count(log.String(), `"INFO"`); errs != 2 || infos != 1 {
		t.Errorf("logged: %s", &log)
	}
}

// TestAuditRefuses has a full disk and a log that must not lose lines. Requests are refused until
// the failed line is written, and no line is lost.
func TestAuditRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		out := &filling{room: 10}
		a := access.NewAudit(out, access.AuditRefuse, slog.New(slog.NewJSONHandler(&log, nil)))
		if err := a.Check(); err != nil {
			t.Error(err)
		}
		a.Log(t.Context(), slog.Int("n", 1)) // only part of it fits
		if err := a.Check(); !errors.Is(err, access.ErrAuditBehind) {
			t.Errorf("with a full disk: %v", err)
		}
		a.Log(t.Context(), slog.Int("n", 2)) // a request in flight
		out.set(1 << 10)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if err := a.Check(); err != nil {
			t.Errorf("with a disk that has room again: %v", err)
		}
		a.Log(t.Context(), slog.Int("n", 3))
		if n := strings.Count(out.String(), "\n"); n != 4 || a.Failures() != 0 || !strings.Contains(log.String(), `"lost":0`) {
			t.Errorf("%d failures, %q, logged %s", a.Failures(), out, &log)
		}
		for i := range 3 {
			if n := strings.Count(out.String(), fmt.Sprintf(`"n":%d}`, i+1)); n != 1 {
				t.Errorf("line %d occurs %d times: %q", i+1, n, out)
			}
		}
		out.set(0)
		a.Log(t.Context())
		if err := a.Close(); err == nil || !strings.Contains(err.Error(), "1 lines") {
			t.Errorf("closed with a full disk: %v", err)
		}
	})
}

// filling is a file on a disk with room for a few more bytes.
type filling struct {
	bytes.Buffer

	mu   sync.Mutex
	room int
}

func (f *filling) set(room int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room = room
}

func (f *filling) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, _ := f.Buffer.Write(p[:min(len(p), f.room)])
	f.room -= n
	if n < len(p) {
		return n, errors.New("no space left")
	}
	return n, nil
}

// TestAuditTornLine checks that an incomplete line does not damage the next one.
func TestAuditTornLine(t *testing.T) {
	out := &filling{room: 1 << 10}
	a := access.NewAudit(out, access.AuditDrop, slog.New(slog.DiscardHandler))
	for n, room := range []int{1 << 10, 20, 0, 1, 1 << 10, 1 << 10, 1, 1 << 10} {
		out.room = room
		a.Log(t.Context(), slog.Int("n", n))
	}
	var whole []int
	if strings.Contains(out.String(), "\n\n") {
		t.Errorf("an empty line: %q", out)
	}
	for line := range strings.Lines(out.String()) {
		var l struct {
			N    int `json:"n"`
			Lost int `json:"lost"`
		}
		if json.Unmarshal([]byte(line), &l) == nil {
			whole = append(whole, l.N-l.Lost)
		}
	}
	if want := []int{0, -3, 4, 5, -1, 7}; !slices.Equal(whole, want) || a.Failures() != 4 {
		t.Errorf("%d failures, and lines %[3]v of %[2]q are readable, want %[4]v", a.Failures(), out, whole, want)
	}

	file := filepath.Join(t.TempDir(), "audit.log")
	tear := func() { // as another process leaves it
		must(t, os.WriteFile(file, []byte(`{"time":"2026`), 0o600))
	}
	tear()
	for n := range 2 {
		a, err := access.OpenAudit(file, access.AuditDrop, slog.New(slog.DiscardHandler))
		must(t, err)
		a.Log(t.Context(), slog.Int("n", n))
		must(t, a.Close())
	}
	readable := func() {
		t.Helper()
		text, err := os.ReadFile(file)
		lines := strings.Split(string(text), "\n")
		if err != nil || len(lines) != 4 || !json.Valid([]byte(lines[1])) || !json.Valid([]byte(lines[2])) {
			t.Errorf("%q, %v", text, err)
		}
	}
	readable()
	again, err := access.OpenAudit(file, access.AuditDrop, slog.New(slog.DiscardHandler))
	must(t, err)
	must(t, os.Remove(file))
	tear()
	must(t, again.Reopen())
	for n := range 2 {
		again.Log(t.Context(), slog.Int("n", n))
	}
	must(t, again.Close())
	readable()
}
