package migrate

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
)

// Scores is the meaning of scores in sorted sets.
type Scores string

// Meanings of scores.
const (
	NoScores     Scores = "ignore"
	Seconds      Scores = "seconds"      // time of the activity, since 1970
	Milliseconds Scores = "milliseconds" // time of the activity, since 1970
)

const (
	setReaders  = 4        // sets that are read at a time
	scanCount   = 1000     // COUNT of SCAN, SSCAN and ZSCAN: with more, other clients wait longer
	placeholder = "{user}" // stands for an id in a [Pattern]
)

// ErrMoved means that servers failed over, were restarted or moved slots during the scan. A cursor
// is valid on one server only, so the scan may have missed keys.
var ErrMoved = errors.New("the servers changed during the scan, which may have missed keys; run it again")

// Pattern is the form of the keys of an app's sets: "blocks:{user}", or "blocks:{{user}}" with a
// hash tag.
type Pattern struct{ prefix, suffix string }

// ParsePattern parses a pattern, which must have {user} exactly once.
func ParsePattern(text string) (Pattern, error) {
	prefix, suffix, found := strings.Cut(text, placeholder)
	if !found || strings.Contains(suffix, placeholder) {
		return Pattern{}, errors.New("the pattern must have " + placeholder + " exactly once, in place of the id")
	}
	return Pattern{prefix, suffix}, nil
}

// Key returns the key of a user's set.
func (p Pattern) Key(user string) string { return p.prefix + user + p.suffix }

// User returns the user of a key. ok is false if the key does not match the pattern.
func (p Pattern) User(key string) (user string, ok bool) {
	rest, begins := strings.CutPrefix(key, p.prefix)
	user, ends := strings.CutSuffix(rest, p.suffix)
	return user, begins && ends && user != ""
}

