package favfilter_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/storetest"
)

func TestFilterModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { storetest.FilterModel(t, &favfilter.Memory{}) })
}
