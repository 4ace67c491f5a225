package pgtest

import (
	"errors"
	"testing"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

func TestLaunchOnATakenPort(t *testing.T) {
	t.Parallel()
	s := Start(t)
	other := &Server{t: t, programs: s.programs, account: s.account}
	other.makeDirectory()
	other.makeCluster()
	other.addr = s.Addr()
	if _, err := other.launch(); !errors.Is(err, servertest.ErrPortTaken) {
		t.Errorf("launching on a port that is in use: %v, want ErrPortTaken", err)
	}
}
