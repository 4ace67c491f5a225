// Package access decides who may call the service.
package access

// Scope is something that a token allows.
type Scope string

// Scopes.
const (
	FeedRead      Scope = "feed:read"      // ask for feeds, and read what users did
	ActivityWrite Scope = "activity:write" // record, undo, and delete users
	OpsRead       Scope = "ops:read"       // see how the service is, and explain a post
)
