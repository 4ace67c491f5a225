package access_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/internal/access"
)

func TestIDs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data", "id.key")
	var hashes sync.Map
	var all sync.WaitGroup
	for range 8 { // processes that start at the same time use the same key
		all.Go(func() {
			ids, err := access.OpenIDs(file)
			if err != nil {
				t.Error(err)
				return
			}
			hashes.Store(ids.Hash("1"), true)
		})
	}
	all.Wait()
	n := 0
	hashes.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("one id has %d hashes", n)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode of the key: %v, %v", info, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(file)); err != nil || len(entries) != 1 {
		t.Errorf("unexpected files next to the key: %v, %v", entries, err)
	}
	if a, b := access.NewIDs(), access.NewIDs(); a.Hash("1") == b.Hash("1") || a.Hash("1") == a.Hash("2") || a.Hash("") != "" {
		t.Error("the hash depends on more than the key and the id")
	}
}

// TestIDsGolden checks values that every version must keep, so that older logs can be searched.
// Other tools compute the same HMAC-SHA256.
func TestIDsGolden(t *testing.T) {
	file := filepath.Join(t.TempDir(), "id.key")
	write(t, file, strings.Repeat("0b", 32)+"\n")
	ids, err := access.OpenIDs(file)
	must(t, err)
	// printf %s alice | openssl dgst -sha256 -mac HMAC -macopt hexkey:0b0b...
	if got := ids.Hash("alice"); got != "h_99db77b0762df8b1c0373451dc06e834" {
		t.Error(got)
	}
	for _, bad := range []string{"", "x", strings.Repeat("0b", 31), strings.Repeat("0b", 33), strings.Repeat("zz", 32)} {
		write(t, file, bad)
		if _, err := access.OpenIDs(file); err == nil || bad != "" && strings.Contains(err.Error(), bad+bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
