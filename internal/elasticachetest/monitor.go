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
	// maxWord is the maximum number of bytes of a word. Longer words are cut off.
	maxWord = 4 << 10
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
	source, err := lines.ReadString(']')
	if err != nil {
		return err
	}
	name, more, err := word(lines)
	if err != nil || !more {
		return err
	}
	name = strings.ToLower(name)
	switch {
	case strings.HasSuffix(source, " lua]"):
		args, err := words(lines, name)
		if err == nil {
			w.called(args)
		}
		return err
	case strings.HasPrefix(name, "eval") || strings.HasPrefix(name, "fcall"):
		return w.begun(lines, name)
	case name == "echo":
		args, err := words(lines, name)
		if err == nil && len(args) == 2 && args[1] == w.mark {
			w.marked.Do(func() { close(w.last) })
		}
		return err
	}
	return skip(lines)
}

// begun records the script and its keys.
func (w *watcher) begun(lines *bufio.Reader, name string) error {
	var head [2]string // the script, and how many keys it has
	for i := range head {
		text, more, err := word(lines)
		if err != nil || !more {
			return err
		}
		head[i] = text
	}
	w.script = name + " " + head[0][:min(len(head[0]), 40)]
	w.declared = w.declared[:0]
	n, _ := strconv.Atoi(head[1])
	for range n {
		key, more, err := word(lines)
		if err != nil || !more {
			return err
		}
		w.declared = append(w.declared, key)
	}
	return skip(lines)
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
			w.cache.violatedf("the key %.100q, which is not declared, in the script %s", args[i], w.script)
		}
	}
}

// words reads the rest of a line. first is what was already read of it.
func words(lines *bufio.Reader, first string) ([]string, error) {
	all := []string{first}
	for {
		text, more, err := word(lines)
		if err != nil || !more {
			return all, err
		}
		all = append(all, text)
	}
}

// word reads the next word of a line: "..." with escapes as in C. At the end of the line it returns
// false.
func word(lines *bufio.Reader) (text string, more bool, err error) {
	var b []byte
	for inside := false; ; {
		c, err := lines.ReadByte()
		switch {
		case err != nil:
			return "", false, err
		case c == '\n':
			return "", false, nil
		case c == '"' && !inside:
			inside = true
			continue
		case c == '"':
			return string(b), true, nil
		case !inside:
			continue
		case c == '\\':
			if c, err = unescape(lines); err != nil {
				return "", false, err
			}
		}
		if len(b) < maxWord {
			b = append(b, c)
		}
	}
}

// unescape reads the characters after a backslash.
func unescape(lines *bufio.Reader) (byte, error) {
	c, err := lines.ReadByte()
	switch c {
	case 'n':
		return '\n', err
	case 'r':
		return '\r', err
	case 't':
		return '\t', err
	case 'a':
		return '\a', err
	case 'b':
		return '\b', err
	case 'x':
		var digits [2]byte
		if _, err := io.ReadFull(lines, digits[:]); err != nil {
			return 0, err
		}
		n, err := strconv.ParseUint(string(digits[:]), 16, 8)
		return byte(n), err
	}
	return c, err
}

// skip reads the rest of a line.
func skip(lines *bufio.Reader) error {
	for {
		if _, err := lines.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
