// Package pages caches a ledger in the pages of a [favfilter.Store], so that a feed check reads all
// that matters to its viewer in one round trip.
//
// [Pages] writes changes to the ledger first, and acknowledges them once every page that they touch
// has them. Each page carries the sequence of its last change. Pages knows the required sequence of
// every page, from its own writes and by polling the ledger. It rebuilds a page from the ledger if
// the page is missing, stale, damaged, foreign, ahead, overfull or jammed. There is no other kind
// of repair.
//
// # Types
//
// Six types do all the work: [Pages], [Bulk], [Scrubber], [Grower], [Inspector] and [Alone]. All
// other exported types are their configurations, arguments and results.
//
// Pages records, reads and deletes. Four types are for those who need more: Bulk imports, Scrubber
// compares pages with the ledger, Grower changes their number, and Inspector shows what is in them.
// Alone has pages without a ledger. The rows are those of package ledger. What the kind of a row
// means for a feed is unknown here.
//
// # Changes of the layout
//
// While one layout replaces another, a process that has not polled since the switch may still look
// for a user on the old page. It finds one of three things: the old page as it was at the switch, a
// closed page, or none. Each write closes the old page before it is acknowledged, so an open one
// lacks no acknowledged write. If the page cannot be closed, the write is acknowledged late: by
// then every process has polled. For a closed or missing page the reader polls. The ledger refuses
// to rebuild the old page. A process that cannot reach the ledger returns an [*UnavailableError]
// for users of a closed page.
//
// # Dedicated pages
//
// A user leaves the shared page in a transaction that raises it and stores the new sequence as the
// page's Left. The next rebuild of the shared page omits the user's keys. Only polls teach a
// process the Left of a page. A reader that finds another value in a page polls, and learns where
// the user is. A write of such a user waits until the shared page is at its Left or beyond. So no
// reader takes an older page for the user's.
//
// Applications use package activity, which knows the kinds of activities and what they mean.
package pages
