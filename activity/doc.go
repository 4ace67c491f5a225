// Package activity records what users do to each other and to posts (block, hide, like, seen), and
// reads it back for a feed check.
//
// The ledger is the source of truth: an activity is first a committed row there. The pages of a
// [favfilter.Store] are a cache of the ledger that a feed check reads in one round trip. Each page
// carries the sequence of its last change. The [Recorder] knows the required sequence of every
// page. It rebuilds a page from the ledger if the page is missing, stale, damaged, overfull or
// jammed. There is no other kind of repair.
package activity
