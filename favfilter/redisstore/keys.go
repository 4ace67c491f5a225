package redisstore

import (
	"fmt"
	"strconv"
	"strings"

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
	other := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' || c == '.')
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
