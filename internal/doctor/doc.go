// Package doctor looks at what a service would work with, as the service would, and says what is
// right, what is not, and what to do about it. It changes nothing: no ledger is made or migrated,
// no page is written, and no file of the service's.
package doctor
