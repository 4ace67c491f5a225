package manual

import (
	"slices"
	"strings"

	"github.com/alecthomas/kong"
)

// Files says which names of files a word may be.
type Files int

// Which files.
const (
	NoFiles Files = iota
	AnyFile
	Directories
)

// Completion is what a word may be.
type Completion struct {
	Words []Word // whole words, not what is still to be typed of them
	Files Files  // and names of files, after Prefix
	// Prefix is what of the word stands before a value: "--config=", or nothing.
	Prefix string
}

// Word is one that there is, and what it means.
type Word struct{ Text, Help string }

// Complete returns what the last of words may be, which was begun, or is "". The others come before it, after the name of the program.
func Complete(app *kong.Application, words []string) Completion {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	at := &place{app: app, node: app.Node}
	for _, word := range words[:len(words)-1] {
		at.pass(word)
	}
	var c Completion
	name, _, hasValue := strings.Cut(last, "=")
	switch {
	case at.pending != nil:
		c = ofValue(at.pending.Value, "")
	case at.arguments:
		c = at.argument()
	case strings.HasPrefix(last, "--") && hasValue:
		if flag := at.flag(name); flag != nil {
			c = ofValue(flag.Value, name+"=")
		}
	case strings.HasPrefix(last, "-"):
		c = at.flags()
	default:
		c = at.argument()
		if len(at.passed) > 0 {
			break // what came instead of a command is none
		}
		c.Words = append(c.Words, commandsBelow(at.node)...)
	}
	c.Words = slices.DeleteFunc(c.Words, func(w Word) bool { return !strings.HasPrefix(w.Text, last) })
	return c
}

// place is where in a command line a word stands.
type place struct {
	app       *kong.Application
	node      *kong.Node
	given     []*kong.Flag
	pending   *kong.Flag // whose value comes next
	passed    []string   // arguments of node
	arguments bool       // nothing but those comes
}

// pass moves on by a word.
func (p *place) pass(word string) {
	switch {
	case p.pending != nil:
		p.pending = nil
	case p.arguments:
		p.passed = append(p.passed, word)
	case word == "--":
		p.arguments = true
	case strings.HasPrefix(word, "-") && word != "-":
		name, _, hasValue := strings.Cut(word, "=")
		flag := p.flag(name)
		if flag == nil {
			return
		}
		p.given = append(p.given, flag)
		if !hasValue && !flag.IsBool() && !flag.IsCounter() {
			p.pending = flag
		}
	default:
		for _, below := range p.node.Children {
			if below.Name == word || slices.Contains(below.Aliases, word) {
				p.node = below
				return
			}
		}
		p.passed = append(p.passed, word)
	}
}

// chosen is the command that flags and arguments are of.
func (p *place) chosen() *kong.Node {
	if p.node.DefaultCmd != nil {
		return p.node.DefaultCmd
	}
	return p.node
}

func (p *place) flag(name string) *kong.Flag {
	for _, flag := range slices.Concat(p.chosen().AllFlags(false)...) {
		if "--"+flag.Name == name || flag.Short != 0 && "-"+string(flag.Short) == name ||
			slices.ContainsFunc(flag.Aliases, func(alias string) bool { return "--"+alias == name }) ||
			flag.Tag.Negatable != "" && "--no-"+flag.Name == name {
			return flag
		}
	}
	return nil
}

// flags are those that were not given yet.
func (p *place) flags() Completion {
	var c Completion
	for _, flag := range flagsOf(p.chosen()) {
		if slices.Contains(p.given, flag) && !flag.IsCumulative() {
			continue
		}
		c.Words = append(c.Words, Word{"--" + flag.Name, flag.Help})
	}
	return c
}

// argument is what the next one may be.
func (p *place) argument() Completion {
	positional := p.chosen().Positional
	switch n := len(p.passed); {
	case n < len(positional):
		return p.ofArgument(positional[n])
	case len(positional) > 0 && positional[len(positional)-1].IsCumulative():
		return p.ofArgument(positional[len(positional)-1])
	default:
		return Completion{}
	}
}

// ofArgument is what an argument may be. One that is called "command" names one, by words that follow each other.
func (p *place) ofArgument(value *kong.Value) Completion {
	if value.Name != "command" {
		return ofValue(value, "")
	}
	node := p.app.Node
	for _, name := range p.passed {
		i := slices.IndexFunc(visible(node), func(n *kong.Node) bool { return n.Name == name })
		if i < 0 {
			return Completion{}
		}
		node = visible(node)[i]
	}
	return Completion{Words: commandsBelow(node)}
}

// commandsBelow are the commands of a node, to choose from.
func commandsBelow(node *kong.Node) []Word {
	below := visible(node)
	words := make([]Word, len(below))
	for i, one := range below {
		words[i] = Word{one.Name, one.Help}
	}
	return words
}

// ofValue is what a value may be. What names a file says so by its placeholder, or, if it is an argument, by its name.
func ofValue(value *kong.Value, prefix string) Completion {
	c := Completion{Prefix: prefix}
	kind := strings.ToUpper(value.Name)
	if value.Flag != nil {
		kind = value.Flag.PlaceHolder
	}
	switch {
	case value.Enum != "":
		for _, one := range value.EnumSlice() {
			if one != "" {
				c.Words = append(c.Words, Word{Text: prefix + one})
			}
		}
	case value.IsBool():
		c.Words = []Word{{Text: prefix + "true"}, {Text: prefix + "false"}}
	case kind == "FILE":
		c.Files = AnyFile
	case kind == "DIR":
		c.Files = Directories
	}
	return c
}
