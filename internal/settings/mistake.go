package settings

import (
	"regexp"
	"slices"
	"strings"
)

// Mistake is one thing that is wrong.
type Mistake struct {
	Flag    string // its name without dashes; "": it is about none
	Source  string // where it stands, and under which name: "--pages", "FEEDFILTER_PAGES" or "settings.json: pages"; "": in no one place
	Problem string // begins with ": " or, where a value stands before that, with a space
}

// String is the source and the problem.
func (m Mistake) String() string {
	if m.Source == "" {
		return strings.TrimPrefix(m.Problem, ": ")
	}
	return m.Source + m.Problem
}

// MistakesError is all that is wrong with the settings of a command.
type MistakesError struct {
	Command  string    // such as "feedfilter serve"
	Mistakes []Mistake // one or more
}

// Error names all mistakes in one line.
func (e *MistakesError) Error() string {
	lines := make([]string, len(e.Mistakes))
	for i, m := range e.Mistakes {
		lines[i] = m.String()
	}
	return strings.Join(lines, "; ")
}

// mistakes gathers them.
type mistakes struct {
	list  []Mistake
	about map[string]string // the source that each flag is set by, by its name
}

// add notes a mistake, once. A URL that stands where it does not belong is shown without its password.
func (m *mistakes) add(flag, source, problem string) {
	problem = regexp.MustCompile(`\S+://\S+`).ReplaceAllStringFunc(problem, Masked)
	made := Mistake{Flag: flag, Source: source, Problem: strings.ReplaceAll(problem, "\n", "; ")}
	if !slices.Contains(m.list, made) {
		m.list = append(m.list, made)
	}
}

// has reports whether a mistake about the flag is noted.
func (m *mistakes) has(flag string) bool {
	return slices.ContainsFunc(m.list, func(other Mistake) bool { return other.Flag == flag })
}

// addAll notes every error that err joins. One that begins with a flag, as in "--pages: 0 is not 1 or more", is about that, and
// stands where the flag was set; nothing is noted of a flag that had a mistake already, which the new one may follow from.
func (m *mistakes) addAll(err error) {
	before := &mistakes{list: m.list}
	for _, one := range split(err) {
		text := one.Error()
		flag, problem := aboutFlag(text)
		source, known := m.about[flag]
		switch {
		case !known:
			m.add("", "", ": "+text)
		case !before.has(flag):
			m.add(flag, source, problem)
		}
	}
}

// aboutFlag cuts the flag that a message begins with.
func aboutFlag(text string) (flag, problem string) {
	found := regexp.MustCompile(`^--([a-z0-9][a-z0-9-]*)([: ].*)$`).FindStringSubmatch(strings.ReplaceAll(text, "\n", "; "))
	if found == nil {
		return "", text
	}
	return found[1], found[2]
}

// split returns what err joins.
func split(err error) []error {
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error }) // itself: one that wraps such says something about all of it
	if !ok {
		return []error{err}
	}
	var all []error
	for _, one := range joined.Unwrap() {
		all = append(all, split(one)...)
	}
	return all
}

// suggestion is "; did you mean ...?" with the nearest of the names, as said is what it is called; or nothing.
func suggestion(name string, names []string, said func(string) string) string {
	if near := nearest(name, names); near != "" {
		return "; did you mean " + said(near) + "?"
	}
	return ""
}

// nearest returns the name that takes fewest changes to turn name into, the first of them; "" if all take many.
func nearest(name string, names []string) string {
	best, least := "", max(1, len(name)/3)+1
	for _, other := range names {
		if d := distance(name, other); d < least {
			best, least = other, d
		}
	}
	return best
}

// distance is how many characters have to be put in, left out, replaced or swapped with the next one to turn a into b: the optimal
// string alignment distance.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replaced := last[j-1]
			if a[i-1] != b[j-1] {
				replaced++
			}
			row[j] = min(replaced, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
