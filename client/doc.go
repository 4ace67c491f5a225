// Package client calls a feedfilter service: it filters feeds, and records what users do.
//
//	c, err := client.New("http://127.0.0.1:8080", client.Options{})
//	feed, err := c.Filter(ctx, client.FilterRequest{Viewer: "1", Posts: posts})
//
// Create one Client and share it: it keeps connections open, and limits the retries of all calls.
//
// # Messages
//
// Calls of feeds and activities are Protobuf messages in the Connect protocol: a POST of
// application/proto. That takes both sides less time than JSON. If the service does not accept
// messages, as older versions, the client speaks JSON from then on. [Client.Stream],
// [Client.Export] and calls about the service always use JSON. With Options.JSON, all calls do.
//
// # Time
//
// A call ends when its context does. Within that, each attempt may take Options.AttemptTimeout. So
// a renderer passes Filter a context with the time that it can wait, such as 200 ms. A Protobuf
// message carries the time that its attempt has left, and the service stops its work after that
// time.
//
// # Retries
//
// Every call of the service may be repeated. The client retries a call that is answered 408, 429,
// 502, 503 or 504, or that has no complete answer. A 400 without a code counts as no answer: the
// HTTP server of an overloaded process gives it. The client makes up to Options.MaxAttempts
// attempts. Before each retry it waits a random time of up to 0.1 s, 0.2 s and so on to 3 s. If the
// answer has a Retry-After, the client waits that long instead, and up to 0.1 s more. A Retry-After
// of more than 30 s ends the retries, and so does a wait that would outlast the context.
//
// Retries have a budget, so that clients do not overload the service further. It holds at most ten
// retries, and regains a tenth of a retry with each successful call.
//
// With Options.Hedge, a read that is not answered within that time is sent again, on another
// connection, and the first answer counts. This shortens the longest waits, such as those for one
// slow instance behind a load balancer. A second attempt takes a retry from the budget, and needs
// more than half of the budget. So in the long run, a slow or overloaded service gets at most a
// tenth more calls.
//
// After retries, an answer such as "nothing changed" is about the last attempt. An earlier attempt
// whose answer was lost may have made the change.
//
// Filter with RecordSeen is retried only if no attempt can have taken effect. Otherwise, the
// service may already have recorded the kept posts as seen, and a retry would drop all of them.
// Streams and exports are not retried.
//
// # When the filter cannot answer
//
// Errors of calls without an answer match [ErrUnavailable]. The renderer then chooses the lesser
// harm for each feed:
//
//   - Fail closed, the right choice for blocks: show only what needs no check, such as the viewer's
//     own posts, or a page that was filtered moments ago. Nobody meets a user they blocked.
//   - Fail open: show the candidates unfiltered. Choose it only for kinds such as seen, where an
//     unwanted post does little harm.
//
// The same choice exists in an answer: Feed.Degraded names kinds that could not be checked. If it
// names a kind such as "block", treat the answer as missing. If it names one such as "seen", the
// choice is yours.
package client
