package openapi

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/feedfilter/feedfilter/activity"
)

// expansion expands a part of the description. The head of openapi.yaml says how.
type expansion struct {
	codes       codes
	kinds       map[string][]activity.Kind // by sort, the first word of a placeholder
	placeholder *regexp.Regexp

	kind activity.Kind // that the part is about
	sort string        // by which the part names the kind; "": the part is about no kind
}

// expand returns the tree of the document that a description stands for.
func expand(description []byte, kinds *activity.Kinds) (any, error) {
	codes, err := readCodes(description)
	if err != nil {
		return nil, err
	}
	var tree any
	if err := yaml.UnmarshalWithOptions(description, &tree, yaml.UseOrderedMap()); err != nil {
		return nil, err
	}
	e := expansion{
		codes:       codes,
		kinds:       sorts(kinds),
		placeholder: regexp.MustCompile(`<([^<>]+)\.([^<>]+)>`),
	}
	return e.value(tree)
}

// sorts returns the kinds of each sort.
func sorts(kinds *activity.Kinds) map[string][]activity.Kind {
	all := map[string][]activity.Kind{
		"kind":       kinds.All(),
		"ledger":     nil,
		"windowed":   nil,
		"dropping":   nil,
		"annotating": nil,
		"keeping":    nil,
		"users":      nil,
	}
	for _, k := range kinds.All() {
		keeper, effect := "windowed", ""
		if k.InLedger() {
			keeper = "ledger"
		}
		switch k.Effect {
		case activity.Drop:
			effect = "dropping"
		case activity.Annotate:
			effect = "annotating"
		case activity.Keep:
			effect = "keeping"
		}
		if k.Target == activity.User { // none of these has a window
			all["users"] = append(all["users"], k)
		}
		all[keeper], all[effect] = append(all[keeper], k), append(all[effect], k)
	}
	return all
}

func (e expansion) value(v any) (any, error) {
	switch v := v.(type) {
	case yaml.MapSlice:
		return e.object(v)
	case []any:
		return e.list(v)
	case string:
		return e.fill(v)
	default:
		return v, nil
	}
}

func (e expansion) object(from yaml.MapSlice) (yaml.MapSlice, error) {
	var to yaml.MapSlice
	for len(from) > 0 {
		sort, n := e.sortOf(from[0].Key), 1
		for n < len(from) && e.sortOf(from[n].Key) == sort {
			n++
		}
		for _, one := range e.each(sort) {
			for _, m := range from[:n] {
				members, err := one.member(m)
				if err != nil {
					return nil, fmt.Errorf("%v: %w", m.Key, err)
				}
				to = append(to, members...)
			}
		}
		from = from[n:]
	}
	return to, nil
}

// member returns the members that a member stands for.
func (e expansion) member(m yaml.MapItem) (yaml.MapSlice, error) {
	name := fmt.Sprint(m.Key)
	switch {
	case name == "x-error-groups":
		return nil, nil
	case name == "x-errors":
		return e.codes.answers(slices.DeleteFunc(flat(m.Value), e.excludes))
	case strings.HasPrefix(name, "x-") && name != "x-enumDescriptions":
		return nil, errors.New("unknown extension")
	}
	key, err := e.fill(name)
	if err != nil {
		return nil, err
	}
	value, err := e.value(m.Value)
	return yaml.MapSlice{{Key: key, Value: value}}, err
}

func (e expansion) list(from []any) ([]any, error) {
	var to []any
	for _, v := range from {
		for _, one := range e.each(e.sortOf(v)) {
			item, err := one.value(v)
			if err != nil {
				return nil, err
			}
			if e.sortOf(v) == "" || !slices.Contains(to, item) { // a kind may be its own plural
				to = append(to, item)
			}
		}
	}
	return to, nil
}

// sortOf returns the sort in the first placeholder of a text, "" for none or another value.
func (e expansion) sortOf(v any) string {
	text, _ := v.(string)
	if found := e.placeholder.FindStringSubmatch(text); found != nil {
		return found[1]
	}
	return ""
}

// each returns an expansion for each kind of the sort. It returns e if e is already about a kind of
// the sort, or if there is no such sort.
func (e expansion) each(sort string) []expansion {
	kinds, ok := e.kinds[sort]
	if !ok || sort == e.sort {
		return []expansion{e}
	}
	all := make([]expansion, len(kinds))
	for i, k := range kinds {
		all[i] = e
		all[i].kind, all[i].sort = k, sort
	}
	return all
}

// fill replaces the placeholders of a text.
func (e expansion) fill(text string) (string, error) {
	for _, found := range e.placeholder.FindAllStringSubmatch(text, -1) {
		word, ok := e.words()[found[2]]
		if !ok || found[1] != e.sort {
			return "", fmt.Errorf("placeholder %s is unknown here", found[0])
		}
		text = strings.ReplaceAll(text, found[0], word)
	}
	return text, nil
}

// words are what the second words of placeholders stand for.
func (e expansion) words() map[string]string {
	k, effect := e.kind, "Feeds of the user leave the post out."
	switch {
	case k.Effect == activity.Annotate:
		effect = "Feeds of the user annotate the post, if they ask for it."
	case k.Effect == activity.Keep:
		over := strings.Join(k.Over, ", ")
		effect = "Feeds of the user keep the post in spite of the kinds " + over + "."
	case k.Reverse != "":
		effect = "Feeds of both users leave out posts with the other as author or actor."
	case k.Target == activity.User:
		effect = "Feeds of the user leave out posts with the target as author or actor."
	case k.Target != activity.Post:
		effect = fmt.Sprintf(
			"Feeds of the user leave out posts with the target among the ids of their facet %q.",
			k.Target,
		)
	}
	return map[string]string{
		"name":   k.Name,
		"Name":   camel(k.Name),
		"plural": k.Plural,
		"window": k.Window.String(),
		"effect": effect,
	}
}

// camel writes "super-like" as "SuperLike".
func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// excludes reports whether the part is about a kind that cannot cause the error code.
func (e expansion) excludes(code string) bool {
	return e.sort != "" &&
		(code == "self_block" && e.kind.Target != activity.User ||
			code == "limit_reached" && e.kind.Limit == 0)
}

// flat returns the texts in nested lists. An alias in a list is such a list.
func flat(v any) []string {
	list, ok := v.([]any)
	if !ok {
		return []string{fmt.Sprint(v)}
	}
	var all []string
	for _, one := range list {
		all = append(all, flat(one)...)
	}
	return all
}
