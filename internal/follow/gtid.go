package follow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxRanges is the number of ranges that a set of GTIDs has at most. Events are of few tables, so
// most of their transactions have gaps between them. When there are more ranges, the set closes its
// smallest gaps: the unused parts of blocks that the members of a group number from stay open.
const maxRanges = 64

// gtid is the number of a transaction of MySQL or MariaDB. The zero value is none.
type gtid struct {
	// Server is what numbers its transactions for itself. In MySQL, it is the UUID of a server or
	// group, with a tag if it has one, such as "3e11fa47-...:tag". In MariaDB, it is the domain and
	// the server, such as "0-1".
	Server string
	Number uint64
}

// parseGTID parses what an event has: uuid:7, uuid:tag:7 or domain-server-sequence. "" is none.
func parseGTID(text string) (g gtid, err error) {
	if text == "" {
		return g, nil
	}
	at := strings.LastIndexByte(text, ':')
	if at < 0 && strings.Count(text, "-") == 2 {
		at = strings.LastIndexByte(text, '-')
	}
	if at <= 0 || strings.ContainsAny(text, ", ") {
		return g, fmt.Errorf("gtid %q is not one such as uuid:7, uuid:tag:7 or 0-1-42", text)
	}
	g.Server = text[:at]
	if g.Number, err = strconv.ParseUint(text[at+1:], 10, 63); err != nil || g.Number == 0 {
		return g, fmt.Errorf("gtid %q ends with no number of a transaction", text)
	}
	return g, nil
}

// span is a range of numbers, with both ends.
type span struct{ first, last uint64 }

// gtidSet is a set of transactions. Ranges are in order, and have gaps between them.
type gtidSet map[string][]span

// has reports whether the transaction is in the set.
func (s gtidSet) has(g gtid) bool {
	return slices.ContainsFunc(s[g.Server], func(r span) bool {
		return r.first <= g.Number && g.Number <= r.last
	})
}

// greatest returns the greatest number of a server; 0: it has none.
func (s gtidSet) greatest(server string) uint64 {
	if all := s[server]; len(all) > 0 {
		return all[len(all)-1].last
	}
	return 0
}

// with returns the set with one more transaction. It leaves s as it is.
func (s gtidSet) with(g gtid) gtidSet {
	all := slices.Clone(s[g.Server])
	at, _ := slices.BinarySearchFunc(all, g.Number, func(r span, n uint64) int {
		if r.last < n {
			return -1
		}
		return 1
	})
	all = slices.Insert(all, at, span{g.Number, g.Number})
	next := maps.Clone(s)
	if next == nil {
		next = make(gtidSet)
	}
	next[g.Server] = narrowed(all)
	return next
}

// narrowed joins ranges without a gap between them, and closes the smallest gaps until there are
// few enough ranges.
func narrowed(all []span) []span {
	join := func(at int) {
		all[at-1].last = max(all[at-1].last, all[at].last)
		all = slices.Delete(all, at, at+1)
	}
	for i := len(all) - 1; i > 0; i-- {
		if all[i].first <= all[i-1].last+1 {
			join(i)
		}
	}
	for len(all) > maxRanges {
		least := 1
		for i := 2; i < len(all); i++ {
			if all[i].first-all[i-1].last < all[least].first-all[least-1].last {
				least = i
			}
		}
		join(least)
	}
	return all
}

// String returns the set as MySQL prints one: "uuid:1-5:7,uuid:tag:3".
func (s gtidSet) String() string {
	var b strings.Builder
	for i, server := range slices.Sorted(maps.Keys(s)) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(server)
		for _, r := range s[server] {
			fmt.Fprintf(&b, ":%d", r.first)
			if r.last > r.first {
				fmt.Fprintf(&b, "-%d", r.last)
			}
		}
	}
	return b.String()
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// parseGTIDSet parses what String returns.
func parseGTIDSet(text string) (gtidSet, error) {
	set := make(gtidSet)
	for one := range strings.SplitSeq(text, ",") {
		parts := strings.Split(one, ":")
		names := 1 // the server, and a tag, which begins with no digit
		for names < len(parts) && parts[names] != "" && !isDigit(parts[names][0]) {
			names++
		}
		var all []span
		for _, part := range parts[names:] {
			first, last, isRange := strings.Cut(part, "-")
			var r span
			var err error
			if r.first, err = strconv.ParseUint(first, 10, 64); err == nil && isRange {
				r.last, err = strconv.ParseUint(last, 10, 64)
			} else {
				r.last = r.first
			}
			if err != nil {
				return nil, fmt.Errorf("transactions %q: %w", one, err)
			}
			all = append(all, r)
		}
		set[strings.Join(parts[:names], ":")] = all
	}
	return set, nil
}
