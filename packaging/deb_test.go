package packaging

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	settingsFile = "/etc/feedfilter/feedfilter.env"
	stateDir     = "/var/lib/feedfilter"
)

// testDeb installs the first deb, upgrades it and removes it. The service must run as its unit
// says. An upgrade and a removal must keep its data and settings.
func testDeb(t *testing.T, first string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: installing a package takes root")
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		t.Skip("NOT TESTED: no dpkg, which comes with Debian alone")
	}
	for _, path := range []string{"/usr/bin/feedfilter", settingsFile, stateDir} {
		if _, err := os.Stat(path); err == nil {
			t.Skip("NOT TESTED: feedfilter is installed here: " + path)
		}
	}
	second := build(t, "..", "v0.2.0")
	t.Cleanup(func() {
		quietly(t, "dpkg", "--purge", "feedfilter")
		quietly(t, "userdel", "feedfilter")
		quietly(t, "rm", "-rf", stateDir)
	})
	command(t, ".", "dpkg", "--install", one(t, first, "*.deb"))
	if _, err := exec.LookPath("systemd-analyze"); err == nil {
		command(t, ".", "systemd-analyze", "verify", "/usr/lib/systemd/system/feedfilter.service")
	} else {
		t.Log("NOT TESTED: systemd-analyze verify: systemd-analyze is missing")
	}

	s := start(t)
	s.wantVersion("v0.1.0")
	s.ask(http.MethodPut, "/v1/users/1/blocks/2", `"changed":true`)
	s.stop()
	// The operator sets this value. An upgrade must keep it.
	text := read(t, settingsFile)
	must(t, os.WriteFile(settingsFile, append(text, "FEEDFILTER_LOG_LEVEL=warn\n"...), 0o600))

	command(t, ".", "dpkg", "--install", one(t, second, "*.deb"))
	if got := read(t, settingsFile); !strings.HasSuffix(string(got), "FEEDFILTER_LOG_LEVEL=warn\n") {
		t.Errorf("settings after the upgrade: %s", got)
	}
	s = start(t)
	s.wantVersion("v0.2.0")
	s.ask(http.MethodGet, "/v1/users/1/blocks", `"target":"2"`)
	s.stop()

	command(t, ".", "dpkg", "--remove", "feedfilter")
	for path, want := range map[string]bool{"/usr/bin/feedfilter": false, settingsFile: true, stateDir + "/ledger.db": true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s after the removal: %v, want it there: %t", path, err, want)
		}
	}
}

// service is a process that was started as its unit says.
type service struct {
	t       *testing.T
	command *exec.Cmd
	url     string
	log     chan string // lines that the service writes after its start
}

// start does what systemd does with the unit, except for the sandbox. It makes the state directory,
// and runs ExecStart as User with the variables of Environment and EnvironmentFile, on a free port.
func start(t *testing.T) *service {
	t.Helper()
	unit := string(read(t, "/usr/lib/systemd/system/feedfilter.service"))
	of := func(name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `=-?(.*)$`).FindStringSubmatch(unit)
		if found == nil {
			t.Fatalf("the unit has no %s", name)
		}
		return found[1]
	}
	owner, err := user.Lookup(of("User"))
	must(t, err)
	uid, _ := strconv.Atoi(owner.Uid)
	gid, _ := strconv.Atoi(owner.Gid)
	dir := "/var/lib/" + of("StateDirectory")
	must(t, os.MkdirAll(dir, 0o700))
	if err := os.Chown(dir, uid, gid); err != nil || uid == 0 {
		t.Fatalf("owner %d of %s: %v", uid, dir, err)
	}
	words := strings.Fields(of("ExecStart"))
	c := exec.CommandContext(context.WithoutCancel(t.Context()), words[0], words[1:]...)
	c.Dir = of("WorkingDirectory")
	c.Env = []string{of("Environment")}
	for line := range strings.Lines(string(read(t, of("EnvironmentFile")))) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			c.Env = append(c.Env, line)
		}
	}
	address := freeAddress(t)
	c.Env = append(c.Env, "FEEDFILTER_ADDR="+address)
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	stderr, err := c.StderrPipe()
	must(t, err)
	must(t, c.Start())
	s := &service{t: t, command: c, url: "http://" + address, log: make(chan string, 1)}
	go func() {
		var all strings.Builder
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			all.WriteString(lines.Text() + "\n")
		}
		s.log <- all.String()
	}()
	t.Cleanup(func() { _ = c.Process.Kill() })
	s.untilReady()
	return s
}

// freeAddress returns an address that was free a moment ago.
func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	defer listener.Close()
	return listener.Addr().String()
}

// untilReady waits for an answer of /readyz.
func (s *service) untilReady() {
	s.t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		if status, _, err := s.call(http.MethodGet, "/readyz"); err == nil && status == http.StatusOK {
			return
		} else if time.Now().After(end) {
			_ = s.command.Process.Kill()
			s.t.Fatalf("not ready: status %d, error %v, log:\n%s", status, err, <-s.log)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (s *service) call(method, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// ask makes a call, and fails unless the answer contains want.
func (s *service) ask(method, path, want string) {
	s.t.Helper()
	if status, body, err := s.call(method, path); err != nil || status != http.StatusOK || !strings.Contains(body, want) {
		s.t.Errorf("%s %s: %d %s, error %v, want %s", method, path, status, body, err, want)
	}
}

// wantVersion checks the version of the installed command, and that the service runs that command.
func (s *service) wantVersion(want string) {
	s.t.Helper()
	if got := command(s.t, ".", "/usr/bin/feedfilter", "version"); !strings.HasPrefix(got, "feedfilter "+want+",") {
		s.t.Errorf("version %q, want %s", got, want)
	}
	binary, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", s.command.Process.Pid))
	if err != nil || binary != "/usr/bin/feedfilter" {
		s.t.Errorf("the service runs %q, error %v", binary, err)
	}
}

// stop ends the service as systemd does.
func (s *service) stop() {
	s.t.Helper()
	must(s.t, s.command.Process.Signal(syscall.SIGTERM))
	log := <-s.log
	if err := s.command.Wait(); err != nil {
		s.t.Errorf("the service ended with %v, log:\n%s", err, log)
	}
}
