package doctor

import (
	"log/slog"
	"time"

	"github.com/feedfilter/feedfilter/internal/redisurl"
)

// Config is the configuration that a service would start with.
type Config struct {
	_ struct{} // fields are named

	// Invalid is a mistake that keeps the service from starting, whatever the state of the servers.
	// nil: no such mistake.
	Invalid error
	// Correct says what to do about Invalid.
	Correct string

	Redis  *redisurl.Servers // nil: the pages are in the process
	Filter string            // name of the filter
	Pages  uint32            // number asked for; 0: that of the data
	Kinds  int               // number of configured kinds

	Ledger string // argument of [ledger.Inspect]; "": no ledger

	// DataDir is the directory of the service's files, which the service creates. "": it has no
	// files.
	DataDir string

	Logger *slog.Logger     // default: discards
	Now    func() time.Time // this machine's clock; default: [time.Now]
}

// Status is the outcome of a check. A greater one is worse.
type Status int

// The outcomes of a check.
const (
	OK   Status = iota
	Skip        // the check was not possible, or not needed
	Warn        // the service runs, but worse than it could, or not for long
	Fail        // the service does not start or does not work
)

func (s Status) String() string { return [...]string{"ok", "skip", "warn", "fail"}[s] }

// Result is the result of a check.
type Result struct {
	Name   string
	Status Status
	Found  string        // one line of printable text, like Todo
	Todo   string        // what to do, in a sentence or two; "" if nothing
	Took   time.Duration // how long the check took
}

// Report holds the results of all checks.
type Report struct {
	Results []Result
}

// Count returns the number of checks with status s.
func (r *Report) Count(s Status) int {
	n := 0
	for _, result := range r.Results {
		if result.Status == s {
			n++
		}
	}
	return n
}
