package ledger

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// Home says on which pages the users of one home are. A user's home is what [Identity.Page] says of their hash, for ever; that is also
// the number of its home page, where the users are who were never moved. They have been moved to other pages, which have numbers
// from OwnPages on, if they have one of their own, or if the ledger was reshaped: see [Ledger.Reshape].
type Home struct {
	Number uint32            // of the home and its page
	Ranges []Range           // ascending, the first from the least hash of the home on; none: all are on the home page
	Owners []Owner           // users of the home who have a page of their own, wherever the others are, in order of hash
	Moves  map[uint32]uint32 // of the home page and of the pages of Ranges, those that are not 0: see Standing
}

// Range is users of a home who share a page: from the hash Least on up to the next Range, or to the end of the home.
// The page may be one of several homes.
type Range struct {
	Least uint64
	Page  uint32 // the home page, or one from OwnPages on
	Slot  uint64 // a hash in whose home's slot of the store the page stands; it never changes
}

// Placed says where a user is whose writes have to do with other pages than the home page.
type Placed struct {
	Page uint32 // where the rows are; it may be the home page
	// Left are other pages, beside the home page, that others may still take for the user's who have not heard of a
	// move: a write is not to be acknowledged before these stand, too. They are among the Receipt's.
	Left []uint32
}

// Homes returns the homes asked for, or all if none is named, where anybody ever moved: of which the home page
// has Moves. They are in order, as of one moment. The users of a home that is not returned are all on the home page. A number
// that no home has is an error.
//
// As long as the Moves of a home page are what they were, so are its Ranges and Owners.
func (l *Ledger) Homes(ctx context.Context, homes ...uint32) ([]Home, error) {
	for _, home := range homes {
		if err := l.checkShared(home); err != nil {
			return nil, fmt.Errorf("ledger: read homes: home %d: %w", home, err)
		}
	}
	wanted := slices.Compact(slices.Sorted(slices.Values(homes)))
	var found *placements
	err := l.use(func() (err error) {
		found, err = l.db.placements(ctx, wanted)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledger: read homes: %w", interrupted(ctx, err))
	}
	return found.homes(l.id), nil
}

// placements is what a database has of homes, in any order.
type placements struct {
	moves  map[uint32]uint32 // of home pages, those not 0
	ranges []rangeRow
	owners []Owner
}

type rangeRow struct {
	cell
	slot  uint64
	moves uint32 // of the page
}

func (p *placements) homes(id Identity) []Home {
	homes := make([]Home, 0, len(p.moves))
	for number, moves := range p.moves {
		homes = append(homes, Home{Number: number, Moves: map[uint32]uint32{number: moves}})
	}
	slices.SortFunc(homes, func(a, b Home) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(p.ranges, func(a, b rangeRow) int { return cmp.Compare(a.least, b.least) })
	slices.SortFunc(p.owners, func(a, b Owner) int { return cmp.Compare(a.Hash, b.Hash) })
	ranges, owners := p.ranges, p.owners
	for i := range homes {
		h := &homes[i]
		for ; len(ranges) > 0 && id.Page(ranges[0].least) == h.Number; ranges = ranges[1:] {
			h.add(id, ranges[0])
		}
		if len(h.Ranges) == 1 && h.Ranges[0].Page == h.Number {
			h.Ranges = nil
		}
		for ; len(owners) > 0 && id.Page(owners[0].Hash) == h.Number; owners = owners[1:] {
			h.Owners = append(h.Owners, owners[0])
		}
	}
	return homes
}

// add adds the next row of the table ranges.
func (h *Home) add(id Identity, r rangeRow) {
	begin := id.hashes(h.Number).least
	next := Range{Least: r.least, Page: r.page, Slot: r.slot}
	if next.Page == h.Number {
		next.Slot = begin
	}
	if len(h.Ranges) == 0 && r.least > begin {
		h.Ranges = append(h.Ranges, Range{Least: begin, Page: h.Number, Slot: begin})
	}
	if n := len(h.Ranges); n > 0 && h.Ranges[n-1].Page == next.Page {
		return // they differ only in what they left
	}
	h.Ranges = append(h.Ranges, next)
	if r.moves > 0 {
		h.Moves[next.Page] = r.moves
	}
}
