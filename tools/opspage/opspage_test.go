// Package opspage tests the operations page, internal/opspage, in Chromium.
package opspage_test

import "testing"

// TestPage tests the page in one browser, which all subtests share because its start takes longest.
func TestPage(t *testing.T) {
	t.Parallel()
	whole, plain := startReal(t, true), startReal(t, false)
	b := start(t)
	for name, test := range map[string]func(*chromium) func(*testing.T){
		"live":     testLive,
		"looks":    testLooks,
		"outlook":  testOutlook,
		"verdicts": testVerdicts,
		"polling":  testPolling,
		"held":     testHeld,
		"token":    testToken,
		"scope":    testScope,
		"declined": testDeclined,
		"spoken":   testSpoken,
		"nothing":  testNothing,
		"hostile":  testHostile,
		"rebuild":  testRebuild,
		"reasons":  testReasons,
		"reversed": testReversed,
		"fields":   testFields,
		"address":  testAddresses,
	} {
		t.Run(name, test(b))
	}
	t.Run("plain", testPlain(b, plain))
	t.Run("real", testReal(b, whole))
}

// TestLongPage opens every view in every look, and the reference of the API.
func TestLongPage(t *testing.T) {
	t.Parallel()
	b := start(t)
	t.Run("screens", testScreens(b))
	t.Run("reference", testReference(b, startReal(t, false)))
}
