package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
)

// serving is the last service that a script has started.
type serving struct {
	cmd *exec.Cmd
	log *bufio.Scanner
}

// scriptServe is the scripts' command "serve [<flag>...]": it starts the service on a free port,
// sets URL to its address, and ends it with the script.
func scriptServe(ts *testscript.TestScript, neg bool, args []string) {
	s, ok := ts.Value("serving").(*serving)
	if neg || !ok || s.cmd != nil {
		ts.Fatalf("serve: only once at a time, and to succeed")
	}
	s.cmd = exec.Command("feedfilter", append([]string{"serve", "--addr=127.0.0.1:0"}, args...)...) //nolint:noctx // the script ends it
	s.cmd.Dir = ts.MkAbs(".")
	log, err := s.cmd.StderrPipe()
	ts.Check(err)
	ts.Check(s.cmd.Start())
	ts.Defer(s.kill)
	s.log = bufio.NewScanner(log)
	s.log.Scan()
	var line struct {
		Msg  string `json:"msg"`
		Addr string `json:"addr"`
	}
	if err := json.Unmarshal(s.log.Bytes(), &line); err != nil || line.Msg != "listening" {
		ts.Fatalf("serve: the first line of the log is %q", s.log.Text())
	}
	ts.Setenv("URL", "http://"+line.Addr)
}

func (s *serving) kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// scriptHalt is the scripts' command "halt": it ends the service, which finishes requests in
// flight.
func scriptHalt(ts *testscript.TestScript, neg bool, args []string) {
	s, ok := ts.Value("serving").(*serving)
	if neg || !ok || s.cmd == nil || len(args) > 0 {
		ts.Fatalf("halt: nothing runs")
	}
	ts.Check(s.cmd.Process.Signal(syscall.SIGTERM))
	for s.log.Scan() {
		continue // its log may delay the end of the process
	}
	ts.Check(s.cmd.Wait())
	s.cmd = nil
}

// scriptReload is the scripts' command "reload <file>": it makes the service reload its settings,
// and writes its log up to the outcome to the file.
func scriptReload(ts *testscript.TestScript, neg bool, args []string) {
	s, ok := ts.Value("serving").(*serving)
	if neg || !ok || s.cmd == nil || len(args) != 1 {
		ts.Fatalf("reload: nothing runs, or no file is named")
	}
	ts.Check(s.cmd.Process.Signal(syscall.SIGHUP))
	var lines strings.Builder
	for s.log.Scan() {
		lines.WriteString(s.log.Text() + "\n")
		if strings.Contains(s.log.Text(), `"msg":"settings `) {
			ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(lines.String()), 0o600))
			return
		}
	}
	ts.Fatalf("reload: the service has ended, and logged %s", lines.String())
}

// scriptRefused is the scripts' command "refused [<argument>...]": feedfilter must refuse the
// command line as a mistake, before the command runs, so it needs no process of its own. It does
// not see the directory and the environment of the script.
func scriptRefused(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("refused: only to succeed")
	}
	chosen, err := invoke(context.Background(), args, stdio{os.Stdin, os.Stdout, os.Stderr})
	if err == nil {
		ts.Fatalf("feedfilter %s: nothing is wrong with it", chosen.command.Command())
	}
	complain(ts.Stderr(), err)
	if code := exitCode(err); code != exitUsage {
		ts.Fatalf("feedfilter %s: exit code %d, want %d: %v", strings.Join(args, " "), code, exitUsage, err)
	}
}

// scriptCall is the scripts' command "call <method> <URL> [<JSON>]": it prints the status and the
// answer.
func scriptCall(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("call: a method and a URL, and to get an answer")
	}
	ts.Check(call(args, ts.Stdout()))
}

func call(args []string, out io.Writer) error {
	body := strings.Join(args[2:], " ")
	req, err := http.NewRequestWithContext(context.Background(), args[0], args[1], strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%d %s\n", resp.StatusCode, answer)
	return err
}
