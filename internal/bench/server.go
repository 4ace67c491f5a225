package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server asks a Redis server, or all primaries of a cluster, about itself.
type Server struct{ Client redis.UniversalClient }

// Ping is a [Call] of PING.
func (s Server) Ping() Call {
	return Call{Name: "PING", Do: func(ctx context.Context, _ int) error { return s.Client.Ping(ctx).Err() }}
}

// each calls do for the server, or for the primaries one after another.
func (s Server) each(ctx context.Context, do func(*redis.Client) error) error {
	var mu sync.Mutex
	switch c := s.Client.(type) {
	case *redis.Client:
		return do(c)
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			return do(node)
		})
	default:
		return fmt.Errorf("a client of type %T: %w", c, ErrUnknown)
	}
}

// info sums fields of a section of INFO over the servers. One that a server does not tell is
// ErrUnknown, unless it is among optional.
func (s Server) info(ctx context.Context, section string, fields, optional []string) (map[string]float64, error) {
	sums := make(map[string]float64)
	err := s.each(ctx, func(c *redis.Client) error {
		text, err := c.Info(ctx, section).Result()
		if err != nil {
			if _, refused := errors.AsType[redis.Error](err); refused {
				return fmt.Errorf("INFO %s: %w: %w", section, ErrUnknown, err)
			}
			return fmt.Errorf("INFO %s: %w", section, err)
		}
		values := parseInfo(text)
		for _, name := range fields {
			if _, ok := values[name]; !ok {
				return fmt.Errorf("INFO %s has no %s: %w", section, name, ErrUnknown)
			}
			sums[name] += values[name]
		}
		for _, name := range optional {
			sums[name] += values[name]
		}
		return nil
	})
	return sums, err
}

// parseInfo reads the lines that are numbers.
func parseInfo(text string) map[string]float64 {
	values := make(map[string]float64)
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = n
		}
	}
	return values
}

// CPU is the [Meter] of the servers: user and system time of all their threads.
func (s Server) CPU(ctx context.Context) (time.Duration, error) {
	sums, err := s.info(ctx, "cpu", []string{"used_cpu_user", "used_cpu_sys"}, nil)
	return time.Duration((sums["used_cpu_user"] + sums["used_cpu_sys"]) * float64(time.Second)), err
}

// Sent is how many bytes the servers have sent since they were started, to everybody.
func (s Server) Sent(ctx context.Context) (int64, error) {
	const field = "total_net_output_bytes"
	sums, err := s.info(ctx, "stats", []string{field}, nil)
	return int64(sums[field]), err
}

// PID is the process of a single server, if it says so.
func (s Server) PID(ctx context.Context) (int, error) {
	sums, err := s.info(ctx, "server", []string{"process_id"}, nil)
	return int(sums["process_id"]), err
}

// settling is how long a server takes to notice what the buffers of its clients have become: it
// looks at each once a second.
const settling = 1200 * time.Millisecond

// Memory is what the servers have allocated, in bytes, but for the buffers of their clients. It
// takes a second.
func (s Server) Memory(ctx context.Context) (int64, error) {
	select {
	case <-time.After(settling):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	clients := []string{"mem_clients_normal", "mem_clients_slaves"}
	sums, err := s.info(ctx, "memory", []string{"used_memory"}, clients)
	return int64(sums["used_memory"] - sums[clients[0]] - sums[clients[1]]), err
}

// Version is what the server calls itself; "" if it does not.
func (s Server) Version(ctx context.Context) string {
	version := ""
	_ = s.each(ctx, func(c *redis.Client) error {
		text, err := c.Info(ctx, "server").Result()
		lines := bufio.NewScanner(strings.NewReader(text))
		for lines.Scan() {
			for _, name := range []string{"redis_version:", "valkey_version:"} {
				if value, ok := strings.CutPrefix(lines.Text(), name); ok {
					version = strings.TrimSuffix(name, "_version:") + " " + value
				}
			}
		}
		return err
	})
	return version
}

// scanCount is how many keys a step of a SCAN looks at.
const scanCount = 1000

// Holds reports whether the servers have a key of any of the filters. It looks at all their keys.
// The names must begin with the first of them, as those of [Filters] do.
func (s Server) Holds(ctx context.Context, filters ...string) (bool, error) {
	found := false
	err := s.keys(ctx, filters, func(_ *redis.Client, keys []string) error {
		found = found || len(keys) > 0
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look for filter %s: %w", filters[0], err)
	}
	return found, nil
}

// Remove removes all keys of the filters, whose names must be as Holds wants them. It looks at all
// keys of the servers.
func (s Server) Remove(ctx context.Context, filters ...string) error {
	err := s.keys(ctx, filters, func(c *redis.Client, keys []string) error {
		if len(keys) == 0 {
			return nil
		}
		pipe := c.Pipeline()
		for _, key := range keys { // one at a time: in a cluster they are of many slots
			pipe.Unlink(ctx, key)
		}
		_, err := pipe.Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("remove filter %s: %w", filters[0], err)
	}
	return nil
}

// keys calls each with the keys of the filters, some at a time.
func (s Server) keys(ctx context.Context, filters []string, each func(*redis.Client, []string) error) error {
	other := func(key string) bool {
		return !slices.ContainsFunc(filters, func(name string) bool { return strings.HasPrefix(key, "fav:{"+name+"/") })
	}
	return s.each(ctx, func(c *redis.Client) error {
		cursor := uint64(0)
		for {
			keys, next, err := c.Scan(ctx, cursor, "fav:{"+filters[0]+"*", scanCount).Result()
			if err != nil {
				return err
			}
			if err := each(c, slices.DeleteFunc(keys, other)); err != nil {
				return err
			}
			if cursor = next; cursor == 0 {
				return nil
			}
		}
	})
}
