package redisstore

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Epoch implements [favfilter.Store]. It asks each primary of a cluster, or the single server, for
// its identity (INFO server, INFO replication). In a cluster it also asks one node which node
// serves which slots. Epoch omits what a server refuses to report, unless the server refuses
// everything.
//
// Epoch does not detect deleted pages (FLUSHALL, eviction): those are missing.
func (s *Store) Epoch(ctx context.Context) (string, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	var epoch string
	var err error
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		epoch, err = clusterEpoch(ctx, cluster)
	} else {
		epoch, err = serverEpoch(ctx, s.client)
	}
	if err != nil {
		return "", fmt.Errorf("read the epoch of Redis for filter %s: %w", s.name, err)
	}
	return epoch, nil
}

// clusterEpoch returns the epochs of all primaries, and a hash of the slots' owners.
func clusterEpoch(ctx context.Context, cluster *redis.ClusterClient) (string, error) {
	var mu sync.Mutex
	var epochs []string
	err := cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		epoch, err := serverEpoch(ctx, node)
		if err != nil && !isReply(err) {
			return fmt.Errorf("%s: %w", node.Options().Addr, err)
		}
		mu.Lock()
		defer mu.Unlock()
		epochs = append(epochs, node.Options().Addr+" "+epoch)
		return nil
	})
	if err != nil {
		return "", err
	}
	slots, err := cluster.ClusterSlots(ctx).Result() //nolint:staticcheck // its replacement needs Redis 7.0
	if err != nil {
		return "", err
	}
	epochs = append(epochs, slotOwners(slots))
	slices.Sort(epochs)
	return strings.Join(epochs, "; "), nil
}

// slotOwners returns a hash of which node serves which slots, because there may be thousands of
// ranges.
func slotOwners(slots []redis.ClusterSlot) string {
	owners := make([]string, 0, len(slots))
	for _, r := range slots {
		if len(r.Nodes) > 0 { // the first is the primary
			owners = append(owners, fmt.Sprintf("%d-%d %s\n", r.Start, r.End, r.Nodes[0].ID))
		}
	}
	slices.Sort(owners)
	sum := fnv.New64a()
	for _, owner := range owners {
		_, _ = sum.Write([]byte(owner)) // cannot fail
	}
	return fmt.Sprintf("slots:%016x", sum.Sum64())
}

// serverEpoch returns the identity that one server reports. An error reply counts as an empty
// identity.
func serverEpoch(ctx context.Context, server redis.Cmdable) (string, error) {
	pipe := server.Pipeline()
	sections := []*redis.Cmd{pipe.Do(ctx, "info", "server"), pipe.Do(ctx, "info", "replication")}
	exec(ctx, pipe, neither)
	var told []string
	var refused error
	for _, section := range sections {
		text, err := section.Text()
		if err != nil && !isReply(err) {
			return "", err
		} else if err != nil {
			refused = err
		}
		for line := range strings.Lines(text) {
			switch name, _, _ := strings.Cut(line, ":"); name {
			case "run_id", "role", "master_replid":
				told = append(told, strings.TrimSpace(line))
			default:
			}
		}
	}
	if len(told) == 0 && refused != nil {
		return "", refused
	}
	return strings.Join(told, " "), nil
}
