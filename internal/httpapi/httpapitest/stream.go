package httpapitest

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// ReadFunc is a body whose Read is a function.
type ReadFunc func([]byte) (int, error)

// Read implements [io.Reader].
func (f ReadFunc) Read(p []byte) (int, error) { return f(p) }

// Breaking returns a body that has text, and then fails with err.
func Breaking(text string, err error) io.Reader {
	return io.MultiReader(strings.NewReader(text), ReadFunc(func([]byte) (int, error) { return 0, err }))
}

// BadWriter is a connection whose operations return the errors. A nil error: the operation works.
type BadWriter struct {
	*httptest.ResponseRecorder

	WriteErr, FlushErr, DeadlineErr, DuplexErr error

	Mad bool // panics instead of flushing
}

// Write implements [io.Writer].
func (w *BadWriter) Write(p []byte) (int, error) {
	if w.WriteErr != nil {
		return 0, w.WriteErr
	}
	return w.ResponseRecorder.Write(p)
}

// FlushError implements the method of [http.ResponseController].
func (w *BadWriter) FlushError() error {
	if w.Mad {
		panic("the writer is mad")
	}
	return w.FlushErr
}

// SetReadDeadline implements the method of [http.ResponseController].
func (w *BadWriter) SetReadDeadline(time.Time) error { return w.DeadlineErr }

// SetWriteDeadline implements the method of [http.ResponseController].
func (w *BadWriter) SetWriteDeadline(time.Time) error { return w.DeadlineErr }

// EnableFullDuplex implements the method of [http.ResponseController].
func (w *BadWriter) EnableFullDuplex() error { return w.DuplexErr }

// Aborted runs the request, and reports whether the connection must be closed.
func (s *Service) Aborted(w http.ResponseWriter, r *http.Request) (cut bool) {
	defer func() {
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			cut = true
		default:
			panic(v)
		}
	}()
	s.ServeHTTP(w, r)
	return false
}

// NDJSON sends a whole stream in process, and returns the lines of the answer.
func (s *Service) NDJSON(t testing.TB, body string) []string {
	t.Helper()
	a := s.Do(t, "POST", "/v1/activities", body, "Content-Type", "application/x-ndjson")
	if a.Status != 200 || a.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %v %s", a.Status, a.Header, a.Body)
	}
	if a.Body == "" {
		return nil
	}
	if !strings.HasSuffix(a.Body, "\n") {
		t.Errorf("no line feed at the end: %q", a.Body)
	}
	return strings.Split(strings.TrimSuffix(a.Body, "\n"), "\n")
}

// WantError asserts that a line of an answer is the error.
func WantError(t testing.TB, got, code, field string) {
	t.Helper()
	if !strings.HasPrefix(got, `{"error":{"code":"`+code+`","message":"`) || strings.HasSuffix(got, `,"field":"`+field+`"}}`) != (field != "") {
		t.Errorf("got %s, want %s of %q", got, code, field)
	}
}

// Duplex is a stream on a real connection, written to and read from in turns.
type Duplex struct {
	t   testing.TB
	In  *io.PipeWriter
	res *http.Response
	out *bufio.Reader
}

// Duplex begins a stream on a connection of its own.
func (s *Service) Duplex(t testing.TB, addr string, header ...string) *Duplex {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	return s.DuplexOf(t, client, addr, header...)
}

// DuplexOf begins a stream of a client.
func (*Service) DuplexOf(t testing.TB, client *http.Client, addr string, header ...string) *Duplex {
	t.Helper()
	read, write := io.Pipe()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+"/v1/activities", read)
	Must(t, err)
	r.Header.Set("Content-Type", "application/x-ndjson")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(r) // returns before a line is written
	Must(t, err)
	t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
	return &Duplex{t, write, res, bufio.NewReader(res.Body)}
}

// Write sends text.
func (d *Duplex) Write(text string) {
	d.t.Helper()
	if _, err := io.WriteString(d.In, text); err != nil {
		d.t.Fatalf("write %q: %v", text, err)
	}
}

// Line waits for the next line of the answer.
func (d *Duplex) Line() string {
	d.t.Helper()
	l, err := d.out.ReadString('\n')
	if err != nil {
		d.t.Fatalf("after %q: %v", l, err)
	}
	return strings.TrimSuffix(l, "\n")
}

// End reads the end of the answer.
func (d *Duplex) End() error {
	rest, err := io.ReadAll(d.out)
	if len(rest) > 0 {
		d.t.Errorf("unexpected rest: %q", rest)
	}
	return err
}
