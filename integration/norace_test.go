//go:build !race

package integration

// raceArgs builds the command without the race detector, as these tests are.
func raceArgs() []string { return nil }
