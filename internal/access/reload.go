package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	// reloadInterval is how often the files are read. Their contents are compared, and not their
	// metadata. So the service notices replaced files, changed symbolic links, network shares, and
	// changes that keep size and time.
	reloadInterval = time.Second
	// maxFile is the maximum length of a file, in bytes.
	maxFile = 1 << 20
)

// ReloadStats counts reloads since the start.
type ReloadStats struct {
	Reloads uint64 `json:"reloads"` // changes that came into force
	// Failures counts changes that were rejected, and times that the files were unreadable.
	Failures uint64 `json:"failures"`
	Failing  bool   `json:"failing"` // the last attempt failed, and older contents are in use
}

// reloader applies changes of some files.
type reloader struct {
	what  string // what the files are, for people
	names []string
	apply func(contents [][]byte) error // applies the contents, or returns what is wrong with them
	log   *slog.Logger

	mu     sync.Mutex
	seen   [][]byte // last contents; nil: unreadable
	failed error    // the last error
	stats  ReloadStats
}

// open reads the files for the first time.
func (r *reloader) open() error {
	contents, err := r.read()
	if err == nil {
		err = r.apply(contents)
	}
	r.seen = contents
	return err
}

// Reload reads the files, and applies changes. After an error, the previous contents stay in use.
// Each error is logged once.
func (r *reloader) Reload(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	contents, err := r.read()
	switch {
	case err == nil && r.seen != nil && slices.EqualFunc(contents, r.seen, bytes.Equal):
		return r.failed
	case err == nil:
		err = r.apply(contents)
	case r.failed != nil && r.failed.Error() == err.Error():
		return r.failed
	}
	r.seen, r.failed = contents, err
	if err != nil {
		r.stats.Failures++
		r.log.ErrorContext(
			ctx, "reload failed, previous contents stay in force",
			"what", r.what, "files", r.names, "error", err,
		)
		return err
	}
	r.stats.Reloads++
	r.log.InfoContext(ctx, "files reloaded", "what", r.what, "files", r.names)
	return nil
}

// Watch reloads the files until ctx ends. It notices a change within about a second.
func (r *reloader) Watch(ctx context.Context) {
	ticker := time.NewTicker(reloadInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = r.Reload(ctx) // Reload logs the error
		}
	}
}

// Stats returns the counts of reloads.
func (r *reloader) Stats() ReloadStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Failing = r.failed != nil
	return s
}

func (r *reloader) read() ([][]byte, error) {
	contents := make([][]byte, len(r.names))
	for i, name := range r.names {
		var err error
		if contents[i], err = readSmall(name); err != nil {
			return nil, fmt.Errorf("%s: %w", r.what, err)
		}
	}
	return contents, nil
}

func readSmall(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	content, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(content) > maxFile {
		err = errors.New("longer than 1 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return content, nil
}
