package migrate_test

import (
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/internal/migrate"
)

func TestFindKind(t *testing.T) {
	w := newWorld(t, 0)
	for name, want := range map[string]string{"mute": `no kind "mute"`, "seen": "is not in the ledger"} {
		if _, err := migrate.FindKind(t.Context(), w.client, name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	for _, name := range []string{"block", "blocks"} {
		if k, err := migrate.FindKind(t.Context(), w.client, name); k.Name != "block" || err != nil {
			t.Errorf("%s: the kind %q, %v", name, k.Name, err)
		}
	}
}
