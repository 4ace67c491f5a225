package main

import (
	"cmp"
	_ "embed"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Limits of a text, as CONTRIBUTING.md states them.
const (
	maxWords   = 30
	maxColumns = 100
	tabColumns = 2 // as golangci-lint counts them
)

// words holds the rules on words. Its first lines explain the format.
//
//go:embed words.txt
var words string

// wordRule refuses one expression.
type wordRule struct {
	pattern   *regexp.Regexp
	instead   string
	bad, good string // examples, which the tests check
}

// wordRules parses words.
func wordRules() []wordRule {
	var rules []wordRule
	for line := range strings.Lines(words) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		parts := strings.Split(strings.TrimSpace(line), " | ")
		pattern := regexp.MustCompile(`(?i)\b(?:` + strings.ReplaceAll(parts[0], " ", `\s+`) + `)\b`)
		rules = append(rules, wordRule{pattern, parts[1], parts[2], parts[3]})
	}
	return rules
}

// block is a run of text that is read as one: a paragraph, a list item, a cell, a message.
type block struct {
	text  strings.Builder
	lines []lineStart
}

// lineStart says which line of the file the text from an offset on comes from.
type lineStart struct{ offset, line int }

// add appends text from a line of the file. It separates nothing.
func (b *block) add(line int, text string) {
	b.lines = append(b.lines, lineStart{b.text.Len(), line})
	b.text.WriteString(text)
}

// line returns the line of the file that the byte at offset comes from.
func (b *block) line(offset int) int {
	line := 0
	for _, start := range b.lines {
		if start.offset <= offset {
			line = start.line
		}
	}
	return line
}

// violation is one text that a rule refuses.
type violation struct {
	line       int
	rule, text string
}

func (v violation) compare(w violation) int {
	return cmp.Or(cmp.Compare(v.line, w.line), cmp.Compare(v.rule, w.rule))
}

// checker applies the rules to the blocks of one file.
type checker struct {
	rules []wordRule
	found []violation
}

// block applies all rules but columns. Each code span, link target and URL counts as one word, and
// may contain anything.
func (c *checker) block(b *block) {
	text := masked(b.text.String())
	c.words(b, text)
	for _, at := range doubleSpace.FindAllStringIndex(text, -1) {
		what := fmt.Sprintf("%q", text[at[0]:at[1]])
		c.found = append(c.found, violation{b.line(at[0]), "space", what})
	}
	c.sentences(b, text, sentenceEnd)
}

func (c *checker) words(b *block, text string) {
	for _, rule := range c.rules {
		for _, at := range rule.pattern.FindAllStringIndex(text, -1) {
			c.found = append(c.found, violation{b.line(at[0]), "word", fmt.Sprintf("%q: write %s",
				strings.Join(strings.Fields(text[at[0]:at[1]]), " "), rule.instead)})
		}
	}
}

func (c *checker) sentences(b *block, text string, ends *regexp.Regexp) {
	start := 0
	for _, end := range append(ends.FindAllStringIndex(text, -1), []int{0, len(text)}) {
		if abbreviation.MatchString(text[:end[1]]) && end[1] < len(text) {
			continue
		}
		if n := countWords(text[start:end[1]]); n > maxWords {
			first := start + len(text[start:]) - len(strings.TrimLeft(text[start:], " \n"))
			begins := opening(b.text.String()[first:end[1]])
			what := fmt.Sprintf("%d words, at most %d: %s ...", n, maxWords, begins)
			c.found = append(c.found, violation{b.line(first), "sentence", what})
		}
		start = end[1]
	}
}

// columns applies the limit of a line to one of the file. A line that holds a URL, or has no
// space to break it at, may be longer.
func (c *checker) columns(line int, text string) {
	width := utf8.RuneCountInString(text) + strings.Count(text, "\t")*(tabColumns-1)
	if width > maxColumns && !strings.Contains(text, "://") && len(strings.Fields(text)) > 2 {
		what := fmt.Sprintf("%d columns, at most %d", width, maxColumns)
		c.found = append(c.found, violation{line, "line", what})
	}
}

var (
	opaque       = regexp.MustCompile("``[^`]+(?:`[^`]+)*``|`[^`]+`|\\]\\([^)]*\\)|\\w+://\\S+[\\w/]")
	sentenceEnd  = regexp.MustCompile(`[.!?]["'”)*_\]]*(?:\s+|$)`)
	clauseEnd    = regexp.MustCompile(`[.!?;]["'”)*_\]]*(?:\s+|$)|\n`)
	abbreviation = regexp.MustCompile(`(?:\b(?:e\.g|i\.e|cf|vs|approx|No)\.|\.{3})\s+$`)
	doubleSpace  = regexp.MustCompile(`[a-z,.;] {2}[A-Za-z]+`)
	wordLike     = regexp.MustCompile(`[\p{L}\p{N}]`)
)

// masked returns text with x in place of everything in code spans, link targets and URLs.
func masked(text string) string {
	return opaque.ReplaceAllStringFunc(text, func(span string) string {
		return strings.Repeat("x", len(span))
	})
}

func countWords(sentence string) int {
	n := 0
	for field := range strings.FieldsSeq(sentence) {
		if wordLike.MatchString(field) {
			n++
		}
	}
	return n
}

// opening returns the first words of a sentence.
func opening(sentence string) string {
	fields := strings.Fields(sentence)
	return strings.Join(fields[:min(len(fields), 8)], " ")
}
