package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// stalledPipe is a named pipe for a log of a service. Its reader may stall.
type stalledPipe struct {
	t     *testing.T
	path  string
	file  *os.File // that lines are read from
	lines *bufio.Scanner
}

const filler = "This line fills a pipe. Its length divides a page of memory: 64\n"

func newStalledPipe(t *testing.T) *stalledPipe {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pipe")
	must(t, syscall.Mkfifo(path, 0o600))
	reader, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { _ = reader.Close() })
	lines := bufio.NewScanner(reader)
	lines.Buffer(nil, 1<<20)
	return &stalledPipe{t: t, path: path, file: reader, lines: lines}
}

// writer returns the end for a child process. A write to it blocks while the pipe is full.
func (p *stalledPipe) writer() *os.File {
	p.t.Helper()
	fd, err := syscall.Open(p.path, syscall.O_WRONLY|syscall.O_CLOEXEC, 0)
	must(p.t, err)
	file := os.NewFile(uintptr(fd), p.path)
	p.t.Cleanup(func() { _ = file.Close() })
	return file
}

// fill fills the pipe.
func (p *stalledPipe) fill() {
	p.t.Helper()
	fd, err := syscall.Open(p.path, syscall.O_WRONLY|syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	must(p.t, err)
	defer func() { _ = syscall.Close(fd) }()
	for {
		switch _, err := syscall.Write(fd, []byte(filler)); {
		case err == nil, errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			return
		default:
			p.t.Fatal(err)
		}
	}
}

// next returns the next line of JSON, without filler.
func (p *stalledPipe) next() map[string]any {
	p.t.Helper()
	must(p.t, p.file.SetReadDeadline(time.Now().Add(answerTime)))
	for p.lines.Scan() {
		if p.lines.Text()+"\n" == filler {
			continue
		}
		var line map[string]any
		if err := json.Unmarshal(p.lines.Bytes(), &line); err != nil {
			p.t.Fatalf("line %q: %v", p.lines.Text(), err)
		}
		return line
	}
	p.t.Fatalf("the pipe ended: %v", p.lines.Err())
	return nil
}

// until returns the lines up to the first match, and the match.
func (p *stalledPipe) until(fits func(line map[string]any) bool) (before []map[string]any, line map[string]any) {
	p.t.Helper()
	for {
		if line = p.next(); fits(line) {
			return before, line
		}
		before = append(before, line)
	}
}
