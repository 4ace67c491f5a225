// Package redisstore stores the pages of a filter in Redis or Valkey, version 6.0 or later. Each
// page is two plain strings, changed by one atomic script. No server module is needed.
package redisstore

import (
	"fmt"
	"strconv"
	"strings"
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
// page yet, and two more if another process has changed its shape.
//
// Store changes a page that has grown by reading it and putting it back: two round trips, whatever
// the number of keys.
type Store struct {
	client redis.UniversalClient
	name   string
	once   bool // commands that a server puts off are not retried

	apply, replace, peek script

	mu     sync.RWMutex
	shapes map[favfilter.PageID]favfilter.Header

	backoff   backoff
	coalescer *coalescer // nil in a cluster, where shared reads would wait for the slowest node
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
// [Guard] prevents callers from waiting for servers that are down, or that refuse commands. Without
// it the first write of each page waits for a second while a server is read-only.
func New(client redis.UniversalClient, name string) (*Store, error) {
	if err := checkName(name); err != nil {
		return nil, fmt.Errorf("open page store: %w", err)
	}
	s := &Store{
		client:  client,
		name:    name,
		shapes:  make(map[favfilter.PageID]favfilter.Header),
		apply:   newScript("apply", applySource),
		replace: newScript("replace", replaceSource),
		peek:    newScript("peek", peekSource),
	}
	if _, single := client.(*redis.Client); single {
		s.coalescer = &coalescer{send: s.sendReads, turns: make(chan struct{}, coalescedReads)}
	}
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

// learn remembers the header of a page, of which scripts compare all but the counts and the build.
func (s *Store) learn(id favfilter.PageID, h favfilter.Header) {
	known, ok := s.shape(id)
	if ok && known.Shape == h.Shape && known.Identity == h.Identity && known.Left == h.Left &&
		(known.Grown > 0) == (h.Grown > 0) {
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

// decode decodes the strings that were read under id: raw, and collisions unless it is nil. They
// are nil or of another type where nothing is stored.
func (s *Store) decode(id favfilter.PageID, raw any, collisions []byte) favfilter.Loaded {
	text, ok := raw.(string)
	if !ok {
		return favfilter.Loaded{}
	}
	loaded := favfilter.Decode(id, []byte(text), collisions)
	switch {
	case loaded.Damage != nil:
		loaded.Damage = fmt.Errorf("page %v of filter %s: %w", id, s.name, loaded.Damage)
	case loaded.Page != nil:
		s.learn(id, loaded.Page.Header())
	}
	return loaded
}

// failed returns the error of a call about pages. It names the first few.
func (s *Store) failed(to string, err error, ids ...favfilter.PageID) error {
	const few = 3
	switch n := len(ids); {
	case n == 1:
		return fmt.Errorf("%s page %v of filter %s in Redis: %w", to, ids[0], s.name, err)
	case n <= few:
		return fmt.Errorf("%s pages %v of filter %s in Redis: %w", to, ids, s.name, err)
	default:
		return fmt.Errorf(
			"%s pages %v and %d more of filter %s in Redis: %w", to, ids[:few], n-few, s.name, err,
		)
	}
}

// maxNameBytes is the maximum length of a filter name. Every page is two strings. The braces keep
// all strings of a page number in one hash slot of a cluster:
//
//	fav:{<filter>/<page>}:bits              header and Bloom bits
//	fav:{<filter>/<page>}:regions           build ID and collision bitmap
//	fav:{<filter>/<page>}:<part>:bits       the same of another part
//	fav:{<filter>/<page>}:<part>:regions
const maxNameBytes = 64

func checkName(name string) error {
	if name == "" || len(name) > maxNameBytes {
		return fmt.Errorf("filter name %q: not 1 to %d bytes", name, maxNameBytes)
	}
	other := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			c == '-' || c == '_' || c == '.')
	}
	if strings.ContainsFunc(name, other) {
		return fmt.Errorf("filter name %q: only letters, digits, '-', '_' and '.'", name)
	}
	return nil
}

// key returns the key of one string of a page: which is "bits" or "regions".
func (s *Store) key(id favfilter.PageID, which string) string {
	var buf [128]byte
	name := append(append(append(buf[:0], "fav:{"...), s.name...), '/')
	name = append(strconv.AppendUint(name, uint64(id.Number), 10), "}:"...)
	if id.Part != "" {
		name = append(append(name, id.Part...), ':')
	}
	return string(append(name, which...))
}
