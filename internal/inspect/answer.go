// Package inspect shows the state of a page, a user or a key: as JSON for the API, and as text for
// a terminal.
package inspect

import (
	"fmt"
	"time"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/pages"
)

// MaxCells is the maximum number of cells in the drawing of a page.
const MaxCells = 4096

// Page is a [pages.PageInside] in the API.
type Page struct {
	Number   uint32         `json:"number"`
	Own      bool           `json:"own"`
	State    string         `json:"state"`
	Page     *Stands        `json:"page"` // nil: missing or damaged
	Damage   string         `json:"damage,omitzero"`
	Ledger   *Ledger        `json:"ledger"` // nil: no ledger
	Agrees   *bool          `json:"agrees,omitzero"`
	Lacks    map[string]int `json:"lacks"`
	Residual int            `json:"residual_keys"`
	Behind   uint64         `json:"behind"`
	Drawing  *Drawing       `json:"drawing"`
}

// Stands is the state of a page, from its header and bits.
type Stands struct {
	Sequence      uint64  `json:"sequence"`
	Left          uint32  `json:"left"` // low 24 bits of the sequence at which a user last left the page
	Keys          uint32  `json:"keys"`
	Bits          uint32  `json:"bits"` // of all layers
	Hashes        uint8   `json:"hashes"`
	RegionBits    uint16  `json:"region_bits"`
	Layers        []Layer `json:"layers"`
	Set           uint32  `json:"set"`
	Fill          float64 `json:"fill"` // share of the bits that are set
	Regions       uint32  `json:"regions"`
	Collided      uint32  `json:"collided"`
	CollidedShare float64 `json:"collided_share"`
	Rate          float64 `json:"false_positive_rate"` // of one key
	FullAt        float64 `json:"full_at"`             // fill at which the page is rebuilt, or gets another layer if it grows
	Capacity      int     `json:"capacity"`            // keys that the first layer is expected to hold at that fill
	BitsBytes     int     `json:"bits_bytes"`
	RegionsBytes  int     `json:"regions_bytes"`
	Build         string  `json:"build"`
	Incarnation   string  `json:"incarnation"`
}

// Layer is one Bloom filter of a page.
type Layer struct {
	Bits   uint32 `json:"bits"`
	Hashes uint8  `json:"hashes"`
}

