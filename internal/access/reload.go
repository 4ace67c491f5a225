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
	// reloadInterval is how often files are read again. The reloader compares contents, not
	// metadata of the file system. That also works for replaced files, for symbolic links that
	// change, and on network shares. It finds a change that keeps size and time, too.
	reloadInterval = time.Second
	// maxFile is the length of the longest file that is read, in bytes.
	maxFile = 1 << 20
)

// ReloadStats count how files were read again since the start.
type ReloadStats struct {
	Reloads  uint64 `json:"reloads"`  // times that a change came into force
	Failures uint64 `json:"failures"` // times that a change could not, or the files not be read
	Failing  bool   `json:"failing"`  // whether that is so now: what is in force is older than the files
}

// reloader keeps what is made of some files in step with them.
type reloader struct {
	what  string // the files are, for people to read
	names []string
	apply func(contents [][]byte) error // brings what they hold into force, or says what is wrong with it
	log   *slog.Logger

	mu     sync.Mutex
	seen   [][]byte // contents, last time; nil: unreadable
	failed error    // of the last time
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

// Reload reads the files, and brings what has changed into force. After an error, which is logged
// once as well, what was in force stays so.
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
		r.log.ErrorContext(ctx, "a change is not in force: what was read before is", "what", r.what, "files", r.names, "error", err)
		return err
	}
	r.stats.Reloads++
	r.log.InfoContext(ctx, "a change is in force", "what", r.what, "files", r.names)
	return nil
}

// Watch reloads the files whenever they change, which it notices within a second or so, until ctx
// ends.
func (r *reloader) Watch(ctx context.Context) {
	ticker := time.NewTicker(reloadInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_ = r.Reload(ctx) // it is logged
		}
	}
}

// Stats reports how often the files have been read again.
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
