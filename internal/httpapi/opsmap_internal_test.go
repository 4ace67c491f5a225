package httpapi

import (
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/activity/pages"
)

// TestMapCell: a cell has the number of its pages in each state, the worst values, and means over
// pages with data.
func TestMapCell(t *testing.T) {
	c := mapCell{From: 7, First: 70}
	for i, p := range []pages.SurveyedPage{
		{State: pages.PageUnknown, Age: time.Hour},
		{State: pages.PageUnused, Age: 2 * time.Second},
		{State: pages.PageMissing},
		{State: pages.PageDamaged},
		{State: pages.PageForeign},
		{State: pages.PageSound, Age: 9999 * time.Millisecond, Keys: 10, Bytes: 1000, Fill: 0.33333, Collided: 0.2, Rate: 2e-4},
		{State: pages.PageBehind, Behind: 3, Keys: 20, Bytes: 2000, Fill: 0.1, Collided: 0.1, Rate: 1e-4},
		{State: pages.PageBehind, Behind: 2},
		{State: pages.PageAhead, Age: 3 * time.Second, Keys: 1, Bytes: 500, Fill: 0.2, Collided: 0.00004},
		{State: pages.PageOverfull, Keys: 70_000, Bytes: 1, Fill: 0.6, Collided: 0.5},
	} {
		p.Number = uint32(70 + i)
		c.add(p)
	}
	c.end()
	want := mapCell{
		From: 7, To: 17, First: 70, Last: 79, Pages: 10, LookedAt: 9, Keys: 70_031, Bytes: 3501,
		Fill: spread{0.3083, 0.6}, Collided: spread{0.2, 0.5}, RateMax: 2e-4,
		Behind: 2, Missing: 1, Damaged: 1, Foreign: 1, Ahead: 1, Overfull: 1, Unused: 1, Unknown: 1, BehindMax: 3, OldestAge: 9, stand: 4,
	}
	if c != want {
		t.Errorf("got\n%+v, want\n%+v", c, want)
	}
}

// TestCellSize: there are never more cells than the maximum, and not many fewer, for any range of
// shared and dedicated pages.
func TestCellSize(t *testing.T) {
	for _, c := range []struct{ shared, own, cells, size int }{
		{16, 0, 16, 1}, {17, 0, 16, 2}, {16, 1, 16, 2}, {15, 1, 16, 1}, {0, 16, 4, 4}, {1, 0, 1024, 1},
		{16, 1, 2, 16}, {8, 8, 3, 8}, {4, 4, 3, 4},
		{16, -8, 8, 2},               // the range ends before the first dedicated page
		{1 << 24, 100, 1024, 16_641}, // 16,385 would give one cell too many
	} {
		if size := cellSize(c.shared, c.own, c.cells); size != c.size {
			t.Errorf("%d and %d pages in %d cells: %d in each, want %d", c.shared, c.own, c.cells, size, c.size)
		}
	}
}
