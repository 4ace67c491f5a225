package migrate

import (
	"context"
	"errors"
	"fmt"
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
)

// Scores is the meaning of scores in sorted sets.
type Scores string

// Meanings of scores.
const (
	NoScores     Scores = "ignore"
	Seconds      Scores = "seconds"      // time of the activity, since 1970
	Milliseconds Scores = "milliseconds" // time of the activity, since 1970
)

// setReaders is how many sets are read at a time.
const setReaders = 4

// ErrMoved means that servers failed over, were restarted or moved slots during the scan. A cursor
// is valid on one server only, so the scan may have missed keys.
var ErrMoved = errors.New("the servers changed during the scan, which may have missed keys; run it again")

// Sets is a source: an app's exact sets in Redis, plain or sorted, one per user. It reads them with
// SCAN, SSCAN and ZSCAN, on every primary of a cluster, and holds one page of members of a few sets
// in memory. It skips and counts keys of other types.
type Sets struct {
	Client  redis.UniversalClient
	Keys    Pattern
	Reverse bool // the key has the target, and members are users
	Scores  Scores
	Count   int64 // COUNT of each scan command
	Rate    int   // maximum number of commands per second; 0: unlimited

	others atomic.Int64
	pace   pace
}

// Others returns the number of skipped keys, which are neither sets nor sorted sets.
func (s *Sets) Others() int64 { return s.others.Load() }

// Reversed implements [Source].
func (s *Sets) Reversed() bool { return s.Reverse }

// Groups implements [Source]. It reads a set twice if SCAN returns its key twice. An error may be
// [ErrMoved].
func (s *Sets) Groups(ctx context.Context, each func(Group) error) error {
	before, err := s.identity(ctx)
	if err != nil {
		return fmt.Errorf("scan %s: %w", s.Keys.Key(placeholder), err)
	}
	readers, ctx := errgroup.WithContext(ctx)
	readers.SetLimit(setReaders)
	err = s.eachPrimary(ctx, func(ctx context.Context, node redis.Cmdable) error {
		return s.scan(ctx, node, func(user string) error {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			readers.Go(func() error {
				return each(Group{Owner: user, Members: func(some func([]Member) error) error { return s.members(ctx, user, some) }})
			})
			return nil
		})
	})
	// A reader's error comes first: it has ended the scan.
	if failed := readers.Wait(); failed != nil {
		return failed
	}
	if err != nil {
		return fmt.Errorf("scan %s: %w", s.Keys.Key(placeholder), err)
	}
	after, err := s.identity(context.WithoutCancel(ctx))
	if err == nil && !maps.Equal(before, after) {
		err = ErrMoved
	}
	if err != nil {
		return fmt.Errorf("scan %s: %w", s.Keys.Key(placeholder), err)
	}
	return nil
}

