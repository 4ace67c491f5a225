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
	// auditSync is how often written lines are synced to disk.
	auditSync = time.Second
	// auditPatience is how long a request waits for its line to be written.
	auditPatience = time.Second
	// auditRetry is the pause between attempts to write a line that must not be lost.
	auditRetry = time.Second
	// auditClose is how long Close waits for lines to be written.
	auditClose = 2 * time.Second
	// auditLines and auditBytes limit how much may wait to be written.
	auditLines, auditBytes = 10_000, 1 << 20
)

// ErrAuditBehind means that the audit log takes no lines, so an audited request must not be
// processed.
var ErrAuditBehind = errors.New("the audit log cannot be written")

var errStandsStill = errors.New("its reader is stalled")

// AuditFailure determines what happens while the audit log cannot be written.
type AuditFailure string

const (
	// AuditRefuse refuses requests that belong in the audit log. No line is lost while the process
	// runs.
	AuditRefuse AuditFailure = "refuse"
	// AuditDrop answers requests as usual. Lines are lost, and counted.
	AuditDrop AuditFailure = "drop"
)

// Audit is a log of who did what, with a JSON object on each line. It is safe for concurrent use.
//
// While the log works, Log hands each line to the operating system before it returns, so the line
// survives the end of the process. A power cut may lose lines of about the last second. If the log
// blocks, as a pipe with a stalled reader does, Log waits for at most a second. After that, it does
// not wait again until the log works.
type Audit struct {
	failure AuditFailure
	file    auditFile
	lines   *logqueue.Queue
}

// OpenAudit appends to the named file. If the file does not exist, OpenAudit creates it, readable
// only by its owner. A named pipe needs a reader. OpenAudit writes errors of the file to log.
func OpenAudit(name string, failure AuditFailure, log *slog.Logger) (*Audit, error) {
	a := &Audit{file: auditFile{name: name, log: log, ended: make(chan struct{})}}
	a.open(failure)
	if err := a.file.reopen(); err != nil {
		return nil, err
	}
	a.file.syncs.Go(a.file.keepSafe)
	return a, nil
}

// NewAudit writes to w. Nothing else may write to w at the same time.
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

// linesLost returns the line that reports a gap.
func linesLost(n uint64) []byte {
	return auditLine(context.Background(), slog.LevelError, "lines lost", slog.Uint64("lost", n))
}

func auditLine(ctx context.Context, level slog.Level, msg string, attrs ...slog.Attr) []byte {
	var text bytes.Buffer
	line := slog.NewRecord(time.Now(), level, msg, 0)
	line.AddAttrs(attrs...)
	_ = slog.NewJSONHandler(&text, nil).Handle(ctx, line) // a buffer never fails
	return text.Bytes()
}

// Check returns [ErrAuditBehind] if a request that belongs in the log must be refused now. If Check
// returns nil, Log accepts the line, even if the log fails in between.
func (a *Audit) Check() error {
	if a != nil && a.failure == AuditRefuse && a.lines.Behind() {
		return ErrAuditBehind
	}
	return nil
}

// Log appends a line about a request that Check accepted. attrs may contain ids only as hashes.
func (a *Audit) Log(ctx context.Context, attrs ...slog.Attr) {
	line := auditLine(ctx, slog.LevelInfo, "request", attrs...)
	if a.failure == AuditRefuse {
		a.lines.Put(line)
	} else {
		_, _ = a.lines.Write(line) // never fails
	}
}

// LogRefused appends a line about a refused request. The line is lost if too many wait.
func (a *Audit) LogRefused(ctx context.Context, attrs ...slog.Attr) {
	_, _ = a.lines.Write(auditLine(ctx, slog.LevelInfo, "request", attrs...)) // never fails
}

// Failures returns how many lines were lost.
func (a *Audit) Failures() uint64 { return a.lines.Dropped() }

// Reopen continues in a new file of the same name, so that the old file can be renamed first.
// Waiting lines go to the new file. After an error, the old file stays in use.
func (a *Audit) Reopen() error {
	if a.file.name == "" {
		return nil
	}
	err := a.file.reopen()
	a.lines.TryNow()
	return err
}

// Close syncs the log and closes it. Nothing may be logged afterwards. It returns an error if
// lines were not written within two seconds; these are lost.
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

// auditFile is the destination of the lines.
type auditFile struct {
	name string // "": lines go to out
	log  *slog.Logger
	lost func() uint64 // returns the number of lost lines

	mu      sync.Mutex // not held during a write
	out     io.Writer
	file    *os.File // the same as out, if there is a name
	unsafe  bool     // something was written since the last sync
	torn    bool     // the last line is incomplete
	failing bool

	ended chan struct{}
	syncs sync.WaitGroup
}

// reopen does not wait for the reader of a pipe. With O_NONBLOCK, opening a pipe without a reader
// is an error.
func (f *auditFile) reopen() error {
	file, err := os.OpenFile(f.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	torn := endsTorn(f.name)
	f.mu.Lock()
	before := f.file
	if !isSame(before, file) { // a line that is being written to it would look incomplete
		f.torn = torn
	}
	f.file, f.out = file, file
	f.mu.Unlock()
	if before == nil {
		return nil
	}
	return closeAudit(before) // ends a write that blocks on a pipe
}

// isSame reports whether a, which may be nil, and b are the same file.
func isSame(a, b *os.File) bool {
	first, err1 := a.Stat()
	second, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(first, second)
}

// endsTorn reports whether the last line of a file is incomplete, for example after a full disk. It
// returns true if the file cannot be read.
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

// closeAudit syncs a file and closes it. A pipe needs no sync.
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

// Write writes one line. After an incomplete line it starts with a line feed, so that the new line
// stays readable. A line that reopen interrupts goes to the new file. Write must not be called
// concurrently.
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

// tell logs when the log starts to fail, and when it works again.
func (f *auditFile) tell(err error) {
	f.mu.Lock()
	before := f.failing
	f.failing = err != nil
	f.mu.Unlock()
	switch failing := err != nil; {
	case failing && !before:
		f.log.Error("audit log cannot be written", "error", err)
	case !failing && before:
		f.log.Info("audit log works again", "lost", f.lost())
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

// sync writes the file to disk, without delaying writers.
func (f *auditFile) sync() {
	f.mu.Lock()
	file, due := f.file, f.unsafe
	f.unsafe = false
	f.mu.Unlock()
	if !due {
		return
	}
	// A closed file is already synced.
	if err := syncAudit(file); err != nil && !errors.Is(err, os.ErrClosed) {
		f.log.Error("audit log not synced to disk", "error", err)
	}
}
