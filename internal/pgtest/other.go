//go:build !linux

package pgtest

import "os/exec"

type account struct{}

// unprivileged returns nil. Outside Linux, tests do not run as root.
//
//nolint:nilnil // nil stands for the user of the test
func unprivileged() (*account, error) { return nil, nil }

func (*account) own(string) error { return nil }

func (*account) use(*exec.Cmd) {}

// removeAbandoned does nothing. Outside Linux, the server of a killed test process may still run.
func removeAbandoned() {}

func lock(string) (unlock func(), err error) { return func() {}, nil }
