package doctor

import (
	"log/slog"
	"time"

	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// Config is what a service would be started with.
type Config struct {
	_ struct{} // fields are named

	// Invalid is why the service would not start whatever the servers are like; nil: nothing is
	// known.
	Invalid error
	// Correct reports what to do about Invalid.
	Correct string

	Redis  *redisurl.Servers // nil: the pages are held in the process
	Filter string            // name of the filter
	Pages  uint32            // how many are asked for; 0: as many as there are
	Kinds  int               // how many are configured

	Ledger string // as [ledger.Inspect] takes it; "": there is none

	// DataDir is the directory that the service keeps files in, made when it starts. "": it keeps
	// none.
	DataDir string

	Logger *slog.Logger     // default: discards
	Now    func() time.Time // this machine's clock; default: [time.Now]
}

// Status is what a check came to. A greater one is worse.
type Status int

// What a check comes to.
const (
	OK   Status = iota
	Skip        // it could not be made, or is not called for
	Warn        // the service runs, but not as well as it could, or not for long
	Fail        // the service does not start or does not work
)

func (s Status) String() string { return [...]string{"ok", "skip", "warn", "fail"}[s] }

// Result is what a check found.
type Result struct {
	Name   string
	Status Status
	Found  string        // a line of printable text, as is Todo
	Todo   string        // what to do, in a sentence or two; "" if there is nothing to do
	Took   time.Duration // how long the check took
}

// Report is what all checks found.
type Report struct {
	Results []Result
}

// Count is the number of checks that came to s.
func (r *Report) Count(s Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}
