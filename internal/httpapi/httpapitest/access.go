package httpapitest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi"
)

// LockedBuffer is a buffer that several goroutines may write to.
type LockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements [io.Writer].
func (b *LockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written.
func (b *LockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Audits is a service that requires tokens, and its audit log.
type Audits struct {
	*Service

	IDs *access.IDs
	Out *bytes.Buffer
}

// Audited returns a service with an audit log, which logs to the logger.
func Audited(t *testing.T, log *slog.Logger) Audits {
	t.Helper()
	return AuditedBy(t, httpapi.Config{Logger: log})
}

// AuditedBy returns a service with an audit log and a configuration.
func AuditedBy(t *testing.T, c httpapi.Config) Audits {
	t.Helper()
	a := Audits{IDs: access.NewIDs(), Out: new(bytes.Buffer)}
	c.Access.IDs, c.Access.Audit = a.IDs, access.NewAudit(a.Out, access.AuditRefuse, slog.New(slog.DiscardHandler))
	a.Service, _ = Guarded(t, c, nil)
	return a
}

// Take returns the new lines, without the fields that every line has with another value.
func (a Audits) Take(t *testing.T) (lines []map[string]any) {
	t.Helper()
	for text := range strings.Lines(a.Out.String()) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		for _, name := range []string{"time", "level", "msg"} {
			if line[name] == "" {
				t.Errorf("%s has no %s", text, name)
			}
			delete(line, name)
		}
		lines = append(lines, line)
	}
	a.Out.Reset()
	return lines
}

// TokenEntry returns a token of a file: its name, its scopes, and more fields. The token is its
// name.
func TokenEntry(name, scopes, more string) string {
	list := `"` + strings.ReplaceAll(scopes, ",", `","`) + `"`
	return fmt.Sprintf(`{"name":%q,"hash":%q,"scopes":[%s]%s}`, name, access.HashToken(name), list, more)
}

// WriteTokens writes a file of tokens.
func WriteTokens(t testing.TB, file string, entries ...string) {
	t.Helper()
	Must(t, os.WriteFile(file, []byte(`{"tokens":[`+strings.Join(entries, ",")+`]}`), 0o600))
}

// TokensOf returns tokens from a file.
func TokensOf(t testing.TB, entries ...string) (tokens *access.Tokens, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "tokens.json")
	WriteTokens(t, file, entries...)
	tokens, err := access.OpenTokens(access.TokensConfig{File: file})
	Must(t, err)
	return tokens, file
}

// As returns the headers of a request with the token.
func As(token string) []string { return []string{"Authorization", "Bearer " + token} }

// Guarded is a service that requires tokens. There is one for each scope (fleet for ops:write), one
// with all scopes (all), and an expired one (old).
func Guarded(t testing.TB, c httpapi.Config, kinds *activity.Kinds) (s *Service, file string) {
	t.Helper()
	c.Access.Tokens, file = TokensOf(t, TokenEntry("feed", "feed:read", ""), TokenEntry("activity", "activity:write", ""), TokenEntry("ops", "ops:read", ""),
		TokenEntry("fleet", "ops:write", ""), TokenEntry("source", "source:write", ""), TokenEntry("all", "feed:read,activity:write,source:write,ops:read,ops:write", ""),
		TokenEntry("old", "feed:read,activity:write,ops:read,ops:write", `,"expires":"2020-01-01T00:00:00Z"`))
	return newLogged(t, c, kinds, c.Logger), file
}
