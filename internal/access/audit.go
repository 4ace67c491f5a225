package access

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/feedfilter/feedfilter/internal/logqueue"
)

const (
	// auditSync is how often what was written is made safe from a power cut.
	auditSync = time.Second
	// auditPatience is how long a request waits at most until its line is written.
	auditPatience = time.Second
	// auditRetry is the pause between two tries to write a line that is not to be lost.
	auditRetry = time.Second
	// auditClose is how long Close waits until all lines are written.
	auditClose = 2 * time.Second
	// auditLines and auditBytes are how much may wait to be written.
	auditLines, auditBytes = 10_000, 1 << 20
)

// ErrAuditBehind means that the audit log accepts no lines, so the request must be refused.
var ErrAuditBehind = errors.New("the audit log cannot be written")

var errStandsStill = errors.New("its reader stands still")

// AuditFailure reports what happens while the audit log cannot be written.
type AuditFailure string

const (
	// AuditRefuse refuses requests that cannot be logged. No line is lost while the process runs.
	AuditRefuse AuditFailure = "refuse"
	// AuditDrop has requests answered as ever. Lines are lost, and counted.
	AuditDrop AuditFailure = "drop"
)

// Audit is a log of who did what, with one JSON object per line. Log hands each line to the system
// before it returns, so the line outlives the process. A power cut may lose about the last second.
// While the log blocks, as a pipe does whose reader is stopped, Log waits a second at most. Once it
// has waited that long, it does not wait until the log works again. Audit is safe for concurrent
// use.
type Audit struct {
	failure AuditFailure
	file    auditFile
	lines   *logqueue.Queue
}

// OpenAudit appends to the named file, which it makes, readable to its owner, where there is none.
// A named pipe needs a reader. Trouble with the file is logged to log.
func OpenAudit(name string, failure AuditFailure, log *slog.Logger) (*Audit, error) {
	a := &Audit{file: auditFile{name: name, log: log, ended: make(chan struct{})}}
	a.open(failure)
	if err := a.file.reopen(); err != nil {
		return nil, err
	}
	a.file.syncs.Go(a.file.keepSafe)
	return a, nil
}

// NewAudit writes to w, which nothing else does at the same time.
func NewAudit(w io.Writer, failure AuditFailure, log *slog.Logger) *Audit {
	a := &Audit{file: auditFile{out: w, log: log}}
	a.open(failure)
	return a
}

func (a *Audit) open(failure AuditFailure) {
	a.failure = failure
	c := logqueue.Config{
		Out: &a.file, Lines: auditLines, Bytes: auditBytes, Patience: auditPatience, Gap: linesLost,
		OnBehind: func() { a.file.tell(errStandsStill) },
	}
	if failure == AuditRefuse {
		c.Retry = auditRetry
	}
	a.lines = logqueue.New(c)
	a.file.lost = a.lines.Dropped
}

// linesLost is the line that tells of a gap.
func linesLost(n uint64) []byte {
	return auditLine(context.Background(), slog.LevelError, "lines lost", slog.Uint64("lost", n))
}

func auditLine(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) []byte {
	var text bytes.Buffer
	line := slog.NewRecord(time.Now(), level, msg, 0)
	line.AddAttrs(attrs...)
	_ = slog.NewJSONHandler(&text, nil).Handle(ctx, line) // a buffer takes all
	return text.Bytes()
}

// Check returns [ErrAuditBehind] if a request that must be logged has to be refused now. The log
// accepts lines of other requests in any state.
func (a *Audit) Check() error {
	if a != nil && a.failure == AuditRefuse && a.lines.Behind() {
		return ErrAuditBehind
	}
	return nil
}

// Log appends a line on a request that Check let pass. Ids belong into attrs as their hashes alone.
func (a *Audit) Log(ctx context.Context, attrs ...slog.Attr) {
	line := auditLine(ctx, slog.LevelInfo, "request", attrs...)
	if a.failure == AuditRefuse {
		a.lines.Put(line)
	} else {
		_, _ = a.lines.Write(line) // never fails
	}
}

