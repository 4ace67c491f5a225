// Package kindfile parses a file of kinds of activities. docs/KINDS.md describes its format.
package kindfile

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/feedfilter/feedfilter/activity"
)

// maxKinds is the maximum number of kinds in a file: a feed check tests the keys of all that drop.
const maxKinds = 100

// Parse returns the built-in kinds and those that the file adds, as JSON:
//
//	{"facets": {"domain": {"fold": "domain", "rollup": "domain"}, ...},
//	 "kinds": [{"name": "mute", "target": "user", "effect": "drop", "limit": 1000}, ...]}
//
// The entry of a built-in kind may set its limit, or its window, parts and most. Its other fields
// must have their built-in values. The error joins all mistakes, each with its kind.
func Parse(file []byte) (*activity.Kinds, error) {
	facetsText, entries, err := splitKinds(file)
	if err != nil {
		return nil, err
	}
	facets, errs := readFacets(facetsText)
	all := slices.Clone(activity.BuiltinKinds().All())
	builtin, named := len(all), make(map[string]bool)
	var keeping []activity.Kind // checked at the end, because they name others
	for i, text := range entries {
		e := readKindEntry(text)
		at := slices.IndexFunc(all[:builtin], func(k activity.Kind) bool { return k.Name == e.name })
		var k activity.Kind
		switch {
		case e.fields == nil: // not an object
		case e.name != "" && named[e.name]:
			e.mistake("duplicate kind")
		case at >= 0:
			k = e.amended(all[at])
		default:
			k = e.added(facets)
		}
		named[e.name] = true
		if len(e.mistakes) > 0 {
			errs = append(errs, e.err(i))
			continue
		}
		if k.Effect == activity.Keep {
			keeping = append(keeping, k)
			continue
		}
		with := slices.Clone(all)
		if at >= 0 {
			with[at] = k
		} else {
			with = append(with, k)
		}
		// NewKinds returns one error, so one kind is added at a time.
		if _, err := activity.NewKinds(with...); err != nil {
			errs = append(errs, err)
			continue
		}
		all = with
	}
	errs = untargeted(errs, facets, slices.Concat(all, keeping))
	for _, k := range keeping {
		if _, err := activity.NewKinds(append(slices.Clone(all), k)...); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return activity.NewKinds(append(all, keeping...)...)
}

// splitKinds returns the text of the facets, nil if there are none, and of each kind.
func splitKinds(file []byte) (facets jsontext.Value, kinds []jsontext.Value, err error) {
	var f struct {
		Facets jsontext.Value   `json:"facets"`
		Kinds  []jsontext.Value `json:"kinds"`
	}
	err = json.Unmarshal(file, &f, json.RejectUnknownMembers(true))
	if invalid, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		line := 1 + bytes.Count(file[:min(int(invalid.ByteOffset), len(file))], []byte{'\n'})
		what := invalid.Err.Error()
		if errors.Is(invalid, jsontext.ErrDuplicateName) {
			what = fmt.Sprintf("duplicate field %q", invalid.JSONPointer.LastToken())
		}
		return nil, nil, fmt.Errorf("line %d: not JSON: %s", line, what)
	}
	wrong, ok := errors.AsType[*json.SemanticError](err)
	if ok && errors.Is(wrong, json.ErrUnknownName) {
		field := wrong.JSONPointer.LastToken()
		return nil, nil, fmt.Errorf("unknown field %q, want kinds or facets", field)
	}
	switch {
	case err != nil || f.Kinds == nil:
		return nil, nil, errors.New(`not of the form {"kinds": [{...}, ...]}`)
	case len(f.Kinds) > maxKinds:
		return nil, nil, fmt.Errorf("%d kinds, at most %d", len(f.Kinds), maxKinds)
	default:
		return f.Facets, f.Kinds, nil
	}
}

// facetEntry is a facet in a file.
type facetEntry struct {
	fold   activity.Fold
	rollup activity.Rollup
}

// readFacets returns the facets of the file, and all mistakes.
func readFacets(text jsontext.Value) (facets map[activity.Facet]facetEntry, errs []error) {
	var entries map[activity.Facet]jsontext.Value
	isObject := text == nil || text.Kind() == jsontext.KindBeginObject
	if !isObject || text != nil && json.Unmarshal(text, &entries) != nil {
		return nil, []error{errors.New("facets: not an object")}
	}
	facets = make(map[activity.Facet]facetEntry)
	for _, facet := range slices.Sorted(maps.Keys(entries)) {
		var e kindEntry
		var f facetEntry
		e.open(entries[facet])
		e.read("fold", &f.fold, "text")
		e.read("rollup", &f.rollup, "text")
		var text bool
		e.read("text", &text, "true or false")
		switch {
		case text && f.fold != activity.AsIs:
			e.mistake("text has a fold of its own: leave out fold")
		case text:
			f.fold = activity.FoldText
		case f.fold == activity.FoldText:
			e.mistake(`fold: write "text": true`)
		}
		e.refuseOthers()
		if len(e.mistakes) > 0 {
			errs = append(errs, fmt.Errorf("facet %q: %s", facet, strings.Join(e.mistakes, ", ")))
		}
		if facet == activity.User || facet == activity.Post {
			errs = append(errs, fmt.Errorf(
				"facet %q: ids of users and posts are compared as they are", facet,
			))
		}
		facets[facet] = f
	}
	return facets, errs
}

// untargeted returns the errors so far, or else one for each facet that no kind targets.
func untargeted(errs []error, facets map[activity.Facet]facetEntry, kinds []activity.Kind) []error {
	if len(errs) > 0 {
		return errs
	}
	for _, facet := range slices.Sorted(maps.Keys(facets)) {
		if !slices.ContainsFunc(kinds, func(k activity.Kind) bool { return k.Target == facet }) {
			errs = append(errs, fmt.Errorf("facet %q: no kind has this target", facet))
		}
	}
	return errs
}

