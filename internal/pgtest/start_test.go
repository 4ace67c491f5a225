package pgtest

import (
	"errors"
	"testing"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

func TestLaunchOnATakenPort(t *testing.T) {
	t.Parallel()
	s := Start(t)
	other := newServer(t, s.programs, s.account, nil)
	other.makeDirectory()
	other.makeCluster()
	other.Port = s.Port
	if _, err := other.launch(); !errors.Is(err, servertest.ErrPortTaken) {
		t.Errorf("launching on a port that is in use: %v, want ErrPortTaken", err)
	}
}
