package bench

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Ping returns a [Call] of PING.
func Ping(client redis.UniversalClient) Call {
	return Call{Name: "PING", Do: func(ctx context.Context, _ int) error { return client.Ping(ctx).Err() }}
}

// Remove removes all keys of a filter from a server, or from all primaries of a cluster. It scans
// all keys.
func Remove(ctx context.Context, client redis.UniversalClient, filter string) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return removeFrom(ctx, node, filter) })
	}
	return removeFrom(ctx, client, filter)
}

func removeFrom(ctx context.Context, node redis.Cmdable, filter string) error {
	for keys := node.Scan(ctx, 0, "fav:{"+filter+"/*", 1000).Iterator(); ; {
		pipe := node.Pipeline()
		for pipe.Len() < 1000 && keys.Next(ctx) {
			pipe.Unlink(ctx, keys.Val()) // one at a time: in a cluster, they are in different slots
		}
		if err := keys.Err(); err != nil || pipe.Len() == 0 {
			return err
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return err
		}
	}
}
