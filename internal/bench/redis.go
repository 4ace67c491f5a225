package bench

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Ping returns a [Call] of PING.
func Ping(client redis.UniversalClient) Call {
	return Call{Name: "PING", Do: func(ctx context.Context, _ int) error {
		return client.Ping(ctx).Err()
	}}
}

// Remove removes all keys of a filter from a server, or from all primaries of a cluster. It scans
// all keys.
func Remove(ctx context.Context, client redis.UniversalClient, filter string) error {
	if cluster, ok := client.(*redis.ClusterClient); ok {
		return cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return removeFrom(ctx, node, filter)
		})
	}
	return removeFrom(ctx, client, filter)
}

func removeFrom(ctx context.Context, node redis.Cmdable, filter string) error {
	keys := node.Scan(ctx, 0, "fav:{"+filter+"/*", 1000).Iterator()
	for keys.Next(ctx) {
		if err := node.Unlink(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}
