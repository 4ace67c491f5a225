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

// finding is the outcome of a check.
type finding struct {
	status Status
	found  string
	todo   string // a sentence or two; "" if there is nothing to do
}

func okf(format string, args ...any) finding {
	return finding{status: OK, found: fmt.Sprintf(format, args...)}
}

func skipf(format string, args ...any) finding {
	return finding{status: Skip, found: fmt.Sprintf(format, args...)}
}

func warn(found, todo string) finding { return finding{Warn, found, todo} }

func fail(found, todo string) finding { return finding{Fail, found, todo} }

// words returns an error on one line, with deadlines in plain words.
func words(err error) string {
	text := strings.NewReplacer(":\n\t", ": ", "\n\t", "; ", "\n", "; ").Replace(err.Error())
	for _, end := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		text = strings.ReplaceAll(text, end.Error(), "no answer in time")
	}
	return text
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

// someNodes is how many nodes one finding names.
const someNodes = 3

// summarize merges the findings on all nodes into the worst one, and names its nodes. It ignores
// nodes that did not answer: the check "server" reports them.
func summarize(nodes []*server, judge func(*server) finding) finding {
	var worst []finding // all with the worst status
	var names []string
	same, n := true, 0
	for _, node := range nodes {
		if node.err != nil {
			continue
		}
		n++
		f := judge(node)
		if len(worst) > 0 && f.status < worst[0].status {
			continue
		}
		if len(worst) > 0 && f.status > worst[0].status {
			worst, names, same = nil, nil, true
		}
		worst, names = append(worst, f), append(names, node.addr)
		same = same && f == worst[0]
	}
	switch {
	case n == 0:
		return skipf("no server to ask")
	case len(nodes) == 1:
		return worst[0]
	case same && len(worst) == len(nodes):
		f := worst[0]
		f.found += fmt.Sprintf(" (all %d nodes)", n)
		return f
	}
	f := worst[0]
	var parts []string
	for i, name := range names[:min(len(names), someNodes)] {
		parts = append(parts, name+": "+worst[i].found)
	}
	f.found = andMore(parts, len(worst)-len(parts))
	if f.status != OK {
		f.found += fmt.Sprintf(" (%d of %d nodes)", len(worst), n)
	}
	return f
}

// andMore joins the shown part of a list, and says how many entries are left out.
func andMore(parts []string, more int) string {
	if more > 0 {
		parts = append(slices.Clip(parts), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
