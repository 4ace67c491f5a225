// Package sizing computes the resources of a deployment: memory and nodes of Redis, the ledger in
// PostgreSQL, and the service. It also computes what other ways to store the same activities take
// in Redis. docs/SIZING.md describes the model, and how tests compare it with servers.
package sizing
