package main

import (
	"slices"
	"strings"
	"testing"
)

// Links to what is declared, embedded or imported are taken, and others are found.
func TestBrokenLinks(t *testing.T) {
	tr := newTree()
	for name, source := range map[string]string{
		"store/store.go": `package store
type Page struct{ Bits []byte }
func (p *Page) Clear() {}
`,
		"use/use.go": `package use

import (
	"context"

	"` + module + `/store"
	"github.com/redis/go-redis/v9"
)

// [Local], [Local.field], [Local.method], [*Local], [Local.Bits], [Local.Clear], [Other.Bits],
// [store.Page.Clear], [context.Context], [redis.Hook], [use], and no links: a[gone], [gone](url).
//
//	command [gone]
type Local struct {
	*store.Page
	field int // see [Local.gone1]
}

type Other Local

// [gone2], [store.gone3], [Local.Page.gone4] ([gone5]), [strings.gone6].
func (l Local) method(context.Context, redis.Hook) {}
`,
	} {
		if err := tr.add(name, []byte(source)); err != nil {
			t.Fatal(err)
		}
	}
	broken := tr.broken()
	var found []string
	for _, v := range broken["use/use.go"] {
		found = append(found, strings.TrimSuffix(v.text, " names nothing"))
	}
	slices.Sort(found)
	want := []string{"Local.Page.gone4", "Local.gone1", "gone2", "gone5", "store.gone3", "strings.gone6"}
	if !slices.Equal(found, want) || len(broken) != 1 {
		t.Errorf("found %q, want %q; in all files %v", found, want, broken)
	}
}
