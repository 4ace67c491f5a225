package doctor

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

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

// MarshalText returns the name of the status.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// finding is the outcome of a check.
type finding struct {
	status Status
	found  string
	todo   string // a sentence or two; "" if there is nothing to do
}

func okf(format string, args ...any) finding { return finding{OK, fmt.Sprintf(format, args...), ""} }

func skipf(format string, args ...any) finding {
	return finding{Skip, fmt.Sprintf(format, args...), ""}
}

func warn(found, todo string) finding { return finding{Warn, found, todo} }

func fail(found, todo string) finding { return finding{Fail, found, todo} }

// rule is what it means that something holds.
type rule struct {
	holds  bool
	status Status
	adds   string // to the text of the finding
	todo   string
}

// judge applies the first rule that holds. If there is none, all is well.
func judge(found string, rules ...rule) finding {
	for _, r := range rules {
		if r.holds {
			return finding{r.status, found + r.adds, r.todo}
		}
	}
	return finding{OK, found, ""}
}

// words returns an error on one line, with deadlines in plain words.
func words(err error) string {
	return strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ",
		context.DeadlineExceeded.Error(), "no answer in time", os.ErrDeadlineExceeded.Error(), "no answer in time",
	).Replace(err.Error())
}

// printable makes text from a server safe for a terminal and for JSON.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// some joins the first parts of a list, and says how many are left out.
func some(parts []string) string {
	const most = 3
	if more := len(parts) - most; more > 0 {
		parts = append(slices.Clone(parts[:most]), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}

// worst returns the worst finding, with the texts of all. It ignores those without a text. One that
// is skipped says less than one that is well.
func worst(all ...finding) finding {
	severity := func(f finding) int { return slices.Index([]Status{Skip, OK, Warn, Fail}, f.status) }
	var worst finding
	var found []string
	for _, f := range all {
		if f.found == "" {
			continue
		}
		if len(found) == 0 || severity(f) > severity(worst) {
			worst = f
		}
		found = append(found, f.found)
	}
	worst.found = strings.Join(found, "; ")
	return worst
}

// summarize merges the findings on all nodes into the worst one, and names its nodes. It ignores
// nodes that did not answer: the check "server" reports them.
func summarize(nodes []*server, judge func(*server) finding) finding {
	var worst finding
	var found, of []string // texts with the worst status, without and with the node
	n := 0
	for _, node := range nodes {
		if node.err != nil {
			continue
		}
		n++
		f := judge(node)
		if n == 1 || f.status > worst.status {
			worst, found, of = f, nil, nil
		}
		if f.status == worst.status {
			found, of = append(found, f.found), append(of, node.addr+": "+f.found)
		}
	}
	switch {
	case n == 0:
		return skipf("no server to ask")
	case len(nodes) == 1:
	case len(found) == len(nodes) && len(slices.Compact(found)) == 1:
		worst.found += fmt.Sprintf(" (all %d nodes)", n)
	case worst.status == OK:
		worst.found = some(of)
	default:
		worst.found = fmt.Sprintf("%s (%d of %d nodes)", some(of), len(of), n)
	}
	return worst
}
