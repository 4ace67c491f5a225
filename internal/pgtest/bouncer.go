package pgtest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// Bouncer is a PgBouncer between its clients and a server.
type Bouncer struct {
	server *Server
	addr   string
	file   string // its configuration
	cmd    *exec.Cmd
}

// StartBouncer runs a PgBouncer for all databases of the server, until the test ends. The mode is
// session, transaction or statement. Settings are more lines of its configuration, such as
// "ignore_startup_parameters=search_path".
//
// Without PgBouncer the test is skipped, or with CI=true fails, as in Start.
func (s *Server) StartBouncer(mode string, settings ...string) *Bouncer {
	s.T.Helper()
	program := servertest.FindProgram(s.T, "PGBOUNCER", "pgbouncer", "/usr/sbin/pgbouncer")
	dir, err := os.MkdirTemp(s.dir, "bouncer-")
	if err == nil {
		err = s.account.own(dir)
	}
	if err != nil {
		s.T.Fatalf("pgtest: making PgBouncer's directory: %v", err)
	}
	b := &Bouncer{server: s, file: filepath.Join(dir, "pgbouncer.ini")}
	p, err := servertest.OnFreePort(s.T, func(port int) (*servertest.Process, error) {
		b.addr = servertest.Addr(port)
		if err := b.configure(mode, settings); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		//nolint:gosec // as in command
		b.cmd = exec.CommandContext(context.Background(), program, b.file)
		b.cmd.Dir = dir
		s.account.use(b.cmd)
		return servertest.Start(ctx, b.cmd, "process up")
	})
	if err != nil {
		s.T.Fatalf("pgtest: starting %s: %v", program, err)
	}
	s.T.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		if err := p.Stop(ctx, syscall.SIGTERM); err != nil {
			s.T.Errorf("pgtest: ending PgBouncer on %s: %v", b.addr, err)
		}
	})
	return b
}

// URL returns a URL of the server, changed so that it leads through the PgBouncer.
func (b *Bouncer) URL(url string) string { return strings.Replace(url, b.server.Addr(), b.addr, 1) }

// Reload gives the PgBouncer another mode and settings while it runs. It applies them soon after
// Reload has returned.
func (b *Bouncer) Reload(mode string, settings ...string) {
	b.server.T.Helper()
	err := b.configure(mode, settings)
	if err == nil {
		err = b.cmd.Process.Signal(syscall.SIGHUP)
	}
	if err != nil {
		b.server.T.Fatalf("pgtest: reloading PgBouncer on %s: %v", b.addr, err)
	}
}

// configure writes the configuration.
func (b *Bouncer) configure(mode string, settings []string) error {
	users := filepath.Join(filepath.Dir(b.file), "users")
	lines := append([]string{
		"[databases]", "* = host=" + strings.Replace(b.server.Addr(), ":", " port=", 1),
		"[pgbouncer]", "listen_addr=" + strings.Replace(b.addr, ":", "\nlisten_port=", 1),
		"unix_socket_dir=", "auth_type=trust", "auth_file=" + users, "pool_mode=" + mode,
	}, settings...)
	for name, text := range map[string]string{
		users:  `"postgres" ""` + "\n",
		b.file: strings.Join(lines, "\n") + "\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return err
		}
		if err := b.server.account.own(name); err != nil {
			return err
		}
	}
	return nil
}
