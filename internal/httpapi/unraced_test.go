//go:build !race

package httpapi_test

// raceDetector is false: service.do compares each answer with the description.
const raceDetector = false
