package manual

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

//go:embed bash.sh
var bashScript string

//go:embed zsh.sh
var zshScript string

//go:embed fish.fish
var fishScript string

// Script is what a shell, "bash", "zsh" or "fish", reads to complete the command lines of the program. It asks the program, by
// its command "complete", whose answer is Answer. It is "" for other shells.
func Script(shell, program string) string {
	text := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}[shell]
	return strings.ReplaceAll(text, "PROGRAM", program)
}

// Answer is what the script of a shell asks for. The arguments are the words, the last of which is to be completed; of bash, which cuts
// words where it should not, its COMP_WORDBREAKS and the command line up to the cursor.
func Answer(app *kong.Application, shell string, args []string) string {
	cut := 0 // bytes of the last word that the shell takes for another one
	if shell == "bash" {
		if len(args) != 2 {
			return ""
		}
		words := splitLine(args[1])
		last := words[len(words)-1]
		if breaks := strings.Join(strings.FieldsFunc(args[0], func(r rune) bool { return !strings.ContainsRune("=:", r) }), ""); breaks != "" {
			cut = strings.LastIndexAny(last, breaks) + 1
		}
		args = words[1:]
	}
	c := Complete(app, args)
	b := &strings.Builder{}
	switch c.Files {
	case AnyFile:
		fmt.Fprintf(b, ":files %s\n", c.Prefix)
	case Directories:
		fmt.Fprintf(b, ":dirs %s\n", c.Prefix)
	case NoFiles:
	}
	for _, w := range c.Words {
		help := strings.Join(strings.Fields(firstSentence(w.Help)), " ")
		switch {
		case shell == "bash":
			fmt.Fprintln(b, w.Text[min(cut, len(w.Text)):])
		case help == "":
			fmt.Fprintln(b, w.Text)
		case shell == "zsh": // for _describe, which takes the first colon for the end of the word
			fmt.Fprintf(b, "%s:%s\n", strings.ReplaceAll(w.Text, ":", `\:`), help)
		default:
			fmt.Fprintf(b, "%s\t%s\n", w.Text, help)
		}
	}
	return b.String()
}

// splitLine cuts a command line that ends at the cursor into words, as bash does. There are two at least: the program, and what is
// typed.
func splitLine(line string) []string {
	var words []string
	word, quote, escaped, within := &strings.Builder{}, rune(0), false, false
	for _, r := range line {
		switch {
		case escaped:
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			escaped, within = true, true
		case quote != 0:
			if r == quote {
				quote = 0
			} else {
				word.WriteRune(r)
			}
		case r == '\'' || r == '"':
			quote, within = r, true
		case r == ' ' || r == '\t':
			if within {
				words = append(words, word.String())
				word.Reset()
			}
			within = false
		default:
			word.WriteRune(r)
			within = true
		}
	}
	words = append(words, word.String()) // also if it is "": the one that is to begin
	if len(words) < 2 {
		words = append(words, "")
	}
	return words
}
