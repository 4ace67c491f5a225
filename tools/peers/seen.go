package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
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

// seenResult is the memory of seen posts in one way to store them.
type seenResult struct {
	Name   string  `json:"name"`
	Absent string  `json:"absent,omitzero"`
	User   float64 `json:"bytes_a_user"`
	Live   float64 `json:"bytes_a_live_key"` // per post that is not older than the window
}

// seenWay is one way to store seen posts.
type seenWay struct {
	name   string
	server *redis.Client
	fill   func(ctx context.Context, client *redis.Client) error
}

// seen measures the memory of seen posts, for each way on an empty server.
func (w *wire) seen(ctx context.Context) error {
	plain := redistest.Start(w.host, w.serverArgs...).Client()                       //nolint:contextcheck // the host has it
	tuned := redistest.Start(w.host, "--set-max-intset-entries", maxIntset).Client() //nolint:contextcheck // the same
	perUser := func(client *redis.Client, id func(string) string, add seenAdd) seenWay {
		return seenWay{server: client, fill: func(ctx context.Context, client *redis.Client) error { return fillSeen(ctx, client, id, add) }}
	}
	ways := []seenWay{
		perUser(plain, asIs, oneSet), perUser(plain, asIs, sevenSets), perUser(plain, asIs, sortedSet),
		perUser(tuned, asNumber, oneSet), perUser(tuned, asNumber, sevenSets), perUser(tuned, asNumber, sortedSet),
		{server: plain, fill: w.fillSeenBloom}, {server: plain, fill: w.fillSeenOurs},
	}
	for i, name := range []string{
		"a set a user, which forgets nothing", "7 sets a user, with a time to live", "a sorted set a user, by time",
		"numbers: a set a user, which forgets nothing", "numbers: 7 sets a user, with a time to live", "numbers: a sorted set a user, by time",
		"RedisBloom: 7 filters, with a time to live", "feedfilter",
	} {
		note("  " + name)
		ways[i].name = name
		if err := w.measureSeen(ctx, ways[i]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// measureSeen measures the memory of one way. It fills the server twice, and measures the second
// time. The first call of each command makes the server allocate 24 KB for latencies. Scripts and
// connections also need some memory.
func (w *wire) measureSeen(ctx context.Context, way seenWay) error {
	result := seenResult{Name: way.name}
	switch err := way.fill(ctx, way.server); {
	case errors.Is(err, errAbsent):
		result.Absent = err.Error()
	case err != nil:
		return err
	default:
		bytes, err := fillAgain(ctx, way)
		if err != nil {
			return err
		}
		result.User = float64(bytes) / seenUsers
		result.Live = result.User / float64(seenLive)
	}
	w.report.Wire.Seen = append(w.report.Wire.Seen, result)
	return nil
}

// fillAgain empties the server, fills it and returns the memory that the data needs.
func fillAgain(ctx context.Context, way seenWay) (bytes int64, err error) {
	server := redisServer{client: way.server}
	if err := way.server.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	before, err := server.memory(ctx)
	if err != nil {
		return 0, err
	}
	if err := way.fill(ctx, way.server); err != nil {
		return 0, err
	}
	after, err := server.memory(ctx)
	return after - before, err
}

// seenPost returns the id of the n-th post that a user has seen.
func seenPost(u, n int) string { return "s" + strconv.Itoa(10_000_000_000+u*100_000+n) }

// seenAdd queues the commands that add the n-th post of an owner.
type seenAdd func(ctx context.Context, pipe redis.Pipeliner, owner, post string, n int)

func oneSet(ctx context.Context, pipe redis.Pipeliner, owner, post string, _ int) {
	pipe.SAdd(ctx, setKey(bench.Seen, owner), post)
}

func sevenSets(ctx context.Context, pipe redis.Pipeliner, owner, post string, n int) {
	key := setKey(bench.Seen, owner) + ":" + strconv.Itoa(n/seenPart)
	pipe.SAdd(ctx, key, post)
	pipe.Expire(ctx, key, seenWindow)
}

// sortedSet removes each post when it is older than the window.
func sortedSet(ctx context.Context, pipe redis.Pipeliner, owner, post string, n int) {
	key := setKey(bench.Seen, owner)
	at := n * int(24*time.Hour/time.Second) / seenDaily
	pipe.ZAdd(ctx, key, redis.Z{Score: float64(1_700_000_000 + at), Member: post})
	pipe.ZRemRangeByScore(ctx, key, "-inf", "("+strconv.Itoa(1_700_000_000+at+1-int(seenWindow/time.Second)))
}

func fillSeen(ctx context.Context, client *redis.Client, id func(string) string, add seenAdd) error {
	pipe := client.Pipeline()
	for u := range seenUsers {
		for n := range seenPart * seenParts {
			add(ctx, pipe, id(bench.UserID(u)), id(seenPost(u, n)), n)
			if err := flush(ctx, pipe, pipelineSize); err != nil {
				return err
			}
		}
	}
	return flush(ctx, pipe, 1)
}

// fillSeenBloom makes one RedisBloom filter for all users per part of the window. Together they
// have the rate of our window.
func (w *wire) fillSeenBloom(ctx context.Context, client *redis.Client) error {
	info, err := client.Do(ctx, "COMMAND", "INFO", "BF.RESERVE").Slice()
	if err != nil || len(info) != 1 || info[0] == nil {
		return errAbsent
	}
	rate := activity.BuiltinKinds().Rates(w.rate).Window
	key := func(part int) string { return "BF:" + bench.Seen + ":" + strconv.Itoa(part) }
	pipe := client.Pipeline()
	for part := range seenParts {
		pipe.Do(ctx, "BF.RESERVE", key(part), rate/seenParts, seenUsers*seenPart)
		pipe.Expire(ctx, key(part), seenWindow)
	}
	for u := range seenUsers {
		for n := range seenPart * seenParts {
			pipe.Do(ctx, "BF.ADD", key(n/seenPart), bench.UserID(u)+"_"+seenPost(u, n))
			if err := flush(ctx, pipe, pipelineSize); err != nil {
				return err
			}
		}
	}
	return flush(ctx, pipe, 1)
}

// fillSeenOurs records what was seen day by day. Its clock starts at the start of a part and ends
// at the end of a part. It fills one part more than the window has; that part has been removed by
// then.
func (w *wire) fillSeenOurs(ctx context.Context, client *redis.Client) (err error) {
	store, err := redisstore.New(client, "seen")
	if err != nil {
		return err
	}
	l, err := ledger.Open(ctx, "sqlite:"+filepath.Join(w.dir, "seen.db"), ledger.Options{Pages: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	part := seenLength.Milliseconds()
	now := time.UnixMilli((time.Now().UnixMilli()/part + 1) * part) // the start of the next part
	r, err := activity.Open(ctx, activity.Config{
		Ledger: l, Store: store, FalsePositiveRate: w.rate, Now: func() time.Time { return now }, Passive: true,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	for day := range seenDays * (seenParts + 1) {
		if err := recordDay(ctx, r, day); err != nil {
			return err
		}
		now = now.Add(24 * time.Hour)
	}
	return checkSeen(ctx, client)
}

// recordDay records what all users see in one day.
func recordDay(ctx context.Context, r *activity.Recorder, day int) error {
	all := make([]activity.Activity, 0, seenUsers*seenDaily)
	for u := range seenUsers {
		for n := range seenDaily {
			all = append(all, activity.Activity{User: bench.UserID(u), Kind: bench.Seen, Target: seenPost(u, day*seenDaily+n)})
		}
	}
	_, err := r.Record(ctx, all)
	return err
}

// checkSeen returns an error unless there is exactly one string for each user.
func checkSeen(ctx context.Context, client *redis.Client) error {
	keys, err := client.Keys(ctx, "*:"+bench.Seen+".*").Result()
	if err != nil {
		return err
	}
	if len(keys) != seenUsers {
		return fmt.Errorf("%d strings of seen posts of %d users", len(keys), seenUsers)
	}
	return nil
}

func (r *wireReport) writeSeen(b *strings.Builder) {
	fmt.Fprintf(b, "\nMemory of what was seen: %d posts a day, remembered for %d days. B a live post counts posts not older than that.\n\n",
		seenDaily, seenDays*(seenParts-1))
	table(b, [][]string{{"", "B a user", "B a live post"}}, r.Seen, func(s seenResult) []string {
		if s.Absent != "" {
			return []string{s.Name, s.Absent, ""}
		}
		return []string{s.Name, significant(s.User), significant(s.Live)}
	})
}
