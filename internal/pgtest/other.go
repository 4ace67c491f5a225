//go:build !linux

package pgtest

import "os/exec"

type account struct{}

// unprivileged does nothing: tests are not run as root here.
func unprivileged() (*account, error) { return nil, nil } //nolint:nilnil // the test's own account will do

func (*account) own(string) error { return nil }

func (*account) use(*exec.Cmd) {}

// removeAbandoned does nothing: the server of a test process that was killed may
// still run.
func removeAbandoned() {}

func lock(string) (unlock func(), err error) { return func() {}, nil }
