package redistest_test

import (
	"context"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

func TestRestartFromASnapshot(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"nothing kept": nil,
		"RDB":          {"--save", "60 1"},
		"AOF":          {"--appendonly", "yes", "--appendfsync", "always"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, args...)
			client := s.Client()
			set(t, client, "old", "value")
			snapshot := s.Snapshot()
			set(t, client, "old", "new value")
			set(t, client, "new", "value")
			want := func() {
				t.Helper()
				if got := client.Get(t.Context(), "old").Val(); got != "value" {
					t.Errorf("GET old = %q, want what was in the snapshot", got)
				}
				assertMissing(t, client, "new")
			}
			s.RestartFrom(snapshot)
			want()
			s.Kill()
			s.Restart()
			want()
			set(t, client, "new", "value")
			s.Kill()
			s.RestartFrom(snapshot)
			want()
		})
	}
}

func TestSnapshotChangesNothing(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	set(t, s.Client(), "key", "value")
	snapshot := s.Snapshot()
	other := redistest.Start(t)
	other.RestartFrom(snapshot)
	if got := other.Client().Get(t.Context(), "key").Val(); got != "value" {
		t.Errorf("GET from another server = %q, want what was in the snapshot", got)
	}
	s.Kill()
	s.Restart()
	assertMissing(t, s.Client(), "key")
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	conn := dial(t, s)
	s.Resume()
	s.Pause()
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.Client().Set(ctx, "key", "value", 0).Err(); !isTimeout(err) {
		t.Errorf("SET on a paused server: %v, want a timeout", err)
	}
	s.Resume()
	set(t, s.Client(), "key", "value")
	s.Pause()
	s.Kill()
	assertClosedByServer(t, conn)
	assertDown(t, s)
	s.Restart()
	assertMissing(t, s.Client(), "key")
	s.Pause()
	s.Stop()
	assertDown(t, s)
}