// scan calls each for the users whose sets are on a server.
func (s *Sets) scan(ctx context.Context, node redis.Cmdable, each func(user string) error) error {
	for cursor := uint64(0); ; {
		if err := s.pace.wait(ctx, s.Rate); err != nil {
			return err
		}
		keys, next, err := node.Scan(ctx, cursor, s.Keys.glob(), s.Count).Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			user, ok := s.Keys.User(key)
			if ok && strings.HasPrefix(user, "{") && strings.HasSuffix(user, "}") {
				return fmt.Errorf("key %s: the id is in braces; if they are a hash tag, write {%s} in the pattern", key, placeholder)
			}
			if ok {
				if err := each(user); err != nil {
					return err
				}
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// members reads the set of a user, which may have been removed or replaced meanwhile.
func (s *Sets) members(ctx context.Context, owner string, each func([]Member) error) error {
	key := s.Keys.Key(owner)
	kind, err := s.Client.Type(ctx, key).Result()
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	read := s.Client.SScan
	switch kind {
	case "set":
	case "zset":
		read = s.Client.ZScan
	case "none":
		return nil
	default:
		s.others.Add(1)
		return nil
	}
	for cursor := uint64(0); ; {
		if err := s.pace.wait(ctx, s.Rate); err != nil {
			return err
		}
		page, next, err := read(ctx, key, cursor, "", s.Count).Result()
		if isWrongType(err) {
			return nil // replaced by another type: a set that is created meanwhile may be missed
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", key, err)
		}
		for some := range slices.Chunk(s.parse(owner, page, kind == "zset"), batchSize) {
			if err := each(some); err != nil {
				return err
			}
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}

// parse returns the members in a reply of SSCAN or ZSCAN.
func (s *Sets) parse(owner string, page []string, sorted bool) []Member {
	step := 1
	if sorted {
		step = 2
	}
	members := make([]Member, 0, len(page)/step)
	for i := 0; i+step <= len(page); i += step {
		m := Member{Pair: Pair{User: owner, Target: page[i]}}
		if s.Reverse {
			m.User, m.Target = m.Target, m.User
		}
		if sorted && s.Scores != NoScores {
			m.Since, m.Bad = s.Scores.time(page[i+1])
		}
		members = append(members, m)
	}
	return members
}

// time returns the time of a score.
func (s Scores) time(score string) (time.Time, error) {
	n, err := strconv.ParseFloat(score, 64)
	unit := float64(time.Second / time.Microsecond)
	if s == Milliseconds {
		unit = float64(time.Millisecond / time.Microsecond)
	}
	at := time.UnixMicro(int64(n * unit)).UTC()
	if err != nil || !(math.Abs(n*unit) <= 1<<60) || at.After(time.Now().Add(time.Hour)) || at.Year() < 2 {
		return time.Time{}, fmt.Errorf("score: %s is not a past time in %s since 1970", score, string(s))
	}
	return at, nil
}

// Has implements [Source].
func (s *Sets) Has(ctx context.Context, pairs []Pair) ([]bool, error) {
	has := make([]bool, len(pairs))
	for from := 0; from < len(pairs); from += batchSize {
		some := pairs[from:min(from+batchSize, len(pairs))]
		if err := s.has(ctx, some, has[from:]); err != nil {
			return nil, fmt.Errorf("look up %d members: %w", len(some), err)
		}
	}
	return has, nil
}

func (s *Sets) has(ctx context.Context, pairs []Pair, has []bool) error {
	if err := s.pace.wait(ctx, s.Rate); err != nil {
		return err
	}
	pipe := s.Client.Pipeline()
	found := make([]*redis.BoolCmd, len(pairs))
	for i, p := range pairs {
		key, member := s.place(p)
		found[i] = pipe.SIsMember(ctx, key, member)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, f := range found {
		var err error
		has[i], err = f.Result()
		if isWrongType(err) {
			key, member := s.place(pairs[i])
			err = s.Client.ZScore(ctx, key, member).Err()
			has[i] = err == nil
			if errors.Is(err, redis.Nil) || isWrongType(err) {
				err = nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// place returns the key and the member of a pair.
func (s *Sets) place(p Pair) (key, member string) {
	if s.Reverse {
		return s.Keys.Key(p.Target), p.User
	}
	return s.Keys.Key(p.User), p.Target
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
		for line := range strings.Lines(info) {
			if run, ok := strings.CutPrefix(line, "run_id:"); ok {
				mu.Lock()
				id[strings.TrimSpace(run)] = true
				mu.Unlock()
			}
		}
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

// pace limits the rate of commands.
type pace struct {
	mu   sync.Mutex
	next time.Time
}

// wait waits until the next of rate commands per second may be sent. It does not wait if rate is 0.
func (p *pace) wait(ctx context.Context, rate int) error {
	if rate <= 0 {
		return nil
	}
	p.mu.Lock()
	now := time.Now()
	if p.next.Before(now) {
		p.next = now
	}
	until := p.next.Sub(now)
	p.next = p.next.Add(time.Second / time.Duration(rate))
	p.mu.Unlock()
	select {
	case <-time.After(until):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
