package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// account is the user that servers run as. nil stands for the user of the test.
type account struct{ uid, gid uint32 }

// unprivileged returns the account for servers if the test runs as root, because PostgreSQL refuses
// to run as root.
func unprivileged() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the test's own account will do
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("finding an account other than root: %w", err)
		}
	}
	uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
	gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, fmt.Errorf("account %s: %w", u.Username, err)
	}
	return &account{uint32(uid), uint32(gid)}, nil
}

// own gives the directory to the account.
func (a *account) own(directory string) error {
	if a == nil {
		return nil
	}
	return os.Chown(directory, int(a.uid), int(a.gid))
}

// use makes the command run as the account.
func (a *account) use(cmd *exec.Cmd) {
	if a != nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: a.uid, Gid: a.gid}}
	}
}
