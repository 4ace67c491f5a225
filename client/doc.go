// Package client calls a feedfilter service: it filters feeds, and records what users do.
//
//	c, err := client.New("http://127.0.0.1:8080", client.Options{})
//	feed, err := c.Filter(ctx, client.FilterRequest{Viewer: "1", Posts: posts})
//
// Make one Client and share it: it keeps connections open, and what it counts bounds retries.
//
// # Time
//
// A call ends when its context does. Within that, each attempt has Options.AttemptTimeout. So a renderer gives Filter a context
// with what it can wait, such as 200 ms.
//
// # Retries
//
// Every call of the service may be repeated, so those that are answered 408, 429, 502, 503 or 504, and those without a whole answer, are:
// up to Options.MaxAttempts times, after a random time of up to 0.1 s, 0.2 s and so on to 3 s, or after what Retry-After says, where
// that is up to 30 s and fits into the context's time. Retries have a budget, of ten and a tenth of the calls that succeed, so that clients
// do not keep down a service that is.
//
// Of a call that was repeated, an answer such as "nothing changed" is about its last attempt: one before, whose answer was lost, may have
// made the change. What is repeated with care is Filter with RecordSeen: an attempt that took effect has recorded as seen what it
// kept, and the next would drop all of that. It is repeated only where nothing can have been done. Streams and exports are not repeated.
//
// # When the filter cannot answer
//
// Errors of calls without an answer match [ErrUnavailable]. A renderer then chooses, for each feed, what is worse:
//
//   - Fail closed, the right choice for blocks: show nothing of what could not be checked, but what needs no check, such as the
//     viewer's own posts, or a page that was filtered moments ago. Nobody meets somebody they blocked.
//   - Fail open: show the candidates as they are. Choose it only for kinds that are a matter of comfort, such as seen.
//
// The same choice is there in an answer: Feed.Degraded names kinds that could not be checked. Treat one such as "block" there like no
// answer, and one such as "seen" as you like.
package client
