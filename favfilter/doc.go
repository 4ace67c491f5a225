// Package favfilter implements a Bloom filter that supports deletes, stored in plain Redis strings
// or in memory.
//
// FAV filters bear the initials of Farhan Jafri, Apratim Gupta and Vikas Vimal, who described them.
// A FAV filter pairs a Bloom filter with a collision bitmap, which has one collision bit for each
// region of a few bits. An insert that finds one of its bits already set also sets the collision
// bit of that region. A bit in a region whose collision bit is clear belongs to one key only, so a
// delete may clear it. Package regions has these rules, and computes how often a delete works. The
// filter is divided into pages: small filters of a few thousand keys each. A page is read as a
// whole, so looking up hundreds of keys of one page takes one round trip, and a few nanoseconds per
// key.
//
// Most callers want [Filter]: [Open] one on a [Store], then call Add, Remove and Contains. A Filter
// takes more keys than its configured capacity, at the same false-positive rate. The stores are
// [Memory] and, in package redisstore, Redis or Valkey. Package activity/seen keeps keys that are
// forgotten in time in the same stores.
//
// [Page], [Shape] and [HashKey] are the building blocks. A format version pins the
// format of a page, the hash of a key and the positions of its bits. The header of each page
// contains the format version. A page with another format version is never read: see [ErrFormat].
// A cache of a ledger rebuilds such a page, and a [Filter] refuses to open.
package favfilter
