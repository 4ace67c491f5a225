// Package core holds what JSON, gRPC and the routes of operators share: the request and its caller,
// limits, errors and strict JSON. It also has the calls that JSON and gRPC share. It knows no
// route.
package core
