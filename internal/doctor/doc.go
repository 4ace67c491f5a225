// Package doctor checks the dependencies of a service as the service would use them, and says what
// to fix. It changes nothing: it creates or migrates no ledger, and writes no page and no file of
// the service.
package doctor
