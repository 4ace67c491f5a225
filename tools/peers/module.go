package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// module uses the RedisBloom module: a Bloom filter (BF) or cuckoo filter (CF) for each kind. A
// feed check is four MEXISTS in one round trip.
type module struct {
	client *redis.Client
	prefix string // BF or CF; begins commands and keys
}

// openModule makes filters with room for all keys of the population and for the keys that write
// adds.
func openModule(ctx context.Context, r *run, prefix string) (*module, error) {
	info, err := r.client.Do(ctx, "COMMAND", "INFO", prefix+".RESERVE").Slice()
	if err != nil || len(info) != 1 || info[0] == nil {
		return nil, errAbsent
	}
	m := &module{r.client, prefix}
	count := make(map[string]int)
	for e := range entries(r.people) {
		count[e.Kind]++
	}
	for _, kind := range kinds() {
		args := []any{prefix + ".RESERVE", m.key(kind), r.keyRate(), count[kind]}
		if prefix == "CF" {
			args = []any{prefix + ".RESERVE", m.key(kind), count[kind]}
		}
		if err := r.client.Do(ctx, args...).Err(); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *module) key(kind string) string { return m.prefix + ":" + kind }

func (m *module) load(ctx context.Context, p *bench.Population) error {
	return m.add(ctx, keysOf(p.Activities()))
}

func (m *module) loadSeen(ctx context.Context, p *bench.Population) error {
	return m.add(ctx, keysOf(p.Seen()))
}

func (m *module) add(ctx context.Context, all iter.Seq[entry]) error {
	pipe := m.client.Pipeline()
	for e := range all {
		pipe.Do(ctx, m.prefix+".ADD", m.key(e.Kind), e.Owner+"_"+e.Target)
		if pipe.Len() == pipelineSize {
			if _, err := pipe.Exec(ctx); err != nil {
				return err
			}
		}
	}
	_, err := pipe.Exec(ctx)
	return err
}

func (m *module) check(ctx context.Context, f *bench.Feed, dropped []bool) error {
	pipe := m.client.Pipeline()
	answers := make([]*redis.BoolSliceCmd, len(kinds()))
	for k, kind := range kinds() {
		args := make([]any, 2, 2+len(f.Posts))
		args[0], args[1] = m.prefix+".MEXISTS", m.key(kind)
		var buf []byte
		for i := range f.Posts {
			buf = append(append(append(buf[:0], f.Viewer...), '_'), target(f, k, i)...)
			args = append(args, string(buf))
		}
		answers[k] = redis.NewBoolSliceCmd(ctx, args...)
		_ = pipe.Process(ctx, answers[k]) // queued: it fails in Exec
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	return decide(answers, f, dropped)
}

func (m *module) write(keys int) bench.Call {
	next := newPosts("module", keys)
	command := m.prefix + ".ADD"
	switch {
	case keys == 1:
	case m.prefix == "CF":
		command = "CF.INSERT"
	default:
		command = "BF.MADD"
	}
	return bench.Call{Name: command, Do: func(ctx context.Context, _ int) error {
		args := []any{command, m.key(bench.Hide)}
		if command == "CF.INSERT" {
			args = append(args, "ITEMS")
		}
		for range keys {
			args = append(args, "writer_"+next())
		}
		return m.client.Do(ctx, args...).Err()
	}}
}

// cuckoo is the module with cuckoo filters, which support removal.
type cuckoo struct{ *module }

func (c cuckoo) unhide(ctx context.Context, f *bench.Feed) error {
	pipe := c.client.Pipeline()
	for _, p := range f.Posts {
		pipe.Do(ctx, "CF.DEL", c.key(bench.Hide), f.Viewer+"_"+p.ID)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("CF.DEL: %w", err)
	}
	return nil
}
