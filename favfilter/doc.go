// Package favfilter is a Bloom filter that keys can be deleted from, kept in
// plain Redis strings or in memory.
//
// A FAV filter pairs a Bloom filter with a collision bitmap: one mark for each
// region of some bits, set when an insert finds one of its bits set already. A bit in an
// unmarked region belongs to one key alone, so a delete may clear it; see package
// regions. The filter is cut into pages, small filters of some thousand keys
// each, that are read whole: looking up hundreds of keys of one page takes one
// round trip and a few nanoseconds a key.
//
// Most callers want [Filter]: [Open] one on a [Store], then Add, Remove and Contains. It
// takes more keys than it was made for, at the same false-positive rate. A [Window] forgets keys by
// itself when their time is over. The
// stores are [Memory] and, in package redisstore, Redis or Valkey.
//
// [Page], [Shape], [Scaling] and [HashKey] are the parts it is made of. The format of a page, the hash and
// the positions of a key are pinned by a format version, which each page has in its header. A page
// of another format version is never read: see [ErrFormat].
package favfilter
