// Package httpapi serves the API over HTTP: users' activities, their lists, the
// feed check, and the probes of an orchestrator.
//
// What a request says is checked whole before any of it takes effect: JSON with
// an unknown field, a key given twice, a null or anything after its end is
// refused, and so is a query parameter that the route does not know. Errors have one
// shape, and one table of codes and statuses, in errors.go.
//
// Activities come one by one, as a JSON batch that is taken or refused whole, or as
// a stream of NDJSON. There every line up to a line feed, of at most 16 KiB, has an
// answer of its own, an empty line too; only white space after the last line feed
// has none. A client reads the answers while it writes, and sends again what a
// stream that was cut off has not answered: nothing is recorded twice.
//
// What is worked on at a time is bounded, in requests, in streams and in bytes of bodies;
// what goes beyond is refused at once, before its body is read (limit.go).
//
// Nothing but counts is kept between requests, beside what the Recorder keeps, so any
// number of instances may serve side by side.
package httpapi
