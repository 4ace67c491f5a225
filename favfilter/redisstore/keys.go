package redisstore

import (
	"fmt"
	"strconv"

	"github.com/feedfilter/feedfilter/favfilter"
)

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
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return fmt.Errorf("filter name %q: only letters, digits, '-', '_' and '.'", name)
		}
	}
	return nil
}

func (s *Store) keys(id favfilter.PageID) (bits, regions string) {
	var buf [128]byte
	prefix := s.appendPrefix(buf[:0], id)
	regions = string(append(prefix, "regions"...))
	return string(append(prefix, "bits"...)), regions
}

// bitsKey returns the key of the bits string alone, the first result of keys.
func (s *Store) bitsKey(id favfilter.PageID) string {
	var buf [128]byte
	return string(append(s.appendPrefix(buf[:0], id), "bits"...))
}

// appendPrefix appends the common prefix of the keys of both strings.
func (s *Store) appendPrefix(name []byte, id favfilter.PageID) []byte {
	name = append(append(append(name, "fav:{"...), s.name...), '/')
	name = append(strconv.AppendUint(name, uint64(id.Number), 10), "}:"...)
	if id.Part != "" {
		name = append(append(name, id.Part...), ':')
	}
	return name
}
