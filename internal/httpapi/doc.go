// Package httpapi serves the API over HTTP: users' activities, their lists, the
// feed check, and the probes of an orchestrator.
//
// What a request says is checked whole before any of it takes effect: JSON with
// an unknown field, a key given twice, a null or anything after its end is
// refused, and so is a query parameter that the route does not know. Errors have one
// shape, and one table of codes and statuses, in errors.go.
//
// Nothing is kept between requests but what the Recorder keeps, so any number of
// instances may serve side by side.
package httpapi
