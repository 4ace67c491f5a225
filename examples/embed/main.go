// Command embed filters feeds in its own process. With a directory, it keeps everything there, seen
// posts included:
//
//	go run ./examples/embed /var/lib/app
//
// Many processes share a PostgreSQL ledger and a Redis, with a service if its --filter, --kinds and
// --staleness-bound are the same:
//
//	go run ./examples/embed postgres://localhost/feedfilter redis://localhost:6379
package main

import (
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
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) (err error) {
	c, url := activity.Config{Logger: slog.Default()}, ""
	switch len(args) {
	case 1:
		memory := &favfilter.Memory{} // pages of the ledger are built again after a restart
		file, err := pagefile.Open(ctx, filepath.Join(args[0], "windows.db"), memory, favfilter.PageID.IsValue, seen.Check, c.Logger)
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
		url = args[0]
	default:
		return errors.New("usage: embed DIRECTORY, or embed POSTGRES REDIS")
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

	if _, err := recorder.Record(ctx, []activity.Activity{{User: "1", Kind: "block", Target: "2"}}); err != nil {
		return err
	}
	posts := []feed.Post{{ID: "p7", Author: "2"}, {ID: "p8", Author: "3"}}
	answer, err := feed.Filter(ctx, recorder, feed.Request{Viewer: "1", Posts: posts, RecordSeen: true})
	if err != nil {
		return err // show only what needs no check
	}
	for _, i := range answer.Kept {
		fmt.Println("show", posts[i].ID)
	}
	for _, d := range answer.Dropped {
		fmt.Println("drop", posts[d.At].ID, "because of", d.Kind)
	}
	return nil
}
