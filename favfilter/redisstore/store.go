// Package redisstore stores the pages of a filter in Redis or Valkey, version 6.0 or later. Each
// page is two plain strings, changed by one atomic script. No server module is needed.
package redisstore

import (
	"context"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/feedfilter/feedfilter/favfilter"
)

// Store is a [favfilter.Store] on a Redis server or cluster. It is safe for concurrent use. A call
// whose context has no deadline ends after 3 seconds. A server may be unable to run a command now,
// because a page is moving to another node or data is being loaded. Store then retries: writes for
// about a second, reads for a quarter of that.
//
// Store remembers the shape of every page it has met, about 100 bytes each, because the positions
// of a key follow from the shape. A change costs one more round trip if the store has not met the
// page yet, or if another process has changed its shape.
//
// Store changes a page that has grown by reading it and putting it back: two round trips, whatever
// the number of keys.
type Store struct {
	client redis.UniversalClient
	name   string
	once   bool // commands that a server puts off are not retried
	single bool // the client has one server

	apply, replace, peek script

	mu     sync.RWMutex
	shapes map[favfilter.PageID]favfilter.Header

	stuck stuck
	joint joint
}

var _ favfilter.Store = (*Store)(nil)

// New returns a store of the filter called name, which is 1 to 64 letters, digits, '-', '_' or '.'.
// Its keys begin with "fav:{name/". Two filters with the same name on one server are one filter.
//
// The caller keeps the client and closes it. The client should be created:
//
//   - with ContextTimeoutEnabled, otherwise only the client's own timeouts apply
//   - with maintenance notifications disabled, for servers other than Redis
//   - without reading from replicas, which may lack the last changes
//
// [Guard] prevents callers from waiting for servers that are down.
func New(client redis.UniversalClient, name string) (*Store, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("open page store: %w", err)
	}
	_, single := client.(*redis.Client)
	s := &Store{client: client, name: name, single: single, shapes: make(map[favfilter.PageID]favfilter.Header),
		apply: newScript("apply", writes, applySource), replace: newScript("replace", writes, replaceSource),
		peek: newScript("peek", reads, peekSource)}
	s.joint.send = s.read
	return s, nil
}

// NewReader returns a store like that of [New] for reading from replicas; client must read from
// them. A command that a replica cannot answer now, for example because it is loading data, fails
// at once: the primary can answer it.
func NewReader(client redis.UniversalClient, name string) (*Store, error) {
	s, err := New(client, name)
	if err == nil {
		s.once = true
	}
	return s, err
}

// Load implements [favfilter.Store]. It sends one MGET for each page number, all in one pipeline.
// Successive parts of one page number are one command. The pages lack their collision bits.
//
// On a single server, calls that happen at the same time share pipelines.
func (s *Store) Load(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Loaded, error) {
	r := s.readsOf(ids)
	// In a cluster, a joint read would wait for the slowest node.
	if !s.single || len(ids) == 0 || len(ids) > jointPages {
		return s.loaded(ids, s.read(ctx, r))
	}
	cmds, err := s.joint.read(ctx, r)
	if err != nil {
		return nil, s.loadError(ids, err)
	}
	return s.loaded(ids, cmds)
}

// pageReads holds the MGETs of a call of Load: the keys and the page number of each.
type pageReads struct {
	pages   int // and windows, of all commands
	keys    [][]string
	numbers []uint32
}

// readsOf returns the commands that read the pages. Successive parts of one page number are one
// command.
func (s *Store) readsOf(ids []favfilter.PageID) pageReads {
	r := pageReads{pages: len(ids)}
	for i, id := range ids {
		if i == 0 || ids[i-1].Number != id.Number {
			r.keys = append(r.keys, make([]string, 0, len(ids)-i))
			r.numbers = append(r.numbers, id.Number)
		}
		r.keys[len(r.keys)-1] = append(r.keys[len(r.keys)-1], s.bitsKey(id))
	}
	return r
}

// read sends the commands in one pipeline.
func (s *Store) read(ctx context.Context, r pageReads) []*redis.SliceCmd {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	return pipelined(ctx, s, calls{"load", reads, r.numbers}, func(pipe redis.Pipeliner, i int, _ error) *redis.SliceCmd {
		return pipe.MGet(ctx, r.keys[i]...)
	})
}

// loaded returns the pages that cmds have read, or the error of one of them.
func (s *Store) loaded(ids []favfilter.PageID, cmds []*redis.SliceCmd) ([]favfilter.Loaded, error) {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return nil, s.loadError(ids, err)
		}
	}
	loaded := make([]favfilter.Loaded, 0, len(ids))
	for _, cmd := range cmds {
		for _, val := range cmd.Val() {
			loaded = append(loaded, s.decode(ids[len(loaded)], val))
		}
	}
	return loaded, nil
}

// Versions implements [favfilter.Store]. It sends one GETRANGE for each page, all in one pipeline.
func (s *Store) Versions(ctx context.Context, ids []favfilter.PageID) ([]favfilter.Version, error) {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	of := calls{"versions", reads, make([]uint32, len(ids))}
	for i, id := range ids {
		of.pages[i] = id.Number
	}
	cmds := pipelined(ctx, s, of, func(pipe redis.Pipeliner, i int, _ error) *redis.StringCmd {
		return pipe.GetRange(ctx, s.bitsKey(ids[i]), 0, favfilter.HeaderBytes-1)
	})
	versions := make([]favfilter.Version, len(ids))
	for i, cmd := range cmds {
		header, err := cmd.Result()
		if err != nil {
			return nil, fmt.Errorf("read the versions of pages %v of filter %s in Redis: %w", some(ids), s.name, err)
		}
		versions[i] = favfilter.Version(header)
	}
	return versions, nil
}

func (s *Store) loadError(ids []favfilter.PageID, err error) error {
	return fmt.Errorf("load pages %v of filter %s from Redis: %w", some(ids), s.name, err)
}

func (s *Store) decode(id favfilter.PageID, val any) favfilter.Loaded {
	raw, ok := val.(string)
	if !ok {
		return favfilter.Loaded{}
	}
	loaded := favfilter.Decode([]byte(raw), nil)
	switch {
	case loaded.Damage != nil:
		loaded.Damage = fmt.Errorf("page %v of filter %s: %w", id, s.name, loaded.Damage)
	case loaded.Page != nil:
		s.learn(id, loaded.Page.Header())
	}
	return loaded
}

// learn remembers the header of a page.
func (s *Store) learn(id favfilter.PageID, h favfilter.Header) {
	s.mu.RLock()
	known, ok := s.shapes[id]
	s.mu.RUnlock()
	if ok && known.Shape == h.Shape && known.Identity == h.Identity && (known.Grown > 0) == (h.Grown > 0) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shapes[id] = h
}

func (s *Store) shape(id favfilter.PageID) (favfilter.Header, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h, ok := s.shapes[id]
	return h, ok
}

// versionOf returns the version of a stored page: its header, or the whole string if it is shorter.
func versionOf(raw string) favfilter.Version {
	return favfilter.Version(raw[:min(len(raw), favfilter.HeaderBytes)])
}

// some names the first few pages for an error.
func some(ids []favfilter.PageID) string {
	const few = 3
	if len(ids) <= few {
		return fmt.Sprint(ids)
	}
	return fmt.Sprintf("%v and %d more", ids[:few], len(ids)-few)
}