// kindEntry is a kind in a file.
type kindEntry struct {
	name     string
	fields   map[string]jsontext.Value // not read yet
	mistakes []string
}

func readKindEntry(text jsontext.Value) *kindEntry {
	e := &kindEntry{}
	if e.open(text) && !e.read("name", &e.name, "text") {
		e.missing("name")
	}
	return e
}

// open takes the fields of an object, and reports whether text is one.
func (e *kindEntry) open(text jsontext.Value) bool {
	if text.Kind() != jsontext.KindBeginObject || json.Unmarshal(text, &e.fields) != nil {
		e.fields = nil
		e.mistake("not an object")
		return false
	}
	return true
}

// added returns the new kind of the entry.
func (e *kindEntry) added(facets map[activity.Facet]facetEntry) activity.Kind {
	k := activity.Kind{Name: e.name, Plural: e.name + "s"}
	e.settle(&k)
	k.Fold, k.Rollup = facets[k.Target].fold, facets[k.Target].rollup
	if k.Target == "" {
		e.missing("target")
	}
	if k.Effect == 0 {
		e.missing("effect")
	}
	return k
}

// amended returns a built-in kind with the settings of the entry.
func (e *kindEntry) amended(was activity.Kind) activity.Kind {
	k := was
	e.settle(&k)
	fixed := k
	fixed.Limit = was.Limit
	if !was.InLedger() {
		fixed.Window, fixed.Parts, fixed.Most = was.Window, was.Parts, was.Most
	}
	if !fixed.Equal(was) {
		e.mistake("a built-in kind can set only its limit, or its window, parts and most")
	}
	return k
}

// settle sets the fields of k that the entry has.
func (e *kindEntry) settle(k *activity.Kind) {
	var window, comment string
	var twoWay bool
	e.read("comment", &comment, "text")
	e.read("plural", &k.Plural, "text")
	if facet := k.Target; e.read("target", &facet, "text") {
		if err := facet.Check(); err != nil {
			e.mistake(fmt.Sprintf("target: %q: %v", facet, err))
		} else {
			k.Target = facet
		}
	}
	e.readEffect(&k.Effect)
	if e.read("roles", &k.Roles, "a list of texts") && k.Roles == nil {
		k.Roles = []string{} // refused
	}
	e.read("fanout", &k.Fanout, "true or false")
	e.read("over", &k.Over, "a list of texts")
	if e.read("two_way", &twoWay, "true or false") && twoWay != (k.Reverse != "") {
		k.Reverse = ""
		if twoWay {
			k.Reverse = k.Name + "-by"
		}
	}
	if e.read("window", &window, "text") {
		var err error
		if k.Window, err = parseDays(window); err != nil {
			e.mistake("window: " + err.Error())
		}
	}
	if e.read("parts", &k.Parts, "a whole number") && k.Parts == 0 {
		e.mistake("parts: 0 is not 1 or more")
	}
	if e.read("most", &k.Most, "a whole number") && k.Most == 0 {
		e.mistake("most: 0 is not 1 or more")
	}
	if e.read("limit", &k.Limit, "a whole number from 1 to 4294967295") && k.Limit == 0 {
		e.mistake("limit: 0 is not 1 or more")
	}
	e.refuseOthers()
}

// refuseOthers notes the fields that were not read.
func (e *kindEntry) refuseOthers() {
	for _, name := range slices.Sorted(maps.Keys(e.fields)) {
		e.mistake(fmt.Sprintf("unknown field %q", name))
	}
}

// read reads a field and reports whether the entry has it. want describes a valid value.
func (e *kindEntry) read(name string, to any, want string) bool {
	value, ok := e.fields[name]
	delete(e.fields, name)
	if ok && (value.Kind() == jsontext.KindNull || json.Unmarshal(value, to) != nil) {
		e.mistake(name + ": not " + want)
		return false
	}
	return ok
}

func (e *kindEntry) readEffect(to *activity.Effect) {
	var text string
	if !e.read("effect", &text, "text") {
		return
	}
	for _, effect := range []activity.Effect{activity.Drop, activity.Annotate, activity.Keep} {
		if text == effect.String() {
			*to = effect
			return
		}
	}
	e.mistake(fmt.Sprintf("effect: %q is not drop, annotate or keep", text))
}

func (e *kindEntry) mistake(what string) { e.mistakes = append(e.mistakes, what) }

// missing notes that a field is missing, unless there is a mistake about it already.
func (e *kindEntry) missing(name string) {
	isKnown := func(m string) bool { return strings.HasPrefix(m, name+": ") }
	if !slices.ContainsFunc(e.mistakes, isKnown) {
		e.mistake(name + ": missing")
	}
}

// err returns the mistakes of the i-th kind as an error.
func (e *kindEntry) err(i int) error {
	kind := fmt.Sprintf("kind %q", e.name)
	if e.name == "" {
		kind = fmt.Sprintf("kind number %d", i+1)
	}
	return fmt.Errorf("%s: %s", kind, strings.Join(e.mistakes, ", "))
}

const day = 24 * time.Hour

// parseDays parses a duration that may begin with whole days: "30d", "12h", "1d12h". The result is
// positive.
func parseDays(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.ParseUint(days, 10, 16) // more days could overflow a Duration
	var more time.Duration
	if err == nil && rest != "" {
		more, err = time.ParseDuration(rest)
	}
	// A sum that overflows is negative, because neither part is.
	if sum := time.Duration(n)*day + more; err == nil && more >= 0 && sum > 0 {
		return sum, nil
	}
	return 0, fmt.Errorf("%q is not a duration such as 30d, 12h or 1d12h", text)
}