// LogRefused appends a line on a request that was refused. It is lost if too many lines wait.
func (a *Audit) LogRefused(ctx context.Context, attrs ...slog.Attr) {
	_, _ = a.lines.Write(auditLine(ctx, slog.LevelInfo, "request", attrs...)) // never fails
}

// Failures returns how many lines were lost.
func (a *Audit) Failures() uint64 { return a.lines.Dropped() }

// Reopen goes on in a file of the name, so that the one before can be moved away and kept. After an
// error it goes on in that. Lines that wait are written to the new file.
func (a *Audit) Reopen() error {
	if a.file.name == "" {
		return nil
	}
	err := a.file.reopen()
	a.lines.TryNow()
	return err
}

// Close makes what was written safe. Nothing may be logged any more. It returns an error if lines
// were not written within two seconds: these are lost.
func (a *Audit) Close() error {
	var errs []error
	if left := a.lines.Close(auditClose); left > 0 {
		errs = append(errs, fmt.Errorf("audit log: %d lines not written in %v, lost", left, auditClose))
	}
	if a.file.name == "" {
		return errors.Join(errs...)
	}
	close(a.file.ended)
	a.file.syncs.Wait()
	a.file.mu.Lock()
	defer a.file.mu.Unlock()
	return errors.Join(append(errs, closeAudit(a.file.file))...)
}

// auditFile is where the lines go.
type auditFile struct {
	name string // "": it is out that they go to
	log  *slog.Logger
	lost func() uint64 // how many lines were, so far

	mu      sync.Mutex // not held while something is written
	out     io.Writer
	file    *os.File // is out, if there is a name
	unsafe  bool     // something was written since the last sync
	torn    bool     // the last line is not whole
	failing bool

	ended chan struct{}
	syncs sync.WaitGroup
}

// reopen does not wait for the reader of a pipe: O_NONBLOCK makes it an error that there is none.
func (f *auditFile) reopen() error {
	file, err := os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	torn := endsTorn(f.name)
	f.mu.Lock()
	before := f.file
	// In the same file, a line that is being written looks torn.
	if before == nil || !isSame(before, file) {
		f.torn = torn
	}
	f.file, f.out = file, file
	f.mu.Unlock()
	if before == nil {
		return nil
	}
	return closeAudit(before) // ends a write to a pipe that blocks
}

// isSame reports whether both are open on one file.
func isSame(a, b *os.File) bool {
	first, err1 := a.Stat()
	second, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}

// endsTorn reports whether the last line of a file is not whole, as a full disk may have left it.
// Of what cannot be read it is taken to be.
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

// closeAudit closes a file, and makes it safe first. There is nothing to make safe of a pipe.
func closeAudit(file *os.File) error {
	if err := errors.Join(syncAudit(file), file.Close()); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}

func syncAudit(file *os.File) error {
	if info, err := file.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil
	}
	return file.Sync()
}

// Write writes a line. After one of which a part was written it begins with a line feed, or it
// would be lost with that. A line that reopen interrupts goes to the new file. It is called for
// one line at a time.
func (f *auditFile) Write(line []byte) (int, error) {
	for {
		f.mu.Lock()
		out, file, torn := f.out, f.file, f.torn
		f.mu.Unlock()
		text := line
		if torn {
			text = append([]byte{'\n'}, line...)
		}
		n, err := out.Write(text)
		f.mu.Lock()
		moved := f.file != file
		if n > 0 && !moved {
			f.torn = text[n-1] != '\n'
		}
		f.unsafe = true
		f.mu.Unlock()
		if err != nil && moved {
			continue
		}
		f.tell(err)
		return min(n, len(line)), err
	}
}

// tell logs an error where the last write had none, and the other way round.
func (f *auditFile) tell(err error) {
	f.mu.Lock()
	before := f.failing
	f.failing = err != nil
	f.mu.Unlock()
	switch failing := err != nil; {
	case failing && !before:
		f.log.Error("the audit log cannot be written", "error", err)
	case !failing && before:
		f.log.Info("the audit log is written again", "lost", f.lost())
	}
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
	if err := syncAudit(file); err != nil && !errors.Is(err, os.ErrClosed) { // closed: it was synced then
		f.log.Error("the audit log cannot be made safe from a power cut", "error", err)
	}
}
