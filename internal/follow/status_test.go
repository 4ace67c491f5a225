package follow

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
)

// status returns what a process knows of the source; local may be nil.
func (a *app) status(local Local) Status {
	a.t.Helper()
	if all := Statuses(a.recorder, local); len(all) > 0 {
		return all[0]
	}
	return Status{}
}

// Every process knows whether the source is followed, and how far. One that cannot follow says why,
// without the ids of a row, and the time that the ledger lags goes on.
func TestStatus(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	f := a.follower("one")
	if s := a.status(f); s.Name != "app" || s.Followed {
		t.Errorf("before it follows: %+v", s)
	}
	var log logBuffer
	f.logTo(slog.New(slog.NewTextHandler(&log, nil)))
	f.invalid.hashID = func(id string) string { return "h_of_" + strings.Repeat("x", len(id)) }
	stopped, _ := a.run(f)
	a.reached()
	soon(t, "both to know", func() bool {
		here, there := a.status(f), a.status(nil)
		return here.Followed && here.Active && there.Followed && there.Stats == nil && there.Position > 0 &&
			there.Age != nil && *there.Age < 60
	})
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) VALUES (4711, 4711)`)
	err := stopped()
	if err == nil {
		t.Fatal("a user who blocks themselves does not stop the follower")
	}
	if text := log.String(); strings.Contains(err.Error()+text, "4711") || !strings.Contains(text, `row="blocked_id=h_of_xxxx blocker_id=h_of_xxxx"`) {
		t.Errorf("the log shows ids, or no hashes:\n%v\n%s", err, text)
	}
	soon(t, "both to know that it stopped", func() bool { return !a.status(f).Followed && !a.status(nil).Followed })
	s := a.status(f)
	if s.Trouble != "a row of table blocks is not valid; follow --check names it" || s.Active || s.Behind == 0 || s.Lag <= 0 {
		t.Errorf("after it stopped: %+v, %+v", s, s.Stats)
	}
}

// A process that waits for another is not in trouble, and knows that the source is followed. A
// holder of the lease that cannot read the source knows that it is not.
func TestStatusOfWaiting(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	one, two := a.follower("one"), a.follower("two")
	stop := a.start(one)
	a.reached()
	a.start(two)
	soon(t, "the second to know", func() bool { s := a.status(two); return s.Followed && !s.Active && s.Trouble == "" })
	stop()
	soon(t, "the second to follow", func() bool { return a.status(two).Active })
	a.server.Kill()
	soon(t, "the second to be in trouble", func() bool {
		s := a.status(two)
		return !s.Followed && !s.Active && strings.HasPrefix(s.Trouble, "it cannot be read")
	})
	a.server.Restart()
	soon(t, "the second to follow again", func() bool { s := a.status(two); return s.Followed && s.Active && s.Trouble == "" })
}

// The log that the source keeps is known although nobody follows, and how much is left.
func TestWatch(t *testing.T) {
	t.Parallel()
	a := newApp(t)
	a.exec(`ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'`)
	a.exec(`SELECT pg_reload_conf()`)
	stop := a.start(a.follower("one"))
	a.reached()
	stop()
	f := a.follower("two")
	conn, err := f.source.connect(t.Context(), false)
	must(t, err)
	defer conn.Close(t.Context())
	f.measure(t.Context())
	before := f.Stats().Log
	a.exec(`INSERT INTO blocks (blocker_id, blocked_id) SELECT 1, 10 + n FROM generate_series(1, 20000) n`)
	f.measure(t.Context())
	s := f.Stats().Log
	if s.Kept < before.Kept+1<<20 || s.Left == nil || *s.Left > *before.Left-1<<20 || *s.Left < 1<<29 {
		t.Errorf("%+v, before %+v", s, before)
	}
	if report, err := f.Check(t.Context(), false); err != nil || report.Slot != fmt.Sprintf("ready, keeps %d MiB of WAL", s.Kept>>20) {
		t.Errorf("%+v, %v", report, err)
	}
	must(t, f.source.dropSlot(t.Context(), conn))
	f.measure(t.Context())
	if s := f.Stats().Log; s.Kept != 0 || s.Left != nil {
		t.Errorf("without a slot: %+v", s)
	}
}

// logBuffer is a log that goroutines write.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// TestLogShowsNoIDs: whatever is wrong with a row, the log has no value of it. The answer to its
// sender has.
func TestLogShowsNoIDs(t *testing.T) {
	const id, other = "4711-secret", "4712-secret"
	for name, row := range map[string]string{
		"self":    fmt.Sprintf(`"blocker_id":%q,"blocked_id":%[1]q,"created_at":null`, id),
		"no user": fmt.Sprintf(`"blocker_id":"","blocked_id":%q,"created_at":null`, id),
		"control": fmt.Sprintf(`"blocker_id":"1","blocked_id":"%s\u0007","created_at":null`, id),
		"long":    fmt.Sprintf(`"blocker_id":"1","blocked_id":%q,"created_at":null`, strings.Repeat(id, 30)),
		"no text": fmt.Sprintf(`"blocker_id":"1","blocked_id":[%q],"created_at":null`, id),
		"time":    fmt.Sprintf(`"blocker_id":%q,"blocked_id":"2","created_at":%q`, other, id),
	} {
		for _, skip := range []bool{false, true} {
			for _, hashed := range []bool{false, true} {
				s := newSink(t)
				var log logBuffer
				s.invalid.log, s.invalid.skip = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})), skip
				if hashed {
					s.invalid.hashID = func(text string) string { return fmt.Sprint("h_", len(text)) }
				}
				_, err := s.send(t, pg("c", "blocks", 100, 100, "", `{"id":1,`+row+`}`))
				if bad, refused := errors.AsType[*activity.InvalidError](err); refused == skip || refused && !strings.Contains(bad.Message, "secret") {
					t.Errorf("%s, skipped %v: %v", name, skip, err)
				}
				text := log.String()
				if strings.Contains(text, "secret") || !strings.Contains(text, "table=blocks") || strings.Contains(text, "=h_") != hashed {
					t.Errorf("%s, skipped %v, with hashes %v: the log is\n%s", name, skip, hashed, text)
				}
			}
		}
	}
}
