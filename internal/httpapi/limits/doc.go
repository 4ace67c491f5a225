// Package limits decides who may call the service, how often, and how much at once. [Access] checks
// tokens and rates, and writes the audit log. [Limits] bounds the requests, the streams and the
// bytes of bodies in progress.
package limits
