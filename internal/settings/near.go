package settings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// inFile returns the names of the flags that a file for the command may set. These are its own, and
// those of the service, which is the first command of the program.
func inFile(command *kong.Context) (names []string) {
	for _, flag := range slices.Concat(command.Model.Children[0].Flags, command.Flags()) {
		hidden := flag.Name == FileFlag || flag.Name == HelpAllFlag || flag == command.Model.HelpFlag
		if !hidden && !slices.Contains(names, flag.Name) {
			names = append(names, flag.Name)
		}
	}
	return names
}

// flagOf returns the name of a flag as it may be meant by a variable without its prefix, or by a
// key that is spelt like one.
func flagOf(name string) string {
	return strings.ReplaceAll(strings.ToLower(name), "_", "-")
}

// near returns the end of a sentence that suggests a flag of the command in place of name, in the
// form of shown; "": none is near.
func near(command *kong.Context, name string, shown func(flag string) string) string {
	best, least := "", 1+min(3, (len(name)+1)/3) // more differences than that are another word
	for _, flag := range command.Flags() {
		if flag.Hidden || !slices.Contains(inFile(command), flag.Name) {
			continue
		}
		n := distance(name, flag.Name)
		if means(command.Model.Node, name, flag) {
			n = 0
		}
		if n < least {
			best, least = flag.Name, n
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", shown(best))
}

// means reports whether name is what another command calls the flag: one with the same help.
func means(program *kong.Node, name string, flag *kong.Flag) bool {
	if flag.Help == "" {
		return false
	}
	same := func(f *kong.Flag) bool { return f.Name == name && f.Help == flag.Help }
	return slices.ContainsFunc(program.Leaves(false), func(other *kong.Node) bool {
		return slices.ContainsFunc(other.Flags, same)
	})
}

// distance returns how many bytes must be added, removed or replaced to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1) // from the part of a so far to each part of b
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := corner
			if a[i] != b[j] {
				replaced++
			}
			corner = row[j+1]
			row[j+1] = min(replaced, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}
