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
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/activity"
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
	scanCount   = 1000     // COUNT of SCAN, SSCAN and ZSCAN: with more, other clients wait longer
	placeholder = "{user}" // stands for an id in a [Pattern]
)

// ErrMoved means that servers failed over, were restarted or moved slots during the scan. A cursor
// is valid on one server only, so the scan may have missed keys.
var ErrMoved = errors.New(
	"the servers changed during the scan, which may have missed keys; run it again",
)

// Pattern is the form of the keys of an app's sets: "blocks:{user}", or "blocks:{{user}}" with a
// hash tag.
type Pattern struct{ prefix, suffix string }

// UnmarshalText parses a pattern, which must have {user} exactly once.
func (p *Pattern) UnmarshalText(text []byte) error {
	prefix, suffix, found := strings.Cut(string(text), placeholder)
	if !found || strings.Contains(suffix, placeholder) {
		return errors.New("the pattern must have " + placeholder + " exactly once, in place of the id")
	}
	*p = Pattern{prefix, suffix}
	return nil
}

// String returns the pattern.
func (p Pattern) String() string { return p.Key(placeholder) }

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

// Sets are an app's exact sets in Redis, plain or sorted, one per user. They are read with SCAN,
// SSCAN and ZSCAN, on every primary of a cluster, by one command at a time: so the app's own
// commands wait little. One page of members is in memory. Sets are for use by one goroutine.
type Sets struct {
	Client redis.UniversalClient
	Keys   Pattern
	Scores Scores

	// Phrases says that members are phrases. Pairs then have their canonical form, as the ledger
	// does. Members that are no phrase stay as they are.
	Phrases bool

	Others int // number of skipped keys, which are neither sets nor sorted sets
}

// Member is a member of a user's set.
type Member struct {
	Pair

	Since time.Time // time of the activity; zero: unknown
}

// Users calls each for every user whose set exists during the whole call. It may or may not include
// a set that is added or removed meanwhile, and includes a set twice if SCAN returns its key twice.
// An error of each ends the call and is returned. An error may be [ErrMoved].
func (s *Sets) Users(ctx context.Context, each func(user string) error) error {
	primaries, before, err := s.servers(ctx)
	if err != nil {
		return fmt.Errorf("scan %s: %w", s.Keys, err)
	}
	for _, node := range primaries {
		if err := s.scan(ctx, node, each); err != nil {
			return err
		}
	}
	_, after, err := s.servers(ctx)
	if err == nil && !maps.Equal(before, after) {
		err = fmt.Errorf("scan %s: %w", s.Keys, ErrMoved)
	}
	return err
}

// scan calls each for the users whose sets are on a server.
func (s *Sets) scan(ctx context.Context, node redis.Cmdable, each func(user string) error) error {
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, s.Keys.glob(), scanCount).Result()
		if err != nil {
			return fmt.Errorf("scan %s: %w", s.Keys, err)
		}
		for _, key := range keys {
			user, ok := s.Keys.User(key)
			if ok && strings.HasPrefix(user, "{") && strings.HasSuffix(user, "}") {
				return fmt.Errorf(
					"key %s: the id is in braces; if they are a hash tag, write {%s} in the pattern",
					key, placeholder,
				)
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

// Members calls each for the members of a user's set, some at a time. It may repeat a member. The
// set may be removed or replaced meanwhile. An error of each ends the call and is returned.
func (s *Sets) Members(ctx context.Context, user string, each func([]Member) error) error {
	key, read, fields := s.Keys.Key(user), s.Client.SScan, 1 // of a member
	for cursor := uint64(0); ; {
		page, next, err := read(ctx, key, cursor, "", scanCount).Result()
		switch {
		case isWrongType(err) && fields == 1:
			read, fields, cursor = s.Client.ZScan, 2, 0 // with its score
			continue
		case isWrongType(err):
			s.Others++
			return nil
		case err != nil:
			return fmt.Errorf("read %s: %w", key, err)
		}
		members, err := s.parse(user, page, fields)
		if err == nil {
			err = each(members)
		}
		if cursor = next; err != nil || cursor == 0 {
			return err
		}
	}
}

// parse returns the members in a reply of SSCAN or ZSCAN.
func (s *Sets) parse(user string, page []string, fields int) (members []Member, err error) {
	for item := range slices.Chunk(page, fields) {
		m := Member{Pair: Pair{User: user, Target: item[0]}}
		if s.Phrases {
			m.Target = activity.FoldText.ID(item[0])
		}
		if fields == 2 && s.Scores != NoScores {
			if m.Since, err = s.Scores.time(item[1]); err != nil {
				return nil, fmt.Errorf("user %.300q, target %.300q: %w", user, item[0], err)
			}
		}
		members = append(members, m)
	}
	return members, nil
}

// time returns the time of a score. The service refuses a time in the future.
func (s Scores) time(score string) (time.Time, error) {
	n, err := strconv.ParseFloat(score, 64)
	if s == Seconds {
		n *= 1000
	}
	at := time.UnixMicro(int64(n * 1000)).UTC()
	if err != nil || !(math.Abs(n) <= 1<<50) || at.Year() < 2 {
		return time.Time{}, fmt.Errorf("score: %s is not a time in %s since 1970", score, string(s))
	}
	return at, nil
}

// Has reports which pairs the sets have now.
func (s *Sets) Has(ctx context.Context, pairs []Pair) ([]bool, error) {
	if s.Phrases {
		return s.hasPhrases(ctx, pairs)
	}
	has := make([]bool, 0, len(pairs))
	for some := range slices.Chunk(pairs, batchSize) {
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

// hasPhrases is Has. Several members may have one canonical form, so it reads the whole sets of the
// users.
func (s *Sets) hasPhrases(ctx context.Context, pairs []Pair) ([]bool, error) {
	sets := make(map[string]map[Pair]bool) // by user
	has := make([]bool, len(pairs))
	for i, p := range pairs {
		set, found := sets[p.User]
		if !found {
			set = make(map[Pair]bool)
			sets[p.User] = set
			err := s.Members(ctx, p.User, func(members []Member) error {
				for _, m := range members {
					set[m.Pair] = true
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
		}
		has[i] = set[p]
	}
	return has, nil
}

func isWrongType(err error) bool { return redis.HasErrorPrefix(err, "WRONGTYPE") }

// servers returns the server, or every primary of a cluster. It also returns what identifies their
// processes, and the slots of each server of a cluster.
func (s *Sets) servers(
	ctx context.Context,
) (primaries []redis.Cmdable, id map[string]bool, err error) {
	primaries, id = []redis.Cmdable{s.Client}, make(map[string]bool)
	if cluster, ok := s.Client.(*redis.ClusterClient); ok {
		//nolint:staticcheck // servers before 7.0 have no CLUSTER SHARDS
		slots, err := cluster.ClusterSlots(ctx).Result()
		if err != nil {
			return nil, nil, err
		}
		for _, slot := range slots {
			if len(slot.Nodes) > 0 {
				id[fmt.Sprint(slot.Start, slot.End, slot.Nodes[0].ID)] = true
			}
		}
		var mu sync.Mutex
		primaries = nil
		err = cluster.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			primaries = append(primaries, node)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	for _, node := range primaries {
		info, err := node.Info(ctx, "server").Result()
		if err != nil {
			return nil, nil, err
		}
		_, info, _ = strings.Cut(info, "\nrun_id:")
		run, _, _ := strings.Cut(info, "\r")
		id[run] = true
	}
	return primaries, id, nil
}
