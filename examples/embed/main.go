// Command embed filters feeds in its own process. Its data are in a directory, seen posts included,
// or in PostgreSQL and Redis. Many processes may share these, and so may a service with the same
// --filter, --kinds and --staleness-bound.
//
//	go run ./examples/embed /var/lib/app
//	go run ./examples/embed postgres://localhost/feedfilter redis://localhost:6379
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/activity/seen"
	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/pagefile"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/feed"
)

func main() {
	err := errors.New("usage: embed DIRECTORY, or embed POSTGRES REDIS")
	if len(os.Args) == 2 || len(os.Args) == 3 {
		err = run(context.Background(), os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	c, url := activity.Config{Logger: slog.Default()}, args[0]
	switch len(args) {
	case 1:
		memory := &favfilter.Memory{} // pages of the ledger are built again after a restart
		name, keep := filepath.Join(args[0], "windows.db"), favfilter.PageID.IsValue
		file, err := pagefile.Open(ctx, name, memory, keep, seen.Check, c.Logger)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		c.Store, c.Persist, url = memory, file.Flush, "sqlite:"+filepath.Join(args[0], "ledger.db")
	case 2:
		options, err := redis.ParseURL(args[1])
		if err != nil {
			return err
		}
		options.ContextTimeoutEnabled = true
		client := redis.NewClient(options)
		defer func() { _ = client.Close() }()
		if c.Store, err = redisstore.New(client, "feed"); err != nil {
			return err
		}
	}
	if c.Ledger, err = ledger.Open(ctx, url, ledger.Options{}); err != nil {
		return err
	}
	defer func() { _ = c.Ledger.Close() }()
	recorder, err := activity.Open(ctx, c)
	if err != nil {
		return err
	}
	defer recorder.Close()
	return show(ctx, recorder)
}

func show(ctx context.Context, r *activity.Recorder) error {
	block := activity.Activity{User: "1", Kind: "block", Target: "2"}
	if _, err := r.Record(ctx, []activity.Activity{block}); err != nil {
		return err
	}
	var text bytes.Buffer
	posts := []feed.Post{{ID: "p7", Author: "2"}, {ID: "p8", Author: "3"}}
	answer, err := feed.Filter(ctx, r, feed.Request{Viewer: "1", Posts: posts, RecordSeen: true})
	for _, i := range answer.Kept {
		fmt.Fprintln(&text, "show", posts[i].ID)
	}
	for _, d := range answer.Dropped {
		fmt.Fprintln(&text, "drop", posts[d.At].ID, "because of", d.Kind)
	}
	_, printed := text.WriteTo(os.Stdout)
	return errors.Join(err, printed) // after an error, show only what needs no check
}
