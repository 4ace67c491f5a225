package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/bench"
)

// redisServer reads the figures that a Redis server reports about itself.
type redisServer struct{ client *redis.Client }

func (s redisServer) ping() bench.Call { return bench.Ping(s.client) }

// info returns a number of a section of INFO.
func (s redisServer) info(ctx context.Context, section, field string) (int64, error) {
	info := s.client.InfoMap(ctx, section)
	if err := info.Err(); err != nil {
		return 0, fmt.Errorf("INFO %s: %w", section, err)
	}
	for _, fields := range info.Val() { // one section
		if n, err := strconv.ParseInt(fields[field], 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("INFO %s has no number %s", section, field)
}

// sent returns how many bytes the server has sent to all clients since its start.
func (s redisServer) sent(ctx context.Context) (int64, error) {
	return s.info(ctx, "stats", "total_net_output_bytes")
}

func (s redisServer) pid(ctx context.Context) (int, error) {
	pid, err := s.info(ctx, "server", "process_id")
	return int(pid), err
}

// settling is how long a server takes to notice the size of its clients' buffers, which it checks
// once a second.
const settling = 1200 * time.Millisecond

// memory returns the memory of the server in bytes, without the buffers of its clients. It takes a
// second.
func (s redisServer) memory(ctx context.Context) (int64, error) {
	select {
	case <-time.After(settling):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	used, err := s.info(ctx, "memory", "used_memory")
	if err != nil {
		return 0, err
	}
	buffers, err := s.info(ctx, "memory", "mem_clients_normal")
	return used - buffers, err
}

// version returns the engine and version that the server reports, "" if none.
func (s redisServer) version(ctx context.Context) string {
	for _, fields := range s.client.InfoMap(ctx, "server").Val() {
		if version := fields["valkey_version"]; version != "" {
			return "valkey " + version
		}
		if version := fields["redis_version"]; version != "" {
			return "redis " + version
		}
	}
	return ""
}
