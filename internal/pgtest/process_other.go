//go:build !linux

package pgtest

import (
	"os"
	"os/exec"
	"syscall"
)

type account struct{}

// unprivileged does nothing: tests are not run as root here.
func unprivileged() (*account, error) { return nil, nil }

func (*account) own(string) error { return nil }

// setProcessAttributes does nothing: only Linux can tie a child's life to its
// parent's. A test process that is killed leaves its servers behind.
func setProcessAttributes(*exec.Cmd, *account) {}

// signalAll signals the server alone; what it has started ends with it.
func signalAll(p *os.Process, signal syscall.Signal) error { return p.Signal(signal) }
