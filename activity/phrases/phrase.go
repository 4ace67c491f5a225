package phrases

import (
	"errors"
	"fmt"
)

// Limits of a phrase.
const (
	// MaxWords is the largest number of words. A run of letters of scripts that are written without
	// spaces is one word, and the # of a hashtag is none.
	MaxWords = 5
	// MaxUnits is the largest number of units.
	MaxUnits = 16
	// MaxBytes is the largest length of the canonical form.
	MaxBytes = 256
)

// Canonical returns the form in which a phrase is recorded and looked for, and its number of units.
// The form is its own canonical form. The error says what is wrong: the phrase has no word in it,
// or more than [MaxWords], [MaxUnits] or [MaxBytes] allow.
func Canonical(phrase string) (canonical string, units int, err error) {
	return new(Text).canonical(phrase)
}

// canonical is Canonical, with the memory of t.
func (t *Text) canonical(phrase string) (canonical string, units int, err error) {
	t.Cut(phrase)
	units = len(t.units)
	if units == 0 {
		return "", 0, errors.New("no word in it")
	}
	if words := t.wordsOf(0, units); words > MaxWords {
		return "", 0, fmt.Errorf("%d words, at most %d", words, MaxWords)
	}
	if units > MaxUnits {
		return "", 0, fmt.Errorf("%d units, at most %d", units, MaxUnits)
	}
	if len(t.buf) > MaxBytes {
		return "", 0, fmt.Errorf("%d bytes in canonical form, at most %d", len(t.buf), MaxBytes)
	}
	return string(t.buf), units, nil
}

// Head returns the head of a phrase in canonical form, by which it is looked for: its first unit,
// or the first two if that is the # of a hashtag.
func Head(canonical string) string {
	var t Text
	t.Cut(canonical)
	if len(t.units) == 0 {
		return ""
	}
	return string(t.Phrase(0, t.Head(0)))
}

// Head returns how many units the head of a phrase has that begins with unit i: see the function
// [Head]. After the last # of a text, that may be more units than there are.
func (t *Text) Head(i int) int {
	if t.units[i].kind == hashUnit {
		return 2
	}
	return 1
}
