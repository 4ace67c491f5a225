package inspect

import (
	"time"

	"github.com/feedfilter/feedfilter/activity/pages"
)

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
	s := Scrub{
		Running: p.Running,
		Done:    p.Done,
		All:     p.All,
		Found:   p.Found,
		Failed:  p.Failed,
		Unasked: p.Unasked,
		Started: p.Started.UTC(),
		Ended:   p.Ended.UTC(),
	}
	if p.Err != nil {
		s.Trouble = "the service was shut down"
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
	return Rebuilt{
		Number:   r.Number,
		Sequence: r.Sequence,
		Keys:     r.Keys,
		Bytes:    r.Bytes,
		TookMS:   float64(r.Took.Microseconds()) / 1000,
	}
}
