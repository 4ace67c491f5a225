package redistest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// nodeRecord is a node's view of a node, which may be itself: a line of CLUSTER NODES.
type nodeRecord struct {
	id      string
	flags   []string
	primary string // the id of its primary; "" if it is a primary
	epoch   int64
	slots   []string // "7" or "7-9", in order
}

func (r nodeRecord) isPrimary() bool {
	return slices.Contains(r.flags, "master")
}

// isMember reports whether the node is a full member that is considered up.
func (r nodeRecord) isMember() bool {
	for _, flag := range []string{"fail", "fail?", "handshake", "noaddr"} {
		if slices.Contains(r.flags, flag) {
			return false
		}
	}
	return true
}

// serves reports whether the record contains the slot.
func (r nodeRecord) serves(slot int) bool {
	return slices.ContainsFunc(r.slots, func(s string) bool {
		first, last, isRange := strings.Cut(s, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		return err == nil && err2 == nil && from <= slot && slot <= to
	})
}

// parseNodes parses the answer to CLUSTER NODES.
func parseNodes(answer string) ([]nodeRecord, error) {
	var records []nodeRecord
	for line := range strings.Lines(answer) {
		// id ip:port@bus flags primary ping-sent pong-received epoch link slot...
		fields := strings.Fields(line)
		if len(fields) < 8 {
			return nil, fmt.Errorf(
				"the line %q of CLUSTER NODES has %d fields, want at least 8", line, len(fields),
			)
		}
		epoch, err := strconv.ParseInt(fields[6], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the line %q of CLUSTER NODES: %w", line, err)
		}
		r := nodeRecord{id: fields[0], flags: strings.Split(fields[2], ","), epoch: epoch}
		if fields[3] != "-" {
			r.primary = fields[3]
		}
		for _, slot := range fields[8:] {
			if !strings.HasPrefix(slot, "[") { // "[" begins a slot that is being moved
				r.slots = append(r.slots, slot)
			}
		}
		records = append(records, r)
	}
	return records, nil
}

// up returns the nodes that run and are not paused.
func (c *Cluster) up() []*Server {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(s *Server) bool { return !s.IsUp() })
}

func (c *Cluster) id(s *Server) string {
	if i := slices.Index(c.nodes, s); i >= 0 {
		return c.ids[i]
	}
	return "not of this cluster" // no node has this id
}

// records returns a node's view of all nodes, with itself.
func (c *Cluster) records(ctx context.Context, s *Server) ([]nodeRecord, error) {
	answer, err := s.client.ClusterNodes(ctx).Result()
	if err != nil {
		return nil, fmt.Errorf("asking %s for its nodes: %w", s.Addr(), err)
	}
	records, err := parseNodes(answer)
	if err != nil {
		return nil, fmt.Errorf("asking %s for its nodes: %w", s.Addr(), err)
	}
	return records, nil
}

// ownRecord returns a node's record of itself.
func (c *Cluster) ownRecord(ctx context.Context, s *Server) (nodeRecord, error) {
	records, err := c.records(ctx, s)
	if err != nil {
		return nodeRecord{}, err
	}
	i := slices.IndexFunc(records, func(r nodeRecord) bool {
		return slices.Contains(r.flags, "myself")
	})
	if i < 0 {
		return nodeRecord{}, fmt.Errorf("asking %s for its nodes: it is not among them", s.Addr())
	}
	return records[i], nil
}

// ownRecords returns each running node's record of itself.
func (c *Cluster) ownRecords(ctx context.Context) (map[*Server]nodeRecord, error) {
	records := make(map[*Server]nodeRecord)
	for _, node := range c.up() {
		own, err := c.ownRecord(ctx, node)
		if err != nil {
			return nil, err
		}
		records[node] = own
	}
	return records, nil
}

// Primary returns the node that serves the slot of the key. If several running nodes claim the
// slot, Primary returns the one that was elected last. It returns an error if no running node
// claims the slot, as between the end of a primary and the election of its replica.
func (c *Cluster) Primary(ctx context.Context, slotKey string) (*Server, error) {
	up := c.up()
	if len(up) == 0 {
		return nil, fmt.Errorf("finding the primary of %q: no node is running", slotKey)
	}
	slot, err := up[0].client.ClusterKeySlot(ctx, slotKey).Result()
	if err != nil {
		return nil, fmt.Errorf("finding the slot of %q: %w", slotKey, err)
	}
	records, err := c.ownRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the primary of %q: %w", slotKey, err)
	}
	primary := server(records, int(slot))
	if primary == nil {
		return nil, fmt.Errorf(
			"finding the primary of %q: no running node serves slot %d", slotKey, slot,
		)
	}
	return primary, nil
}

