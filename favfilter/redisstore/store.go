// Package redisstore stores the pages of a filter in Redis or Valkey, version 6.0 or later. Each
// page is two plain strings, changed by one atomic script. No server module is needed.
package redisstore

import (
	"context"
	"fmt"
	"slices"
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
	loaded, _, err := s.LoadAndCompare(ctx, ids, nil)
	return loaded, err
}

// LoadAndCompare implements [favfilter.Store]. It adds one GETRANGE for each held page to the
// pipeline of Load.
func (s *Store) LoadAndCompare(
	ctx context.Context, ids, held []favfilter.PageID,
) ([]favfilter.Loaded, []favfilter.Version, error) {
	all := s.readsOf(ids, held)
	pages := len(ids) + len(held)
	var cmds []redis.Cmder
	// In a cluster, a joint read would wait for the slowest node.
	if !s.single || pages == 0 || pages > jointPages {
		cmds = s.read(ctx, all)
	} else {
		var err error
		if cmds, err = s.joint.read(ctx, pages, all); err != nil {
			return nil, nil, s.loadError(slices.Concat(ids, held), err)
		}
	}
	first := len(cmds) - len(held)
	loaded, err := s.loaded(ids, cmds[:first])
	return loaded, versions(cmds[first:]), err
}

// pageRead is a command that reads pages and values of one page number, or the header of a page.
type pageRead struct {
	number uint32
	keys   []string // not of a header
	header string   // the key
}

// readsOf returns the commands that read the pages, and after them those that read the headers of
// the held pages.
func (s *Store) readsOf(ids, held []favfilter.PageID) []pageRead {
	all := make([]pageRead, 0, 1+len(held))
	for i, id := range ids {
		if i == 0 || ids[i-1].Number != id.Number {
			all = append(all, pageRead{number: id.Number, keys: make([]string, 0, len(ids)-i)})
		}
		last := &all[len(all)-1]
		last.keys = append(last.keys, s.bitsKey(id))
	}
	for _, id := range held {
		all = append(all, pageRead{number: id.Number, header: s.bitsKey(id)})
	}
	return all
}

// read sends the commands in one pipeline.
func (s *Store) read(ctx context.Context, all []pageRead) []redis.Cmder {
	ctx, cancel := withDeadline(ctx)
	defer cancel()
	of := calls{"load", reads, make([]uint32, len(all))}
	for i := range all {
		of.pages[i] = all[i].number
	}
	return pipelined(ctx, s, of, func(pipe redis.Pipeliner, i int, _ error) redis.Cmder {
		if key := all[i].header; key != "" {
			return pipe.GetRange(ctx, key, 0, favfilter.HeaderBytes-1)
		}
		return pipe.MGet(ctx, all[i].keys...)
	})
}

// loaded returns the pages that cmds have read, or the error of one of them.
func (s *Store) loaded(ids []favfilter.PageID, cmds []redis.Cmder) ([]favfilter.Loaded, error) {
	for _, cmd := range cmds {
		if err := cmd.Err(); err != nil {
			return nil, s.loadError(ids, err)
		}
	}
	loaded := make([]favfilter.Loaded, 0, len(ids))
	for _, cmd := range cmds {
		pages, _ := cmd.(*redis.SliceCmd) // read sent no other
		for _, val := range pages.Val() {
			loaded = append(loaded, s.decode(ids[len(loaded)], val))
		}
	}
	return loaded, nil
}

// versions returns the versions that cmds have read; nil if one of them failed.
func versions(cmds []redis.Cmder) []favfilter.Version {
	all := make([]favfilter.Version, len(cmds))
	for i, cmd := range cmds {
		if cmd.Err() != nil {
			return nil
		}
		header, _ := cmd.(*redis.StringCmd) // read sent no other
		all[i] = favfilter.Version(header.Val())
	}
	return all
}

func (s *Store) loadError(ids []favfilter.PageID, err error) error {
	return fmt.Errorf("load pages %v of filter %s from Redis: %w", some(ids), s.name, err)
}

func (s *Store) decode(id favfilter.PageID, val any) favfilter.Loaded {
	raw, ok := val.(string)
	if !ok {
		return favfilter.Loaded{}
	}
	loaded := favfilter.Decode(id, []byte(raw), nil)
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
