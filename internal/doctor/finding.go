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

// words is an error on one line, with what people have to know of a deadline.
func words(err error) string {
	text := strings.ReplaceAll(err.Error(), "\n", "; ")
	for _, end := range []error{context.DeadlineExceeded, os.ErrDeadlineExceeded} {
		text = strings.ReplaceAll(text, end.Error(), "no answer in time")
	}
	return text
}

// printable is text that may be of a server's making, fit for a terminal and for JSON.
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

// summarize makes the findings on all nodes one: the worst, with the nodes that have it. Nodes that
// did not answer are the business of the check "server".
func summarize(nodes []*server, judge func(*server) finding) finding {
	var worst []finding // those that are as bad as it gets
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
		return skipf("no server can be asked")
	case len(nodes) == 1:
		return worst[0]
	case same && len(worst) == len(nodes):
		f := worst[0]
		f.found += fmt.Sprintf(" (each of %d nodes)", n)
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

// andMore joins what is shown of a list.
func andMore(parts []string, more int) string {
	if more > 0 {
		parts = append(slices.Clip(parts), fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, "; ")
}