// server returns the node that serves a slot, or nil. If two nodes claim the slot, one of them has
// not heard of a newer election or resharding. The other one has the higher epoch.
func server(records map[*Server]nodeRecord, slot int) *Server {
	var found *Server
	for node, own := range records {
		if own.isPrimary() && own.serves(slot) && (found == nil || own.epoch > records[found].epoch) {
			found = node
		}
	}
	return found
}

// Primaries returns the running nodes that serve slots, in the order of Nodes.
func (c *Cluster) Primaries(ctx context.Context) ([]*Server, error) {
	records, err := c.ownRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the primaries: %w", err)
	}
	serving := make(map[*Server]bool)
	for slot := range slotCount {
		serving[server(records, slot)] = true
	}
	return slices.DeleteFunc(slices.Clone(c.nodes), func(s *Server) bool { return !serving[s] }), nil
}

// ReplicasOf returns the running nodes that claim to replicate the primary, in the order of Nodes.
func (c *Cluster) ReplicasOf(ctx context.Context, primary *Server) ([]*Server, error) {
	records, err := c.ownRecords(ctx)
	if err != nil {
		return nil, fmt.Errorf("finding the replicas of %s: %w", primary.Addr(), err)
	}
	id := c.id(primary)
	return slices.DeleteFunc(slices.Clone(c.nodes), func(s *Server) bool {
		return records[s].primary != id
	}), nil
}

// WaitOK returns when the cluster is healthy. Running nodes serve all slots, agree which node
// serves which, and consider one another up. Each running replica is connected to its primary. The
// nodes name all running nodes to clients, and no other.
func (c *Cluster) WaitOK(ctx context.Context) error {
	return servertest.Await(ctx, "the cluster is at rest", func(ctx context.Context) error {
		own, err := c.ownRecords(ctx)
		if err != nil {
			return err
		}
		if len(own) == 0 {
			return errors.New("no node is running")
		}
		for _, node := range slices.SortedFunc(maps.Keys(own), byAddr) {
			if err := c.checkView(ctx, node, own); err != nil {
				return fmt.Errorf("%s: %w", node.Addr(), err)
			}
		}
		return nil
	})
}

func byAddr(a, b *Server) int {
	return strings.Compare(a.Addr(), b.Addr())
}

// checkView returns an error if a node's view of the cluster differs from what each node says of
// itself.
func (c *Cluster) checkView(ctx context.Context, node *Server, own map[*Server]nodeRecord) error {
	info, err := node.client.ClusterInfo(ctx).Result()
	if err != nil {
		return err
	}
	for _, line := range []string{"cluster_state:ok\r\n", "cluster_slots_ok:16384\r\n"} {
		if !strings.Contains(info, line) {
			return fmt.Errorf("not all slots are served: %q", info)
		}
	}
	records, err := c.records(ctx, node)
	if err != nil {
		return err
	}
	for other, itself := range own {
		i := slices.IndexFunc(records, func(r nodeRecord) bool { return r.id == itself.id })
		if i < 0 || !records[i].isMember() {
			return fmt.Errorf("it takes %s for down, or does not know it", other.Addr())
		}
		seen := records[i]
		if seen.primary != itself.primary || !slices.Equal(seen.slots, itself.slots) {
			return fmt.Errorf("it and %s differ on the part of that", other.Addr())
		}
	}
	if own[node].primary != "" {
		if err := node.checkLink(ctx); err != nil {
			return err
		}
	}
	return c.checkSlots(ctx, node, own)
}

// checkLink returns an error if a replica's connection to its primary is wrong.
func (s *Server) checkLink(ctx context.Context) error {
	replication, err := s.client.Info(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if !strings.Contains(replication, "master_link_status:up\r\n") {
		return fmt.Errorf("it is no replica with a link: %q", replication)
	}
	return nil
}

// checkSlots compares the nodes that a node names to clients with what the nodes say of themselves.
// A node names a replica late, only once it knows the data of the replica.
func (c *Cluster) checkSlots(ctx context.Context, node *Server, own map[*Server]nodeRecord) error {
	//nolint:staticcheck // go-redis itself goes by it
	ranges, err := node.client.ClusterSlots(ctx).Result()
	if err != nil {
		return err
	}
	told := make(map[string]bool)
	for _, r := range ranges {
		for _, n := range r.Nodes {
			told[n.ID] = true
		}
	}
	want := make(map[string]bool)
	for _, r := range own {
		primary, ok := own[c.node(r.primary)]
		if len(r.slots) > 0 || ok && len(primary.slots) > 0 {
			want[r.id] = true
		}
	}
	if !maps.Equal(told, want) {
		return fmt.Errorf(
			"it tells clients of %d nodes that serve slots, and there are %d, or others",
			len(told), len(want),
		)
	}
	return nil
}

// node returns the node with that id, or nil.
func (c *Cluster) node(id string) *Server {
	if i := slices.Index(c.ids, id); i >= 0 {
		return c.nodes[i]
	}
	return nil
}
