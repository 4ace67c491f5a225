// Package sizing computes what a deployment takes: memory and nodes of Redis, the ledger in
// PostgreSQL, and the service. Beside it stands what other ways of keeping the same take in Redis.
// docs/SIZING.md has the model, and how far tests compare it with servers.
package sizing
