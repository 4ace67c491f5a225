package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
	"github.com/feedfilter/feedfilter/internal/bench"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// Each user has seen seenDaily posts a day in all seenParts parts of the window. A part has
// seenDays days. So seenLive posts of a user are not older than the window.
const (
	seenUsers = 200
	seenDaily = 20
	seenDays  = int(seenLength / (24 * time.Hour))
	seenPart  = seenDaily * seenDays
	seenLive  = seenPart * (seenParts - 1)
)

// seen measures the memory of seen posts, for each way on an empty server.
func (r *run) seen(ctx context.Context) error {
	plain := redistest.Start(r.host, r.redisArgs...).Client()
	tuned := redistest.Start(r.host, "--set-max-intset-entries", maxIntset).Client()
	var rows [][]string
	for _, way := range []struct {
		name   string
		client *redis.Client
		fill   func(context.Context, *redis.Client) error
	}{
		{"a set a user, which forgets nothing", plain, filled(asIs, oneSet)},
		{"7 sets a user, with a time to live", plain, filled(asIs, sevenSets)},
		{"a sorted set a user, by time", plain, filled(asIs, sortedSet)},
		{"numbers: a set a user, which forgets nothing", tuned, filled(asNumber, oneSet)},
		{"numbers: 7 sets a user, with a time to live", tuned, filled(asNumber, sevenSets)},
		{"feedfilter", plain, r.fillOurs},
	} {
		note("  " + way.name)
		// The server is filled twice, and the second time counts: the first call of each command
		// makes it allocate 24 KB for latencies. Scripts and connections also need some memory.
		if err := way.fill(ctx, way.client); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		if err := way.client.FlushAll(ctx).Err(); err != nil {
			return err
		}
		bytes, err := memoryOf(ctx, way.client, func() error { return way.fill(ctx, way.client) })
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		if err := way.client.FlushAll(ctx).Err(); err != nil {
			return err
		}
		user := bytes / seenUsers
		rows = append(rows, []string{way.name, number(user), number(user / float64(seenLive))})
	}
	r.report.add(fmt.Sprintf(
		"Memory of what was seen: %d posts a day, remembered for %d days. "+
			"B a live post counts posts not older than that.", seenDaily, seenDays*(seenParts-1),
	), []string{"", "B a user", "B a live post"}, rows)
	return nil
}

// seenPost returns the id of the n-th post that a user has seen.
func seenPost(u, n int) string { return "s" + strconv.Itoa(10_000_000_000+u*100_000+n) }

func oneSet(ctx context.Context, pipe redis.Pipeliner, owner, post string, _ int) {
	pipe.SAdd(ctx, setKey(bench.Seen, owner), post)
}

func sevenSets(ctx context.Context, pipe redis.Pipeliner, owner, post string, n int) {
	key := setKey(bench.Seen, owner) + ":" + strconv.Itoa(n/seenPart)
	pipe.SAdd(ctx, key, post)
	pipe.Expire(ctx, key, seenWindow)
}

// sortedSet removes posts that are older than the window.
func sortedSet(ctx context.Context, pipe redis.Pipeliner, owner, post string, n int) {
	const start = 1_700_000_000 // seconds since 1970
	key, at := setKey(bench.Seen, owner), n*int(24*time.Hour/time.Second)/seenDaily
	pipe.ZAdd(ctx, key, redis.Z{Score: float64(start + at), Member: post})
	pipe.ZRemRangeByScore(ctx, key, "-inf", "("+strconv.Itoa(start+at+1-int(seenWindow/time.Second)))
}

// filled returns a function that adds what all users have seen. add queues the commands that add
// the n-th post of an owner.
func filled(
	id func(string) string,
	add func(ctx context.Context, pipe redis.Pipeliner, owner, post string, n int),
) func(context.Context, *redis.Client) error {
	return func(ctx context.Context, client *redis.Client) error {
		for u := range seenUsers {
			pipe := client.Pipeline()
			for n := range seenPart * seenParts {
				add(ctx, pipe, id(bench.UserID(u)), id(seenPost(u, n)), n)
			}
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// fillOurs records what was seen day by day. Its clock starts at the start of a part and ends at
// the end of a part. It fills one part more than the window has; that part has been removed by
// then.
func (r *run) fillOurs(ctx context.Context, client *redis.Client) (err error) {
	store, err := redisstore.New(client, "seen")
	if err != nil {
		return err
	}
	l, err := ledger.Open(ctx, "sqlite:"+filepath.Join(r.dir, "seen.db"), ledger.Options{Pages: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	part := seenLength.Milliseconds()
	now := time.UnixMilli((time.Now().UnixMilli()/part + 1) * part) // the start of the next part
	recorder, err := activity.Open(ctx, activity.Config{
		Ledger:            l,
		Store:             store,
		FalsePositiveRate: r.rate,
		Now:               func() time.Time { return now },
		Passive:           true,
	})
	if err != nil {
		return err
	}
	defer recorder.Close()
	for day := range seenDays * (seenParts + 1) {
		var all []activity.Activity
		for u := range seenUsers {
			for n := range seenDaily {
				all = append(all, activity.Activity{
					User:   bench.UserID(u),
					Kind:   bench.Seen,
					Target: seenPost(u, day*seenDaily+n),
				})
			}
		}
		if _, err := recorder.Record(ctx, all); err != nil {
			return err
		}
		now = now.Add(24 * time.Hour)
	}
	keys, err := client.Keys(ctx, "*:"+bench.Seen+".*").Result()
	if err == nil && len(keys) != seenUsers {
		err = fmt.Errorf("%d strings of seen posts of %d users", len(keys), seenUsers)
	}
	return err
}
