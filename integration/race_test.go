//go:build race

package integration

// raceArgs builds the command with the race detector, as these tests are. It does not watch SQLite:
// see the Makefile.
func raceArgs() []string { return []string{"-race", "-gcflags=modernc.org/sqlite/lib=-race=false"} }
