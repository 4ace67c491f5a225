package activity_test

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/phrases"
)

// TestPhraseSet checks that a set finds those of its phrases that stand in a text, each once.
func TestPhraseSet(t *testing.T) {
	units := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b ", "c", "#a", "選", "挙", "É", "🎉", "a.b", " "}), 1, 4)
	rapid.Check(t, func(t *rapid.T) {
		var all []string
		for range rapid.IntRange(0, 8).Draw(t, "phrases") {
			phrase, _, err := phrases.Canonical(strings.Join(units.Draw(t, "phrase"), ""))
			if err == nil && !slices.Contains(all, phrase) {
				all = append(all, phrase)
			}
		}
		text := strings.Join(append(units.Draw(t, "text"), units.Draw(t, "more")...), "")
		found := activity.NewPhraseSet(all).In(text)
		for _, phrase := range all {
			_, end := activity.FindPhrase(text, phrase)
			one := func(is string) bool { return is != phrase }
			if n := len(slices.DeleteFunc(slices.Clone(found), one)); n > 1 || (n == 1) != (end > 0) {
				t.Fatalf("%q in %q: found %d times, but stands until %d", phrase, text, n, end)
			}
		}
	})
}

// A set looks at as much of a long text as feeds do: not at a word that may be cut off.
func TestPhraseSetInLongText(t *testing.T) {
	set := activity.NewPhraseSet([]string{"last", "la"})
	text := strings.Repeat("x", activity.MaxText-3) + " last"
	if found := set.In(text); len(found) > 0 {
		t.Errorf("found %q in a text that is cut off within it", found)
	}
	if found := set.In(text[2:]); !slices.Equal(found, []string{"last"}) {
		t.Errorf("found %q in a text that is just short enough", found)
	}
}
