// Package sizing foretells what a deployment takes: memory, shards, network and money, for pages as the
// service makes them and, beside them, for exact sets and RedisBloom. docs/SIZING.md says what the model
// is, and how far it was checked.
//
// Everything here is a function of its arguments and safe for concurrent use.
package sizing
