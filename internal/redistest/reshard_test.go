package redistest_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// TestMoveSlots moves a slot back and forth while a client writes to it.
func TestMoveSlots(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 1)
	from := primaryOf(t, c, "{a}")
	to := c.Nodes()[1-slices.Index(c.Nodes(), from)]
	slot := slotOf(t, from, "{a}")
	ctx, cancel := context.WithCancel(t.Context())
	progress, written := make(chan struct{}), make(chan map[string]string, 1)
	go func() {
		defer close(progress)
		written <- writePairs(ctx, c.Client(), progress)
	}()
	for range 4 {
		<-progress
		if err := c.MoveSlots(t.Context(), from, to, []int{slot}); err != nil {
			t.Error(err)
		}
		if got := primaryOf(t, c, "{a}"); got != to {
			t.Errorf("after MoveSlots %s serves the slot, want %s", got.Addr(), to.Addr())
		}
		from, to = to, from
	}
	cancel()
	values := <-written
	if len(values) < 2*pairs-2 {
		t.Errorf("only %d keys were written", len(values))
	}
	for key, want := range values {
		wantInCluster(t, c, key, want)
	}
	waitOK(t, c)
	redirections := from.Client().Info(t.Context(), "errorstats").Val()
	for _, reply := range []string{"ASK", "MOVED"} {
		if !strings.Contains(redirections, "errorstat_"+reply+":") {
			t.Errorf("the client never got %s: %s", reply, redirections)
		}
	}
}

// TestAdoptSlots gives a slot that nobody serves to a node.
func TestAdoptSlots(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 1)
	slot := slotOf(t, primaryOf(t, c, "{a}"), "{a}")
	for _, node := range c.Nodes() {
		must(t, node.Client().ClusterDelSlots(t.Context(), slot).Err())
	}
	if node, err := c.Primary(t.Context(), "{a}"); err == nil {
		t.Fatalf("%s serves the slot", node.Addr())
	}
	must(t, c.AdoptSlots(t.Context()))
	waitOK(t, c)
}

// pairs is how many pairs of keys TestMoveSlots moves each time.
const pairs = 200

// writePairs writes pairs of keys of one slot, both with each command, until ctx is done. After
// each round it sends to progress if a receiver waits. It returns the last acknowledged values.
func writePairs(ctx context.Context, client *redis.ClusterClient, progress chan<- struct{}) map[string]string {
	acknowledged := make(map[string]string)
	for i := 0; ctx.Err() == nil; i++ {
		a, b, value := fmt.Sprintf("{a}%da", i%pairs), fmt.Sprintf("{a}%db", i%pairs), strconv.Itoa(i)
		// An unacknowledged write may have taken effect or not. Repeat it.
		for client.MSet(ctx, a, value, b, value).Err() != nil {
			if ctx.Err() != nil {
				delete(acknowledged, a)
				delete(acknowledged, b)
				return acknowledged
			}
		}
		acknowledged[a], acknowledged[b] = value, value
		if i%pairs == pairs-1 {
			select {
			case progress <- struct{}{}:
			default:
			}
		}
	}
	return acknowledged
}

func TestMoveSlotsBetweenTheWrongNodes(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	nodes := c.Nodes()
	if err := c.MoveSlots(t.Context(), nodes[1], nodes[2], []int{0}); err == nil || !strings.Contains(err.Error(), "slot 0") {
		t.Errorf("moving a slot from a node that does not serve it: %v, want an error that names the slot", err)
	}
	waitOK(t, c)
	if err := c.MoveSlots(t.Context(), nodes[0], nodes[2], []int{0, 1, 5460}); err != nil {
		t.Error(err)
	}
	waitOK(t, c)
	slots := nodes[2].Client().ClusterNodes(t.Context()).Val()
	if !strings.Contains(slots, " 0-1 5460 10922-16383\n") || !strings.Contains(slots, " 2-5459\n") {
		t.Errorf("after moving slots 0, 1 and 5460 the nodes have %s", slots)
	}
}

// TestMoveSlotsEndsInBetween interrupts a move half way, and continues it.
func TestMoveSlotsEndsInBetween(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0)
	from := primaryOf(t, c, "{a}")
	to := c.Nodes()[1-slices.Index(c.Nodes(), from)]
	const keys = 20
	for i := range keys {
		setInCluster(t, c, fmt.Sprintf("{a}%d", i), "value")
	}
	// A key that exists at the target cannot be moved there.
	slot := slotOf(t, from, "{a}")
	listed := from.Client().ClusterGetKeysInSlot(t.Context(), slot, keys).Val()
	obstacle := listed[keys/2]
	place := func(command ...any) {
		pipe := to.Client().Pipeline()
		pipe.Do(t.Context(), "ASKING")
		done := pipe.Do(t.Context(), command...)
		if _, _ = pipe.Exec(t.Context()); done.Err() != nil {
			t.Fatal(done.Err())
		}
	}
	if err := to.Client().Do(t.Context(), "CLUSTER", "SETSLOT", slot, "IMPORTING", from.Client().ClusterMyID(t.Context()).Val()).Err(); err != nil {
		t.Fatal(err)
	}
	place("SET", obstacle, "other")
	if err := c.MoveSlots(t.Context(), from, to, []int{slot}); err == nil || !strings.Contains(err.Error(), obstacle) {
		t.Errorf("moving a key that exists at the target: %v, want an error that names it", err)
	}
	if a, b := from.Client().DBSize(t.Context()).Val(), to.Client().DBSize(t.Context()).Val(); a == 0 || b < 2 || a+b != keys+1 {
		t.Errorf("half way the nodes hold %d and %d keys, want all %d and the obstacle", a, b, keys)
	}
	missing := slices.DeleteFunc(slices.Clone(listed), func(key string) bool {
		return from.Client().Exists(t.Context(), key).Err() == nil
	})
	if len(missing) == 0 {
		t.Error("half way no key has moved")
	}
	for _, key := range missing {
		if err := from.Client().MGet(t.Context(), key, obstacle).Err(); !redis.IsTryAgainError(err) {
			t.Errorf("MGET of a key that has moved and one that has not: %v, want TRYAGAIN", err)
		}
	}
	place("DEL", obstacle)
	if err := c.MoveSlots(t.Context(), from, to, []int{slot}); err != nil {
		t.Error(err)
	}
	waitOK(t, c)
	for i := range keys {
		wantInCluster(t, c, fmt.Sprintf("{a}%d", i), "value")
	}
}

func slotOf(t *testing.T, s *redistest.Server, key string) int {
	t.Helper()
	slot, err := s.Client().ClusterKeySlot(t.Context(), key).Result()
	must(t, err)
	return int(slot)
}