// Ledger is the ledger's state of a page.
type Ledger struct {
	Sequence uint64         `json:"sequence"`
	Left     uint64         `json:"left"` // sequence at which a user last left the page; 0: no user has
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

// Drawing is a condensed page: one byte per cell, from 0 if no bit is set to 255 if all bits are
// set.
type Drawing struct {
	Cells   int    `json:"cells"`
	Bits    []byte `json:"bits"`
	Regions []byte `json:"regions"`
}

// PageOf returns the state of a page, with a drawing of at most cells cells; 0: no drawing. name
// maps a user's id to the name shown.
func PageOf(in *pages.PageInside, cells int, name func(user string) string) Page {
	p := Page{
		Number: in.Number, Own: in.Dedicated, State: in.State.String(), Lacks: in.Lacks, Residual: in.Residual, Behind: in.Behind,
	}
	if in.Damage != nil {
		p.Damage = in.Damage.Error()
	}
	if l := in.Ledger; l != nil {
		agrees := in.Agrees()
		p.Agrees = &agrees
		p.Ledger = &Ledger{Sequence: l.Sequence, Left: l.Left, Keys: l.Keys, Kinds: l.Kinds, Users: l.Users}
		for _, u := range l.Largest {
			p.Ledger.Largest = append(p.Ledger.Largest, UserKeys{name(u.User), u.Keys})
		}
	}
	if in.Page == nil {
		return p
	}
	p.Page = standsOf(in)
	if cells > 0 {
		bits, regions := in.Page.Draw(cells)
		p.Drawing = &Drawing{Cells: len(bits), Bits: bits, Regions: regions}
	}
	return p
}

func standsOf(in *pages.PageInside) *Stands {
	h, size := in.Status.Header, in.Status.Size
	raw, collisions := in.Page.Encode()
	s := &Stands{
		Sequence: h.Sequence, Left: h.Left, Keys: h.Count, Bits: size.Bits, Hashes: h.Shape.Hashes, RegionBits: h.Shape.Region,
		Set: h.Set, Fill: share(h.Set, size.Bits), Regions: size.Regions, Collided: in.Status.Collided,
		CollidedShare: share(in.Status.Collided, size.Regions), Rate: in.Page.FalsePositiveRate(),
		FullAt: share(in.Limit, h.Shape.Bits), Capacity: in.Capacity, BitsBytes: len(raw), RegionsBytes: len(collisions),
		Build: fmt.Sprintf("%016x", h.Build), Incarnation: fmt.Sprintf("%016x", h.Incarnation),
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

// User is a [UserInside] in the API.
type User struct {
	User      string         `json:"user"`
	Hash      string         `json:"hash"`
	Slot      uint32         `json:"slot"` // hash slot of the store that has the user's pages and windows
	Page      uint32         `json:"page"`
	OwnPage   bool           `json:"own_page"`
	Counts    map[string]int `json:"counts"`
	Keys      int            `json:"keys"`
	PageHolds int            `json:"page_holds"`
	Lacks     map[string]int `json:"lacks"`
	PageState string         `json:"page_state"`
	PageKeys  uint32         `json:"page_keys"`
	PageUsers int            `json:"page_users"` // users with keys in the page, this one included; 0 without a ledger
	FeedBytes int            `json:"feed_bytes"`
	Windows   []Window       `json:"windows"`
}

// Window is the size of a user's window of one kind.
type Window struct {
	Kind  string `json:"kind"`
	Parts int    `json:"parts"`
	Keys  int    `json:"keys"`
	Bytes int    `json:"bytes"`
}

// UserOf returns the state of a user.
func UserOf(in *UserInside) User {
	u := User{
		User: in.User, Hash: fmt.Sprintf("%016x", in.Hash), Slot: in.Slot, Page: in.Page, OwnPage: in.Dedicated,
		Counts: in.Keys, Keys: in.Total, PageHolds: in.Holds, Lacks: in.Lacks,
		PageState: in.Inside.State.String(), PageKeys: in.Inside.Status.Header.Count,
		FeedBytes: in.FeedBytes,
	}
	if in.Inside.Ledger != nil {
		u.PageUsers = in.Inside.Ledger.Users
	}
	for _, w := range in.Windows {
		u.Windows = append(u.Windows, Window(w))
	}
	return u
}

// Key is a [KeyInside] in the API.
type Key struct {
	Kind   string   `json:"kind"`
	User   string   `json:"user"`
	Target string   `json:"target"`
	Sides  []Side   `json:"sides"`
	Words  []string `json:"words"` // explains each side
}

// Side is one key in one page.
type Side struct {
	Side      string     `json:"side"`
	Key       string     `json:"key"`
	Kind      string     `json:"kind"`
	Owner     string     `json:"owner"`
	Target    string     `json:"target"`
	Page      uint32     `json:"page"`   // for a window, its slot
	Stored    string     `json:"stored"` // name of the page or window in the store
	PageState string     `json:"page_state"`
	Layer     int        `json:"layer"`
	Positions []Position `json:"positions"`
	Reported  bool       `json:"reported"`
	Clearable int        `json:"clearable"`
	Undo      string     `json:"undo"`
	Verdict   string     `json:"verdict"`
	Ledger    *bool      `json:"ledger,omitzero"` // whether the ledger has the key; nil without a ledger, and for windows
	Since     time.Time  `json:"since,omitzero"`
	Until     time.Time  `json:"until,omitzero"`
}

// Position is a bit of a key.
type Position struct {
	Bit      uint32 `json:"bit"`
	Set      bool   `json:"set"`
	Region   uint32 `json:"region"`
	Collided bool   `json:"collided"`
}

// KeyOf returns the state of an activity.
func KeyOf(in *KeyInside) Key {
	k := Key{Kind: in.Kind.Name, User: in.User, Target: in.Target, Words: wordsOf(in)}
	for i := range in.Sides {
		k.Sides = append(k.Sides, sideOf(&in.Sides[i], in.Kind))
	}
	return k
}

func sideOf(in *KeySide, k activity.Kind) Side {
	s := Side{
		Side: in.Side, Key: in.Key(k), Kind: in.Kind, Owner: in.Owner, Target: in.Target, Page: in.Number, Stored: in.Page,
		PageState: in.State.String(), Layer: in.Traced.Layer, Reported: in.Traced.Reported, Clearable: in.Traced.Clearable,
		Undo: in.Removal.String(), Verdict: in.Verdict.String(), Since: in.From, Until: in.Forgotten,
	}
	for _, b := range in.Traced.Positions {
		s.Positions = append(s.Positions, Position(b))
	}
	if in.Confirmed {
		has := in.Row != nil
		s.Ledger = &has
		if has {
			s.Since, s.Until = in.Row.Since, in.Row.Until
		}
	}
	return s
}

// Scrub is a [pages.ScrubProgress] in the API.
type Scrub struct {
	Running bool           `json:"running"`
	Done    int            `json:"done"`
	All     int            `json:"all"`
	Found   map[string]int `json:"found"`
	Failed  int            `json:"failed"`
	Unasked int            `json:"unasked"`
	Trouble string         `json:"trouble,omitzero"` // why it ended early
	Started time.Time      `json:"started,omitzero"`
	Ended   time.Time      `json:"ended,omitzero"`
}

// ScrubOf returns the progress of a scrub, with times in UTC.
func ScrubOf(p pages.ScrubProgress) Scrub {
	s := Scrub{Running: p.Running, Done: p.Done, All: p.All, Found: p.Found, Failed: p.Failed, Unasked: p.Unasked}
	if p.Err != nil {
		s.Trouble = "the service was shut down"
	}
	if !p.Started.IsZero() {
		s.Started = p.Started.UTC()
	}
	if !p.Ended.IsZero() {
		s.Ended = p.Ended.UTC()
	}
	return s
}

// Rebuilt is a [pages.Rebuilt] in the API.
type Rebuilt struct {
	Number   uint32  `json:"number"`
	Sequence uint64  `json:"sequence"`
	Keys     int     `json:"keys"`
	Bytes    int     `json:"bytes"`
	TookMS   float64 `json:"took_ms"`
}

// RebuiltOf returns the result of a rebuild.
func RebuiltOf(r pages.Rebuilt) Rebuilt {
	return Rebuilt{Number: r.Number, Sequence: r.Sequence, Keys: r.Keys, Bytes: r.Bytes, TookMS: float64(r.Took.Microseconds()) / 1000}
}
