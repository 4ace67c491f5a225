// Package access decides who may call the service, how often, and what is logged of it. It has
// tokens and their scopes, rates, certificates, the audit log, and the hashes that replace ids in
// logs.
package access

// Scope is something that a token allows.
type Scope string

// Scopes.
const (
	FeedRead      Scope = "feed:read"      // ask for feeds, and read what users did
	ActivityWrite Scope = "activity:write" // record, undo, and delete users
	OpsRead       Scope = "ops:read"       // see how the service is, and explain a post
	OpsWrite      Scope = "ops:write"      // change the number of pages, rebuild pages, and scrub
)

// Scopes returns all scopes.
func Scopes() []Scope { return []Scope{FeedRead, ActivityWrite, OpsRead, OpsWrite} }
