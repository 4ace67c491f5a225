package operations

import (
	"reflect"
	"slices"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/feed"
	"github.com/feedfilter/feedfilter/internal/metrics"
)

// withoutLedger is activities without a ledger.
type withoutLedger struct{ activity.Activities }

func (withoutLedger) Kinds() *activity.Kinds { return activity.BuiltinKinds() }

// TestNewSetsAllFields: with no configuration, only the fields of a ledger and of a source are nil.
func TestNewSetsAllFields(t *testing.T) {
	o := reflect.ValueOf(*New(withoutLedger{}, metrics.New(metrics.Settings{}), Config{}))
	for i := range o.NumField() {
		name := o.Type().Field(i).Name
		empty := slices.Contains([]string{"Recorder", "Events"}, name)
		if o.Field(i).IsZero() != empty {
			t.Errorf("%s is %v, want it empty: %v", name, o.Field(i), empty)
		}
	}
}

// TestUnsure: a feed with several degraded kinds counts once.
func TestUnsure(t *testing.T) {
	c := newFeedCounts(activity.BuiltinKinds())
	for range 5 {
		c.count(feed.Answer{Degraded: []activity.Degraded{{Kind: "seen"}, {Kind: "hide"}}})
	}
	if n := c.Unsure.Load(); n != 5 {
		t.Errorf("%d feeds, want 5", n)
	}
}
