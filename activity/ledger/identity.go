package ledger

import (
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

// identify returns the identity of the ledger with the given meta and layouts, and the part of
// meta to write. A new ledger has no meta: identify then returns all of it, with the number of
// pages asked for, or the default for 0. For a restored ledger it returns meta with a new
// incarnation, otherwise nothing. The caller also writes the first layout of a new ledger.
func identify(meta map[string]string, now Layouts, o Options) (id Identity, write map[string]string, err error) {
	if len(meta) == 0 {
		id = newIdentity(o.Pages)
		return id, id.meta(), nil
	}
	if id, err = parseIdentity(meta); err != nil {
		return Identity{}, nil, err
	}
	if err := now.check(); err != nil {
		return Identity{}, nil, err
	}
	if o.Pages != 0 && !slices.Contains([]uint32{id.Pages, now.Current, now.other()}, o.Pages) {
		return Identity{}, nil, fmt.Errorf("%w: the ledger has %d, asked for %d", ErrPagesDiffer, now.Current, o.Pages)
	}
	if !o.Restored {
		return id, nil, nil
	}
	id.Incarnation = newIdentity(id.Pages).Incarnation
	return id, id.meta(), nil
}

func newIdentity(pages uint32) Identity {
	if pages == 0 {
		pages = DefaultPages
	}
	var random [16]byte
	rand.Read(random[:]) // never fails
	return Identity{
		Incarnation: max(1, binary.LittleEndian.Uint64(random[:8])),
		Seed:        binary.LittleEndian.Uint64(random[8:]),
		Pages:       pages,
	}
}

// meta returns the identity as the table meta stores it: decimal text.
func (id Identity) meta() map[string]string {
	meta := make(map[string]string)
	for name, value := range map[string]uint64{
		"incarnation": id.Incarnation, "seed": id.Seed, "pages": uint64(id.Pages),
	} {
		meta[name] = strconv.FormatUint(value, 10)
	}
	return meta
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
