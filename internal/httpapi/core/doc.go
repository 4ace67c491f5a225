// Package core holds what the JSON routes, the gRPC procedures and the routes of operators share:
// the request and its caller, limits, errors, strict JSON, and the calls that JSON and gRPC both
// have. It knows no route.
package core
