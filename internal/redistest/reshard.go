package redistest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	// With one key at a time, clients see a slot in every state of the move, and keys of one
	// command on both sides.
	migrateBatch = 1
	// migrateTimeoutMillis is how long one of the two nodes may wait for the other.
	migrateTimeoutMillis = 10_000
)

// MoveSlots moves slots, each from 0 to 16383, with their keys from one primary to another, slot by
// slot and key by key. A resharding of a live cluster does the same. Clients get ASK for keys that
// have moved or are new. They get TRYAGAIN for commands on keys of which only some have moved, and
// MOVED once a slot has moved.
//
// MoveSlots returns when all running nodes, replicas included, know of the change. If a slot were
// moved on before that, all nodes could lose it. After an error, or the end of ctx, the present
// slot stays between the two nodes until another MoveSlots between them.
func (c *Cluster) MoveSlots(ctx context.Context, from, to *Server, slots []int) error {
	for _, slot := range slots {
		if err := c.moveSlot(ctx, from, to, slot); err != nil {
			return fmt.Errorf("moving slot %d from %s to %s: %w", slot, from.Addr(), to.Addr(), err)
		}
	}
	what := fmt.Sprintf("all nodes know of the slots that %s got", to.Addr())
	return servertest.Await(ctx, what, func(ctx context.Context) error {
		for _, node := range c.up() {
			err := c.checkServes(ctx, node, to, slots)
			if err == nil {
				continue
			}
			// The source may have claimed the slot between the two answers, and the target believed it.
			for _, slot := range slots {
				if told := c.assignSlot(ctx, from, to, slot); told != nil {
					return errors.Join(err, told)
				}
			}
			return err
		}
		return nil
	})
}

// checkServes returns an error that names the slots that the node does not assign to the target.
func (c *Cluster) checkServes(ctx context.Context, node, to *Server, slots []int) error {
	records, err := c.records(ctx, node)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(records, func(r nodeRecord) bool { return r.id == c.id(to) })
	for _, slot := range slots {
		if i < 0 || !records[i].serves(slot) {
			return fmt.Errorf("%s does not know of slot %d", node.Addr(), slot)
		}
	}
	return nil
}

func (c *Cluster) moveSlot(ctx context.Context, from, to *Server, slot int) error {
	own, err := c.ownRecord(ctx, from)
	if err != nil {
		return err
	}
	if !own.isPrimary() || !own.serves(slot) {
		return errors.New("the source does not serve it")
	}
	err = to.client.Do(ctx, "CLUSTER", "SETSLOT", slot, "IMPORTING", c.id(from)).Err()
	if err != nil {
		return fmt.Errorf("opening the target: %w", err)
	}
	err = from.client.Do(ctx, "CLUSTER", "SETSLOT", slot, "MIGRATING", c.id(to)).Err()
	if err != nil {
		return fmt.Errorf("opening the source: %w", err)
	}
	for {
		keys, err := from.client.ClusterGetKeysInSlot(ctx, slot, migrateBatch).Result()
		if err != nil {
			return fmt.Errorf("listing the keys: %w", err)
		}
		if len(keys) == 0 {
			break
		}
		migrate := []any{"MIGRATE", servertest.Host, to.Port, "", 0, migrateTimeoutMillis}
		if password := to.arg(passwordArg); password != "" {
			migrate = append(migrate, "AUTH", password)
		}
		migrate = append(migrate, "KEYS")
		for _, key := range keys {
			migrate = append(migrate, key)
		}
		if err := from.client.Do(ctx, migrate...).Err(); err != nil {
			return fmt.Errorf("moving %q: %w", keys, err)
		}
	}
	return c.assignSlot(ctx, from, to, slot)
}

// assignSlot tells the primaries which node serves a slot from now on. It tells the target first.
// Otherwise the others would send clients to a node that does not serve the slot yet.
func (c *Cluster) assignSlot(ctx context.Context, from, to *Server, slot int) error {
	others, err := c.ownRecords(ctx)
	if err != nil {
		return err
	}
	nodes := []*Server{to, from}
	for _, node := range c.up() {
		if node != to && node != from && others[node].isPrimary() {
			nodes = append(nodes, node)
		}
	}
	for _, node := range nodes {
		if err := node.client.Do(ctx, "CLUSTER", "SETSLOT", slot, "NODE", c.id(to)).Err(); err != nil {
			return fmt.Errorf("telling %s: %w", node.Addr(), err)
		}
	}
	return nil
}

// AdoptSlots gives the slots that no running node serves to a primary, as an operator does. A
// takeover, which no majority agrees to, can leave such slots.
func (c *Cluster) AdoptSlots(ctx context.Context) error {
	records, err := c.ownRecords(ctx)
	if err != nil {
		return err
	}
	var free []int
	var primary *Server
	for slot := range slotCount {
		if node := server(records, slot); node != nil {
			primary = node
		} else {
			free = append(free, slot)
		}
	}
	if len(free) == 0 || primary == nil {
		return nil
	}
	if err := primary.client.ClusterAddSlots(ctx, free...).Err(); err != nil {
		return fmt.Errorf("giving slots %v to %s: %w", free, primary.Addr(), err)
	}
	return nil
}
