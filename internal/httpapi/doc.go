// Package httpapi serves the API over HTTP: JSON and NDJSON, and gRPC, gRPC-Web and Connect on the
// same port.
//
// It checks a whole JSON request before any part of it takes effect. It refuses unknown fields,
// duplicate keys, null, data after the end, and query parameters that the route does not know. All
// errors of JSON have one form. Codes and statuses of errors are in wire/errors.go.
//
// The number of requests and streams in progress and the bytes of their bodies are bounded. Further
// requests are refused at once, before their body is read (limits/limits.go).
//
// Between requests the package keeps only counts and limits; the Recorder keeps everything else. So
// any number of instances can serve side by side.
package httpapi
