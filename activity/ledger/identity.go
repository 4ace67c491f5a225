package ledger

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Identity is created with the ledger and never changes, except for the Incarnation of a
// restored ledger.
type Identity struct {
	Incarnation uint64 // random, never 0: differs between ledgers, and after a restore
	Seed        uint64 // random: for hashes of users and keys
	Pages       uint32 // of the first layout: a power of two, 1 to 2^24
}

// identify returns the identity of the ledger with the given meta and layouts, and the statements
// that store what is new. A new ledger has no meta and no layouts. It gets the number of pages
// asked for, or the default for 0. A restored ledger gets a new incarnation.
func identify(
	meta map[string]string, now Layouts, o Options,
) (id Identity, write []statement, err error) {
	if len(meta) == 0 {
		id = newIdentity(o.Pages)
		write = append(Layouts{Current: id.Pages}.statements(), id.statements()...)
		return id, append(write, putPageFormat()), nil
	}
	if id, err = parseIdentity(meta); err != nil {
		return Identity{}, nil, err
	}
	if o.Pages != 0 && !slices.Contains([]uint32{id.Pages, now.Current, now.other()}, o.Pages) {
		return Identity{}, nil, fmt.Errorf(
			"%w: the ledger has %d, asked for %d", ErrPagesDiffer, now.Current, o.Pages,
		)
	}
	if !o.Restored {
		return id, nil, nil
	}
	id.Incarnation = newIdentity(id.Pages).Incarnation
	return id, id.statements(), nil
}

func newIdentity(pages uint32) Identity {
	var random [16]byte
	rand.Read(random[:]) // never fails
	return Identity{
		Incarnation: max(1, binary.LittleEndian.Uint64(random[:8])),
		Seed:        binary.LittleEndian.Uint64(random[8:]),
		Pages:       cmp.Or(pages, DefaultPages),
	}
}

// statements returns the statements that store the identity in the table meta, as decimal text.
func (id Identity) statements() (all []statement) {
	for _, v := range []struct {
		name  string
		value uint64
	}{{"incarnation", id.Incarnation}, {"pages", uint64(id.Pages)}, {"seed", id.Seed}} {
		all = append(
			all, statement{sql: putMetaSQL, args: []any{v.name, strconv.FormatUint(v.value, 10)}},
		)
	}
	return all
}

func parseIdentity(meta map[string]string) (Identity, error) {
	incarnation, err1 := strconv.ParseUint(meta["incarnation"], 10, 64)
	seed, err2 := strconv.ParseUint(meta["seed"], 10, 64)
	pages, err3 := strconv.ParseUint(meta["pages"], 10, 32)
	id := Identity{Incarnation: incarnation, Seed: seed, Pages: uint32(pages)}
	err := errors.Join(err1, err2, err3, Options{Pages: id.Pages}.validate())
	if err != nil || incarnation == 0 || pages == 0 {
		return Identity{}, fmt.Errorf("damaged identity: %v", meta)
	}
	return id, nil
}
