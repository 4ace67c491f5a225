package elasticachetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

const (
	// watchPause is the time until the next attempt to watch a server that is down.
	watchPause = 20 * time.Millisecond
	// drainTimeout is how long close waits for commands that the server has yet to show.
	drainTimeout = 10 * time.Second
)

// watcher reads what scripts do on one server.
type watcher struct {
	cache  *Cache
	target string
	client *redis.Client
	table  map[string]*redis.CommandInfo
	done   chan struct{} // closed by close
	ended  sync.WaitGroup

	last   chan struct{} // closed when the mark has been seen
	mark   string
	marked sync.Once

	script   string   // the present or last script
	declared []string // its keys

	mu   sync.Mutex
	conn net.Conn // nil while there is none
}

// watch starts a watcher. It returns when the server shows all commands from now on.
func watch(c *Cache, target string) (*watcher, error) {
	w := &watcher{
		cache:  c,
		target: target,
		done:   make(chan struct{}),
		last:   make(chan struct{}),
		mark:   fmt.Sprintf("the end of %p", c),
		client: redis.NewClient(&redis.Options{
			Addr:                     target,
			ContextTimeoutEnabled:    true,
			DisableIdentity:          true,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		}),
	}
	table, err := w.client.Command(context.Background()).Result()
	if err != nil {
		return nil, errors.Join(err, w.client.Close())
	}
	w.table = table
	lines, err := w.begin()
	if err != nil {
		return nil, errors.Join(err, w.client.Close())
	}
	w.ended.Go(func() { w.run(lines) })
	return w, nil
}

// close ends the watcher after it has seen all earlier commands, if the server is up.
func (w *watcher) close() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	again := time.NewTicker(watchPause) // the server may have restarted a moment ago
	defer again.Stop()
	for seen := false; !seen && w.client.Echo(ctx, w.mark).Err() == nil; {
		select {
		case <-w.last:
			seen = true
		case <-again.C:
		case <-ctx.Done():
			w.cache.violatedf("what scripts did on %s was not seen to its end", w.target)
			seen = true
		}
	}
	close(w.done)
	w.mu.Lock()
	if w.conn != nil {
		_ = w.conn.Close()
	}
	w.mu.Unlock()
	w.ended.Wait()
	_ = w.client.Close()
}

func (w *watcher) run(lines *bufio.Reader) {
	for {
		for lines != nil {
			if err := w.line(lines); err != nil {
				lines = nil
			}
		}
		select {
		case <-w.done:
			return
		case <-time.After(watchPause):
		}
		lines, _ = w.begin()
	}
}

// begin connects, and asks for all commands from now on.
func (w *watcher) begin() (*bufio.Reader, error) {
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(context.Background(), "tcp", w.target)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.conn = conn
	w.mu.Unlock()
	select {
	case <-w.done: // close does not know this connection
		return nil, conn.Close()
	default:
	}
	if _, err := io.WriteString(conn, "MONITOR\r\n"); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	lines := bufio.NewReaderSize(conn, bufferSize)
	answer, err := lines.ReadString('\n')
	if err == nil && answer != "+OK\r\n" {
		err = fmt.Errorf("MONITOR was answered %q", answer)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return lines, nil
}

// line reads one command, as in
//
//	+1339518083.107412 [0 127.0.0.1:60866] "evalsha" "6b1b" "1" "key"
//	+1339518083.107420 [0 lua] "get" "key"
func (w *watcher) line(lines *bufio.Reader) error {
	line, err := lines.ReadString('\n')
	if err != nil {
		return err
	}
	source, rest, _ := strings.Cut(line, "]")
	words := wordsOf(rest)
	if len(words) == 0 {
		return nil
	}
	words[0] = strings.ToLower(words[0])
	switch name := words[0]; {
	case strings.HasSuffix(source, " lua"):
		w.called(words)
	case (strings.HasPrefix(name, "eval") || strings.HasPrefix(name, "fcall")) && len(words) > 2:
		n, _ := strconv.Atoi(words[2])
		w.script = name + " " + words[1][:min(len(words[1]), 40)]
		w.declared = words[3:min(len(words), 3+max(0, n))]
	case name == "echo" && words[len(words)-1] == w.mark:
		w.marked.Do(func() { close(w.last) })
	}
	return nil
}

// called checks a command of the present script.
func (w *watcher) called(args []string) {
	sub := ""
	if len(args) > 1 {
		sub = args[1]
	}
	if v := w.cache.rules.command(args[0], sub); v.why != "" {
		w.cache.violatedf("%s, in the script %s", v.why, w.script)
	}
	info := w.table[args[0]]
	if info == nil || slices.Contains(info.Flags, "movablekeys") {
		w.cache.violatedf("%s, whose keys are not told, in the script %s", args[0], w.script)
		return
	}
	last := int(info.LastKeyPos)
	if last < 0 {
		last += len(args)
	}
	if info.FirstKeyPos < 1 || info.StepCount < 1 {
		return
	}
	for i := int(info.FirstKeyPos); i <= last && i < len(args); i += int(info.StepCount) {
		if !slices.Contains(w.declared, args[i]) {
			w.cache.violatedf(
				"the key %.100q, which is not declared, in the script %s", args[i], w.script,
			)
		}
	}
}

// wordsOf returns the words of a line, each "..." with escapes as in Go.
func wordsOf(line string) (words []string) {
	for {
		quoted, err := strconv.QuotedPrefix(strings.TrimLeft(line, " "))
		if err != nil {
			return words
		}
		line = strings.TrimLeft(line, " ")[len(quoted):]
		word, _ := strconv.Unquote(quoted) // QuotedPrefix has checked it
		words = append(words, word)
	}
}
