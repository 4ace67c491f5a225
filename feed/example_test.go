package feed_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/feed"
)

// A service of one's own: a ledger in a file, pages in the process, and a feed.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "feed")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	l, err := ledger.Open(ctx, "sqlite:"+filepath.Join(dir, "ledger.db"), ledger.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = l.Close() }()
	recorder, err := activity.Open(ctx, activity.Config{Ledger: l, Store: &favfilter.Memory{}})
	if err != nil {
		panic(err)
	}
	defer recorder.Close()

	changed, err := recorder.Record(ctx, []activity.Activity{
		{User: "1", Kind: "block", Target: "2"},
		{User: "1", Kind: "hide", Target: "p7"},
		{User: "1", Kind: "hide", Target: "p7"},
		{User: "1", Kind: "like", Target: "p9"},
	})
	fmt.Println(changed, err)

	answer, err := feed.Filter(ctx, recorder, feed.Request{
		Viewer:   "1",
		Posts:    []feed.Post{{ID: "p7", Author: "3"}, {ID: "p8", Author: "2"}, {ID: "p9", Author: "3"}},
		Annotate: []string{"like"},
	})
	fmt.Println(answer.Kept, answer.Dropped, err)

	// Whom one blocks does not see one's posts either.
	answer, err = feed.Filter(ctx, recorder, feed.Request{Viewer: "2", Posts: []feed.Post{{ID: "p1", Author: "1"}}})
	fmt.Println(answer.Kept, answer.Dropped, err)
	// Output:
	// [changed changed unchanged changed] <nil>
	// [2] [{0 hide    false} {1 block 2   false}] <nil>
	// [] [{0 block 1   false}] <nil>
}
