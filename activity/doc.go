// Package activity records what users do to each other and to posts (block, hide, like, seen), and
// reads it back for a feed check.
//
// A [Recorder] records activities and answers a [View] of one user. The ledger is its source of
// truth: an activity is first a committed row there. Pages are a cache of the ledger that a feed
// check reads in one round trip; package pages keeps them current. What is forgotten in time, such
// as posts seen, is in windows, package seen. A [Plain] does without a ledger.
package activity
