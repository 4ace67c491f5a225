// Package inspect reads the state of a page, a user or a key. Its types are the JSON of the API,
// and write themselves as text for a terminal.
package inspect

import (
	"context"
	"fmt"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// Page is the state of a page beside that of the ledger.
type Page struct {
	Number    uint32         `json:"number"`
	Dedicated bool           `json:"dedicated"`
	State     string         `json:"state"`
	Page      *Stands        `json:"page"` // nil: missing or damaged
	Damage    string         `json:"damage,omitzero"`
	Ledger    *Ledger        `json:"ledger"` // nil: no ledger
	Agrees    *bool          `json:"agrees,omitzero"`
	Lacks     map[string]int `json:"lacks"`
	Residual  int            `json:"residual_keys"`
	Behind    uint64         `json:"behind"`
}

// Stands is the state of a page, from its header and bits.
type Stands struct {
	Sequence uint64 `json:"sequence"`
	// Left is the low 24 bits of the sequence at which a user last left the page.
	Left          uint32  `json:"left"`
	Keys          uint32  `json:"keys"`
	Bits          uint32  `json:"bits"` // of all layers
	Hashes        uint8   `json:"hashes"`
	Uniform       bool    `json:"uniform"` // false: keys with a weight set more bits than Hashes
	RegionBits    uint16  `json:"region_bits"`
	Layers        []Layer `json:"layers"`
	Set           uint32  `json:"set"`
	Fill          float64 `json:"fill"` // share of the bits that are set
	Regions       uint32  `json:"regions"`
	Collided      uint32  `json:"collided"`
	CollidedShare float64 `json:"collided_share"`
	Rate          float64 `json:"false_positive_rate"` // of one key
	// FullAt is the fill at which the page is rebuilt, or gets another layer if it grows.
	FullAt       float64 `json:"full_at"`
	Capacity     int     `json:"capacity"` // keys that the first layer is expected to hold then
	BitsBytes    int     `json:"bits_bytes"`
	RegionsBytes int     `json:"regions_bytes"`
	Build        string  `json:"build"`
	Incarnation  string  `json:"incarnation"`
}

// Layer is one Bloom filter of a page.
type Layer struct {
	Bits   uint32 `json:"bits"`
	Hashes uint8  `json:"hashes"`
}

// Ledger is the ledger's state of a page.
type Ledger struct {
	Sequence uint64         `json:"sequence"`
	Left     uint64         `json:"left"` // sequence at which a user last left the page; 0: none has
	Keys     int            `json:"keys"`
	Kinds    map[string]int `json:"kinds"`
	Users    int            `json:"users"`
	Largest  []UserKeys     `json:"largest"`
}

// UserKeys is the number of keys of a user.
type UserKeys struct {
	User string `json:"user"`
	Keys int    `json:"keys"`
}

// ReadPage reads a page, and compares it with the ledger if there is one. name maps a user's id to
// the name shown. ReadPage changes nothing. Errors are those of [pages.Inspector.InspectPage].
func ReadPage(
	ctx context.Context, a activity.Activities, number uint32, name func(user string) string,
) (*Page, error) {
	in, err := a.Inside().InspectPage(ctx, number)
	if err != nil {
		return nil, err
	}
	p := &Page{
		Number:    in.Number,
		Dedicated: in.Dedicated,
		State:     in.State,
		Lacks:     in.Lacks,
		Residual:  in.Residual,
		Behind:    in.Behind,
	}
	if in.Damage != nil {
		p.Damage = in.Damage.Error()
	}
	if l := in.Ledger; l != nil {
		agrees := in.Agrees()
		p.Agrees = &agrees
		p.Ledger = &Ledger{
			Sequence: l.Sequence,
			Left:     l.Left,
			Keys:     l.Keys,
			Kinds:    l.Kinds,
			Users:    l.Users,
		}
		for _, u := range l.Largest {
			p.Ledger.Largest = append(p.Ledger.Largest, UserKeys{name(u.User), u.Keys})
		}
	}
	if in.Page != nil {
		p.Page = standsOf(in)
	}
	return p, nil
}

func standsOf(in *pages.PageInside) *Stands {
	h, size := in.Status.Header, in.Status.Size
	raw, collisions := in.Page.Encode()
	s := &Stands{
		Sequence:      h.Sequence,
		Left:          h.Left,
		Keys:          h.Count,
		Bits:          size.Bits,
		Hashes:        h.Shape.Hashes,
		Uniform:       h.Shape.Uniform,
		RegionBits:    h.Shape.Region,
		Set:           h.Set,
		Fill:          share(h.Set, size.Bits),
		Regions:       size.Regions,
		Collided:      in.Status.Collided,
		CollidedShare: share(in.Status.Collided, size.Regions),
		Rate:          in.Page.FalsePositiveRate(),
		FullAt:        share(in.Limit, h.Shape.Bits),
		Capacity:      in.Capacity,
		BitsBytes:     len(raw),
		RegionsBytes:  len(collisions),
		Build:         fmt.Sprintf("%016x", h.Build),
		Incarnation:   fmt.Sprintf("%016x", h.Incarnation),
	}
	for _, shape := range in.Page.Layers() {
		s.Layers = append(s.Layers, Layer{shape.Bits, shape.Hashes})
	}
	return s
}

func share(part, of uint32) float64 {
	if of == 0 {
		return 0
	}
	return float64(part) / float64(of)
}