// glob returns the pattern for SCAN.
func (p Pattern) glob() string {
	literal := strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`)
	return literal.Replace(p.prefix) + "*" + literal.Replace(p.suffix)
}

// Sets are an app's exact sets in Redis, plain or sorted, one per user. They are read with
// SCAN, SSCAN and ZSCAN, on every primary of a cluster, with one page of members of a few sets in
// memory. Keys of other types are skipped and counted.
type Sets struct {
	Client redis.UniversalClient
	Keys   Pattern
	Scores Scores
	Pace   *rate.Limiter // of commands that read

	Others atomic.Int64 // number of skipped keys, which are neither sets nor sorted sets
}

// Users calls each, from several goroutines, for every user whose set exists during the whole call.
// It returns when all calls have returned. It may or may not include a set that is added or removed
// meanwhile, and includes a set twice if SCAN returns its key twice. members yields some members at
// a time, and may yield a member twice. Range over it at most once. An error of each ends the call
// and is returned. An error may be [ErrMoved].
func (s *Sets) Users(ctx context.Context, each func(user string, members iter.Seq2[[]Member, error]) error) error {
	before, err := s.identity(ctx)
	readers, reading := errgroup.WithContext(ctx)
	readers.SetLimit(setReaders)
	if err == nil {
		err = s.eachPrimary(reading, func(ctx context.Context, node redis.Cmdable) error {
			return s.scan(ctx, node, func(user string) {
				readers.Go(func() error { return each(user, s.members(reading, user)) })
			})
		})
	}
	// A reader's error comes first: it has ended the scan.
	if failed := readers.Wait(); failed != nil {
		return failed
	}
	var after map[string]bool
	if err == nil {
		after, err = s.identity(context.WithoutCancel(ctx))
	}
	if err == nil && !maps.Equal(before, after) {
		err = ErrMoved
	}
	if err != nil {
		return fmt.Errorf("scan %s: %w", s.Keys.Key(placeholder), err)
	}
	return nil
}

// scan calls each for the users whose sets are on a server.
func (s *Sets) scan(ctx context.Context, node redis.Cmdable, each func(user string)) error {
	for cursor := uint64(0); ; {
		if err := s.Pace.Wait(ctx); err != nil {
			return err
		}
		keys, next, err := node.Scan(ctx, cursor, s.Keys.glob(), scanCount).Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			user, ok := s.Keys.User(key)
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case ok && strings.HasPrefix(user, "{") && strings.HasSuffix(user, "}"):
				return fmt.Errorf("key %s: the id is in braces; if they are a hash tag, write {%s} in the pattern", key, placeholder)
			case ok:
				each(user)
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// members yields the set of a user, which may be removed or replaced meanwhile.
func (s *Sets) members(ctx context.Context, user string) iter.Seq2[[]Member, error] {
	return func(yield func([]Member, error) bool) {
		key, read, sorted := s.Keys.Key(user), s.Client.SScan, false
		for cursor := uint64(0); ; {
			var page []string
			err := s.Pace.Wait(ctx)
			if err == nil {
				page, cursor, err = read(ctx, key, cursor, "", scanCount).Result()
			}
			switch {
			case isWrongType(err) && !sorted:
				read, sorted, cursor = s.Client.ZScan, true, 0
				continue
			case isWrongType(err):
				s.Others.Add(1)
				return
			case err != nil:
				yield(nil, fmt.Errorf("read %s: %w", key, err))
				return
			}
			if !yield(s.parse(user, page, sorted), nil) || cursor == 0 {
				return
			}
		}
	}
}

// parse returns the members in a reply of SSCAN or ZSCAN.
func (s *Sets) parse(user string, page []string, sorted bool) []Member {
	step := 1
	if sorted {
		step = 2
	}
	members := make([]Member, 0, len(page)/step)
	for item := range slices.Chunk(page, step) {
		m := Member{Pair: Pair{User: user, Target: item[0]}}
		if sorted && s.Scores != NoScores {
			m.Since, m.Bad = s.Scores.time(item[1])
		}
		members = append(members, m)
	}
	return members
}

// time returns the time of a score.
func (s Scores) time(score string) (time.Time, error) {
	n, err := strconv.ParseFloat(score, 64)
	if s == Seconds {
		n *= 1000
	}
	at := time.UnixMicro(int64(n * 1000)).UTC()
	if err != nil || !(math.Abs(n) <= 1<<50) || at.After(time.Now().Add(time.Hour)) || at.Year() < 2 {
		return time.Time{}, fmt.Errorf("score: %s is not a past time in %s since 1970", score, string(s))
	}
	return at, nil
}

// Has reports which pairs the sets have now.
func (s *Sets) Has(ctx context.Context, pairs []Pair) ([]bool, error) {
	has := make([]bool, 0, len(pairs))
	for some := range slices.Chunk(pairs, batchSize) {
		if err := s.Pace.Wait(ctx); err != nil {
			return nil, err
		}
		pipe := s.Client.Pipeline()
		plain, sorted := make([]*redis.BoolCmd, len(some)), make([]*redis.FloatCmd, len(some))
		for i, p := range some {
			key := s.Keys.Key(p.User)
			plain[i], sorted[i] = pipe.SIsMember(ctx, key, p.Target), pipe.ZScore(ctx, key, p.Target)
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		for i := range some {
			for _, err := range []error{plain[i].Err(), sorted[i].Err()} {
				if err != nil && !errors.Is(err, redis.Nil) && !isWrongType(err) {
					return nil, fmt.Errorf("look up %d members: %w", len(some), err)
				}
			}
			has = append(has, plain[i].Val() || sorted[i].Err() == nil)
		}
	}
	return has, nil
}

func isWrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// eachPrimary calls do for the server, or for every primary of a cluster.
func (s *Sets) eachPrimary(ctx context.Context, do func(ctx context.Context, node redis.Cmdable) error) error {
	if cluster, ok := s.Client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return do(ctx, node) })
	}
	return do(ctx, s.Client)
}

// identity identifies the servers' processes, and the slots of each server of a cluster.
func (s *Sets) identity(ctx context.Context) (map[string]bool, error) {
	id := make(map[string]bool)
	var mu sync.Mutex
	err := s.eachPrimary(ctx, func(ctx context.Context, node redis.Cmdable) error {
		info, err := node.Info(ctx, "server").Result()
		_, info, _ = strings.Cut(info, "\nrun_id:")
		run, _, _ := strings.Cut(info, "\r")
		mu.Lock()
		defer mu.Unlock()
		id[run] = true
		return err
	})
	cluster, ok := s.Client.(*redis.ClusterClient)
	if err != nil || !ok {
		return id, err
	}
	slots, err := cluster.ClusterSlots(ctx).Result() //nolint:staticcheck // servers before 7.0 have no CLUSTER SHARDS
	for _, slot := range slots {
		if len(slot.Nodes) > 0 {
			id[fmt.Sprint(slot.Start, slot.End, slot.Nodes[0].ID)] = true
		}
	}
	return id, err
}
