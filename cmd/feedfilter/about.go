package main

import (
	"strings"

	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// about describes the parts of a service with these flags, without addresses.
func (f *dataFlags) about() httpapi.About {
	a := httpapi.About{Version: thisVersion().Version, PageStore: "memory"}
	a.Ledger, _, _ = strings.Cut(f.ledgerURL(), ":")
	if a.Ledger == "postgresql" {
		a.Ledger = "postgres"
	}
	if scheme, _, ok := strings.Cut(f.Redis, ":"); ok {
		a.PageStore = strings.NewReplacer("rediss", "redis", "unix", "redis").Replace(scheme)
	}
	return a
}
