package ledger

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// Identity is made with the ledger and stays the same for its whole life, but for
// the Incarnation of one that was restored.
type Identity struct {
	Incarnation uint64 // random, never 0: tells ledgers apart, and the lives of one
	Seed        uint64 // random: for hashing users and keys
	Pages       uint32 // of the first layout: a power of two, 1 to 2^24
}

// identify returns the identity of the ledger whose meta and layouts are given, and what of
// meta has to be written first: all of it for a new ledger (no meta), which
// gets the number of pages asked for, or the default if that is 0; the new
// incarnation of a restored one; nothing otherwise. A new ledger gets its first layout, too.
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
		return Identity{}, nil, fmt.Errorf("%w: it has %d, %d are asked for", ErrPagesDiffer, now.Current, o.Pages)
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

// meta is the identity as the table meta has it: decimal text.
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
		return Identity{}, fmt.Errorf("damaged: %v", meta)
	}
	return id, nil
}
