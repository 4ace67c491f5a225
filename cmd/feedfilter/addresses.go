package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// unixScheme begins an address that is a Unix socket.
	unixScheme = "unix:"
	// maxSocketPath is the longest path of a socket that all systems accept, in bytes.
	maxSocketPath = 103
)

// addresses splits --addr: <host>:<port> and unix:<path>, separated by commas.
func addresses(addr string) []string { return strings.Split(addr, ",") }

// tcpAddresses returns the addresses that are not Unix sockets.
func tcpAddresses(addr string) []string {
	return slices.DeleteFunc(addresses(addr), func(a string) bool {
		return strings.HasPrefix(a, unixScheme)
	})
}

// checkAddresses returns duplicate addresses and mistakes in socket paths. checkExposure checks the
// other addresses. flag sets them.
func checkAddresses(flag, addr string) error {
	var all checks
	list := addresses(addr)
	for i, a := range list {
		_, port, _ := net.SplitHostPort(a)
		all.wantf(port == "0" || !slices.Contains(list[:i], a), "%s: duplicate address %s", flag, a)
		if path, ok := strings.CutPrefix(a, unixScheme); ok {
			all.wantf(
				path != "" && len(path) <= maxSocketPath,
				"%s: %s: path of %d bytes, want 1 to %d", flag, a, len(path), maxSocketPath,
			)
		}
	}
	return all.err()
}

// socketMode parses --socket-mode, such as 0660.
func socketMode(text string) (fs.FileMode, error) {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("--socket-mode: %q is not an octal mode from 0 to 0777", text)
	}
	return fs.FileMode(mode), nil
}

// listenAll listens on all addresses, or on none. flag sets them.
func listenAll(ctx context.Context, flag, addr string, mode fs.FileMode) ([]net.Listener, error) {
	var all []net.Listener
	for _, a := range addresses(addr) {
		l, err := listenOn(ctx, a, mode)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", flag, err), closeAll(all))
		}
		all = append(all, l)
	}
	return all, nil
}

// closeAll closes listeners, and so removes their sockets. Some of them may be closed already.
func closeAll(listeners []net.Listener) error {
	var errs []error
	for _, l := range listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func listenOn(ctx context.Context, addr string, mode fs.FileMode) (net.Listener, error) {
	path, ok := strings.CutPrefix(addr, unixScheme)
	if !ok {
		return new(net.ListenConfig).Listen(ctx, "tcp", addr)
	}
	if err := removeStale(ctx, path); err != nil {
		return nil, fmt.Errorf("listen on %s: %w", addr, err)
	}
	// The socket must never be more accessible than mode allows, not even before Chmod.
	config := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return restrict(c, mode)
	}}
	l, err := config.Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("listen on %s: %w", addr, err), l.Close())
	}
	return l, nil
}

// removeStale removes a socket that a killed process left behind. It fails if a process listens on
// the socket, or if the file is not a socket.
func removeStale(ctx context.Context, path string) error {
	found, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case found.Mode()&fs.ModeSocket == 0:
		return errors.New("the file is not a socket")
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		return errors.Join(errInUse, conn.Close())
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("check for a listening process: %w", err)
	}
	// Another process may have replaced the socket in between, so remove only the one that was
	// found.
	dir, file := filepath.Split(path)
	aside := filepath.Join(dir, fmt.Sprintf(".%s.%d", file, os.Getpid()))
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	moved, err := os.Lstat(aside)
	if err == nil && !os.SameFile(found, moved) {
		return errors.Join(errInUse, os.Rename(aside, path))
	}
	return os.Remove(aside)
}

var errInUse = errors.New("another process listens on the socket")
