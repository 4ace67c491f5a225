// Package operations holds the calls that JSON and gRPC share: feeds, fan-outs, explanations,
// lists, and the recording of activities. [New] makes everything that they need. [Reports] counts
// requests that failed, and decides which of them are logged.
package operations
