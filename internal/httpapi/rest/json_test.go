//go:build !race

// The race detector allocates, too.

package rest

import (
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// TestListsOfTextAreBounded: a body of nothing but empty strings takes no more memory than a valid
// one.
func TestListsOfTextAreBounded(t *testing.T) {
	list := `[` + strings.TrimSuffix(strings.Repeat(`"",`, 349_000), ",") + `]`
	for field, c := range map[string]struct {
		body string
		into any
	}{
		"targets":            {`{"kind":"block","targets":` + list + `}`, new(previewRequest)},
		"posts":              {`{"posts":` + list + `}`, new(postsRequest)},
		"post.actors":        {`{"viewer":"1","post":{"id":"p","actors":` + list + `}}`, new(explainRequest)},
		"posts[1].actors":    {`{"viewer":"1","posts":[{},{"actors":` + list + `}]}`, new(filterRequest)},
		"posts[0].actors[0]": {`{"posts":[{"actors":[null]}]}`, new(filterRequest)},
	} {
		options := strict()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := wire.ExplainJSON(json.UnmarshalRead(strings.NewReader(c.body), c.into, options))
		runtime.ReadMemStats(&after)
		if p := wire.Describe(err); p.Field != field || p.Status() != 400 {
			t.Errorf("%s: %+v", field, p)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
			t.Errorf("%s: %d KiB allocated for a body of %d KiB", field, got>>10, len(c.body)>>10)
		}
	}
}
