package rest

// FeedBodies returns valid and invalid bodies, for tests of the whole service.
func FeedBodies() map[string]bool { return feedBodies() }

// ServedBody returns the n-th usual feed.
func ServedBody(n int) string { return servedBody(n) }
