package rest

// FeedBodies and ServedBody are for tests of the whole service.
var (
	FeedBodies = feedBodies
	ServedBody = servedBody
)
