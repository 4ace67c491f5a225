// Package wire reads requests and writes answers: JSON, media types, queries, streams, errors. A
// [Call] is a request with what the service knows about it, a [Route] a path with its handler. The
// package knows neither the limits of requests nor what the calls do.
package wire
