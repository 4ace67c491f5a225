package integration

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

// deletesUnderLoad deletes users while others write to the same page. No bit of a deleted user may
// remain.
func deletesUnderLoad(d deployment) func(t *testing.T) {
	return func(t *testing.T) {
		c := d.serve(t, "load", "--pages", "1", "--false-positive-rate", "1e-6")
		const victims, own, writers = 50, 4, 8
		var lines []map[string]string
		for v := range victims {
			for i := range own {
				lines = append(lines, act(fmt.Sprint("victim", v), "hide", fmt.Sprint("p", i), "add"))
			}
		}
		c.wants(t, "POST", "/v1/activities", batch(t, lines...), results(slices.Repeat([]string{changed}, len(lines))...))
		var wg sync.WaitGroup
		var deleted atomic.Bool
		var written atomic.Int64
		for w := range writers {
			wg.Go(func() {
				for i := 0; !deleted.Load() && !t.Failed(); i++ {
					h, err := c.try(t.Context(), "PUT", path("users", fmt.Sprint("w", w, ".", i), "hides", "p"), "")
					if err != nil || h.body != changed {
						t.Errorf("%d %s %v", h.status, h.body, err)
					}
					written.Add(1)
				}
			})
		}
		var pages [][]byte // the page after each deletion
		for v := range victims {
			c.wants(t, "DELETE", path("users", fmt.Sprint("victim", v)), "", fmt.Sprintf(`{"deleted":%d}`, own))
			if c.redis != nil {
				raw, err := c.redis.Client().Get(t.Context(), "fav:{load/0}:bits").Bytes()
				if err != nil {
					t.Error(err)
				}
				pages = append(pages, raw)
			}
		}
		deleted.Store(true)
		wg.Wait()
		db := c.database(t)
		rows := c.rows(t, db)
		if int64(len(rows)) != written.Load() || written.Load() == 0 {
			t.Errorf("%d rows, want the %d written during the deletions", len(rows), written.Load())
		}
		c.sameBits(t, rows)
		// Only rows of victims were deleted. So the page after each deletion holds keys of the
		// present rows and of the later victims.
		for v, raw := range pages {
			for i := v + 1; i < victims; i++ { // they are deleted later
				for p := range own {
					rows = append(rows, []string{"", fmt.Sprint("victim", i), "hide", fmt.Sprint("p", p)})
				}
			}
			left := 0
			image := imageOf(t, raw, rows)
			for i, b := range raw[favfilter.HeaderBytes:] {
				left += bits.OnesCount8(b &^ image.bits[i])
			}
			if left > 0 {
				t.Errorf("after deletion %d: %d bits belong to no row", v, left)
			}
			rows = slices.DeleteFunc(rows, func(row []string) bool { return row[0] == "" })
		}
	}
}
