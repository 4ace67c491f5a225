// Package pages caches a ledger in the pages of a [favfilter.Store], so that a feed check reads all
// that matters to its viewer in one round trip.
//
// [Pages] writes changes to the ledger first, and acknowledges them once every page that they touch
// has them. Each page carries the sequence of its last change. Pages knows the required sequence of
// every page, from its own writes and by polling the ledger. It rebuilds a page from the ledger if
// the page is missing, stale, damaged, overfull or jammed. There is no other kind of repair.
//
// [Alone] has pages without a ledger.
//
// Applications use package activity, which knows the kinds of activities and what they mean.
package pages
