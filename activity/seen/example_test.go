package seen_test

import (
	"context"
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
)

// Windows forget what a user has seen after 30 days, and after 35 at the latest.
func ExampleOpen() {
	ctx := context.Background()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	windows, err := seen.Open(&favfilter.Memory{}, seen.Config{
		Length: 30 * 24 * time.Hour,
		Now:    func() time.Time { return now }, // default: time.Now
	})
	if err != nil {
		panic(err)
	}
	outcomes, err := windows.Add(ctx, "U1", "P7", "P8")
	fmt.Println(outcomes, err)
	for range 2 {
		found, err := windows.Contains(ctx, "U1", "P7", "P9")
		fmt.Println(now.Format(time.DateOnly), found, err)
		now = now.Add(36 * 24 * time.Hour)
	}
	// Output:
	// [added added] <nil>
	// 2026-01-01 [true false] <nil>
	// 2026-02-06 [false false] <nil>
}
