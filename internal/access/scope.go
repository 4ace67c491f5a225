// Package access controls who may call the service, how often, and what is recorded about it:
// tokens and scopes, rates, certificates, the audit log, and hashes of ids in logs.
package access

// Scope is a permission of a token.
type Scope string

// Scopes.
const (
	FeedRead      Scope = "feed:read"      // get feeds, read activities
	ActivityWrite Scope = "activity:write" // record and undo activities, delete users
	SourceWrite   Scope = "source:write"   // send events of a followed source
	OpsRead       Scope = "ops:read"       // inspect the service, explain a post
	OpsWrite      Scope = "ops:write"      // change the number of pages, rebuild pages, scrub
)

// Scopes returns all scopes.
func Scopes() []Scope { return []Scope{FeedRead, ActivityWrite, SourceWrite, OpsRead, OpsWrite} }
