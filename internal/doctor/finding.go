package doctor

import (
	"context"
	"fmt"
	"os"
	"regexp"
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

// finding is the outcome of a check. The zero value: there is nothing to check.
type finding struct {
	status Status
	found  string
	todo   string // a sentence or two; "" if there is nothing to do
}

func okf(format string, args ...any) finding {
	return finding{OK, fmt.Sprintf(format, args...), ""}
}

func skip(found string) finding { return finding{Skip, found, ""} }

func warn(found, todo string) finding { return finding{Warn, found, todo} }

func fail(found, todo string) finding { return finding{Fail, found, todo} }

// words returns an error on one line, with deadlines in plain words.
func words(err error) string {
	const late = "no answer in time"
	return strings.NewReplacer(
		context.DeadlineExceeded.Error(), late, os.ErrDeadlineExceeded.Error(), late,
	).Replace(OneLine(err))
}

// OneLine returns an error on one line: joined errors, and those of pgx, have several. pgx first
// tries TLS unless the URL says otherwise, so that a server without TLS is named for that, too.
// That line is left out where another one has the reason.
func OneLine(err error) string {
	text := strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ").Replace(err.Error())
	refused := regexp.MustCompile(`\S+ \([^)]*\): tls error: server refused TLS connection; `)
	return refused.ReplaceAllString(text, "")
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

// each judges every server. It returns the worst finding, and names the nodes of a cluster that
// have it.
func (d *doctor) each(judge func(*server) finding) finding {
	if d.Connect == nil {
		return finding{}
	}
	if len(d.servers) == 0 {
		return skip("see the failed checks above")
	}
	var worst finding
	var found, of []string // texts with the worst status, without and with the node
	for i, s := range d.servers {
		f := judge(s)
		if i == 0 || f.status > worst.status {
			worst, found, of = f, nil, nil
		}
		if f.status == worst.status {
			found, of = append(found, f.found), append(of, s.addr+": "+f.found)
		}
	}
	const most = 3 // nodes in a text
	switch n := len(d.servers); {
	case n == 1:
	case len(found) == n && len(slices.Compact(found)) == 1:
		worst.found += fmt.Sprintf(" (all %d nodes)", n)
	case len(of) > most:
		some := strings.Join(of[:most], "; ")
		worst.found = fmt.Sprintf("%s; and others (%d of %d nodes)", some, len(of), n)
	default:
		worst.found = fmt.Sprintf("%s (%d of %d nodes)", strings.Join(of, "; "), len(of), n)
	}
	return worst
}
