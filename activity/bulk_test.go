package activity

import (
	"errors"
	"testing"

	"github.com/feedfilter/feedfilter/favfilter"
)

func TestBatchRefuses(t *testing.T) {
	g := newRig(t, &favfilter.Memory{}, 8)
	b := g.NewBulk()
	for field, a := range map[string]Activity{
		"activities[1].target": add("1", "hide", ""),
		"activities[1].kind":   add("1", "nothing", "p"),
		"activities[1].until":  undo("1", "hide", "p").until(g.Now().Add(1e9)),
	} {
		err := g.NewBatch().AddAll([]Activity{add("1", "hide", "p"), a})
		if invalid, ok := errors.AsType[*InvalidError](err); !ok || invalid.Field != field {
			t.Errorf("%+v: error %v, want one of %s", a, err, field)
		}
	}
	g.Close()
	batch := g.NewBatch()
	must(t, batch.Add(add("1", "hide", "p")))
	if _, err := b.Record(t.Context(), batch); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	g.open(t, g.ledger, g.store)
	g.want(t, "1", "hide", "p", None)
}
