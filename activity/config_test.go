package activity

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/internal/faulttest"
)

// Each setting of a Recorder has its effect.
func TestConfigTakesEffect(t *testing.T) {
	l, store := openLedger(t, t.TempDir()+"/ledger.db", 4), &favfilter.Memory{}
	var rebuilds sync.Map // by reason; the scrub may rebuild pages as well
	var log bytes.Buffer
	errPersist := errors.New("the disk is full")
	r, err := Open(t.Context(), Config{
		Ledger: l, Store: store, Replica: &favfilter.Memory{}, StalenessBound: 5 * time.Second, ScrubRate: 77,
		OnRebuild: func(reason string, _ time.Duration, _ error) { rebuilds.Store(reason, nil) },
		Logger:    slog.New(slog.NewTextHandler(&log, nil)),
		Persist:   func(context.Context) error { return errPersist },
	})
	must(t, err)
	if got := r.StalenessBound(); got != 5*time.Second {
		t.Errorf("staleness bound %v", got)
	}
	if got := r.Stats().ScrubRate; got != 77 {
		t.Errorf("scrub rate %d", got)
	}
	g := &rig{Recorder: r, using: using{r}}
	g.record(t, true, add("1", "hide", "p"))
	g.want(t, "1", "hide", "p", Direct)
	if got := r.Stats().PastReplica; got == 0 {
		t.Error("the replica, which lacks the write, was not asked")
	}
	told := false
	for tries := 0; !told && tries < 100; tries++ { // one that joins a rebuild of the scrub has its reason
		_, err = r.RebuildPage(t.Context(), g.pageAt(t, "1"))
		must(t, err)
		_, told = rebuilds.Load("asked for")
	}
	if !told {
		t.Error("not told of the rebuild")
	}
	if _, _, err := r.DeleteUser(t.Context(), "2"); !errors.Is(err, errPersist) {
		t.Errorf("a deletion that is not durable: %v", err)
	}
	r.Close()
	r, err = Open(t.Context(), Config{Ledger: l, Store: faulttest.Down(), Logger: slog.New(slog.NewTextHandler(&log, nil))})
	must(t, err)
	using{r}.want(t, "1", "hide", "p", Direct)
	r.Close()
	if !strings.Contains(log.String(), "pages cannot be read") {
		t.Errorf("logged %q", &log)
	}
}

// pageAt is the page that a View of the user reads.
func (g *rig) pageAt(t *testing.T, user string) uint32 {
	t.Helper()
	v, err := g.View(t.Context(), user, g.Kinds().All())
	must(t, err)
	return v.At().Page
}

// An activity recorded without a ledger is durable before it is acknowledged.
func TestPlainPersists(t *testing.T) {
	errPersist := errors.New("the disk is full")
	g := openWithout(t, PlainConfig{Store: &favfilter.Memory{}, Pages: 2, Persist: func(context.Context) error { return errPersist }})
	if _, err := g.Record(t.Context(), []Activity{add("1", "hide", "p")}); !errors.Is(err, errPersist) {
		t.Errorf("error %v", err)
	}
}

// Settings that are out of range are refused.
func TestConfigOutOfRange(t *testing.T) {
	l := openLedger(t, t.TempDir()+"/ledger.db", 4)
	for name, c := range map[string]Config{
		"rate too low":    {FalsePositiveRate: 1e-9},
		"rate too high":   {FalsePositiveRate: 0.6},
		"bound too short": {StalenessBound: time.Millisecond},
		"bound too long":  {StalenessBound: 2 * time.Minute},
		"few shared keys": {MaxSharedKeys: 15},
		"negative cache":  {ListCache: -1},
		"cache too large": {ListCache: 1<<40 + 1},
		"negative scrub":  {ScrubRate: -1},
		"scrub too fast":  {ScrubRate: 100_001},
		"sound":           {}, // or the others would be refused for something else
	} {
		c.Ledger, c.Store = l, &favfilter.Memory{}
		r, err := Open(t.Context(), c)
		if err == nil {
			r.Close()
		}
		if (err == nil) != (name == "sound") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
