// Package activity records what users do to each other and to posts (block, hide,
// like, seen), and reads it back for a feed check.
//
// The ledger is the truth: an activity is first a committed row there. Pages of a
// [favfilter.Store] are a cache of it that a feed check reads in one round trip. A
// page carries the sequence number of its last change; the [Recorder] knows where every page has
// to stand, and makes one that is missing, behind, damaged, over-full or jammed
// anew from the ledger. There is no other way of repair.
package activity
