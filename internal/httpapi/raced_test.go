//go:build race

package httpapi_test

// raceDetector is whether the race detector watches. Then service.do does not compare answers with
// the description: the comparisons take turns, and would hide races of calls made at once.
const raceDetector = true
