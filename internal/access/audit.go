package access

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// auditSync is how often what was written is made safe from a power cut.
const auditSync = time.Second

// Audit is a log of who did what: a JSON object a line, appended. Each line has been handed to the system when Log
// returns, so that it outlives the process; a power cut may take what came within the last second or so. It is safe for
// concurrent use.
type Audit struct {
	lines *slog.Logger
	file  auditFile
}

// OpenAudit appends to the named file, which it makes, readable to its owner, where there is none. Trouble with it is
// logged to log, and stops nothing.
func OpenAudit(name string, log *slog.Logger) (*Audit, error) {
	a := &Audit{file: auditFile{name: name, log: log, ended: make(chan struct{})}}
	a.lines = slog.New(slog.NewJSONHandler(&a.file, nil))
	if err := a.file.reopen(); err != nil {
		return nil, err
	}
	a.file.syncs.Go(a.file.keepSafe)
	return a, nil
}

// NewAudit writes to w, which nothing else does at the same time.
func NewAudit(w io.Writer, log *slog.Logger) *Audit {
	a := &Audit{file: auditFile{out: w, log: log}}
	a.lines = slog.New(slog.NewJSONHandler(&a.file, nil))
	return a
}

// Log appends a line on a request. Ids belong into attrs as their hashes alone.
func (a *Audit) Log(ctx context.Context, attrs ...slog.Attr) {
	a.lines.LogAttrs(ctx, slog.LevelInfo, "request", attrs...)
}

// Failures returns how many lines could not be written.
func (a *Audit) Failures() uint64 { return a.file.failures.Load() }

// Reopen goes on in a file of the name, so that the one before can be moved away and kept. After an
// error it goes on in that.
func (a *Audit) Reopen() error {
	if a.file.name == "" {
		return nil
	}
	return a.file.reopen()
}

// Close makes what was written safe. Nothing may be logged any more.
func (a *Audit) Close() error {
	if a.file.name == "" {
		return nil
	}
	close(a.file.ended)
	a.file.syncs.Wait()
	a.file.mu.Lock()
	defer a.file.mu.Unlock()
	return a.file.closeFile()
}

// auditFile is where the lines go.
type auditFile struct {
	name string // "": it is out that they go to
	log  *slog.Logger

	mu       sync.Mutex
	out      io.Writer
	file     *os.File // is out, if there is a name
	unsafe   bool     // something was written since the last sync
	torn     bool     // the last line is not whole
	failing  bool
	failures atomic.Uint64

	ended chan struct{}
	syncs sync.WaitGroup
}

func (f *auditFile) reopen() error {
	file, err := os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file != nil {
		err = f.closeFile()
	}
	f.file, f.out, f.torn = file, file, endsTorn(f.name)
	return err
}

// endsTorn reports whether the last line of a file is not whole, as a full disk may have left it. Of what cannot be read it is
// taken to be.
func endsTorn(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	file, err := os.Open(name)
	if err != nil {
		return true
	}
	defer func() { _ = file.Close() }()
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] != '\n'
}

func (f *auditFile) closeFile() error {
	if err := errors.Join(f.file.Sync(), f.file.Close()); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

// Write writes a line. After one of which a part was written it begins with a line feed, or it would be lost with that.
func (f *auditFile) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text := line
	if f.torn {
		text = append([]byte{'\n'}, line...)
	}
	n, err := f.out.Write(text)
	if n > 0 {
		f.torn = text[n-1] != '\n'
	}
	f.unsafe = true
	f.tell(err)
	if err != nil {
		f.failures.Add(1)
	}
	return min(n, len(line)), err
}

// tell logs an error where the last write, or sync, had none, and the other way round.
func (f *auditFile) tell(err error) {
	switch failing := err != nil; {
	case failing && !f.failing:
		f.log.Error("the audit log cannot be written: lines are lost", "error", err)
	case !failing && f.failing:
		f.log.Info("the audit log is written again", "lost", f.failures.Load())
	}
	f.failing = err != nil
}

func (f *auditFile) keepSafe() {
	ticker := time.NewTicker(auditSync)
	defer ticker.Stop()
	for {
		select {
		case <-f.ended:
			return
		case <-ticker.C:
			f.sync()
		}
	}
}

// sync holds nobody up who writes.
func (f *auditFile) sync() {
	f.mu.Lock()
	file, due := f.file, f.unsafe
	f.unsafe = false
	f.mu.Unlock()
	if !due {
		return
	}
	if err := file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // closed: it was synced then
		f.log.Error("the audit log cannot be made safe from a power cut", "error", err)
	}
}
