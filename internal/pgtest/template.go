package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// initdb takes more than a second of processor time, and always makes the same files. So it runs
// once for each version of PostgreSQL. Its files stay in the user's cache directory as a template,
// which is copied for each server.

// initdbArgs returns the arguments of initdb without the directory.
func initdbArgs() []string {
	return []string{
		"--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
		"--no-sync", "--no-instructions",
	}
}

// initialize makes the server's data from the template, or else with initdb.
func (s *Server) initialize(ctx context.Context) error {
	template, err := s.template(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(template); err == nil {
		return s.copyTemplate(template)
	}
	args := append([]string{"--pgdata", s.data()}, initdbArgs()...)
	if output, err := servertest.Run(s.command(ctx, "initdb", args...)); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	return keepTemplate(s.data(), template)
}

// template returns the directory of the template for this version of PostgreSQL.
func (s *Server) template(ctx context.Context) (string, error) {
	version, err := servertest.Run(s.command(ctx, "initdb", "--version"))
	if err != nil {
		return "", fmt.Errorf("initdb --version: %w\n%s", err, version)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	key := sha256.Sum256([]byte(string(version) + strings.Join(initdbArgs(), " ")))
	return filepath.Join(cache, "feedfilter-pgtest", hex.EncodeToString(key[:8])), nil
}

// keepTemplate makes the template from the data of a server that has not started yet. It does
// nothing if another process has already made it. A template that exists is complete.
func keepTemplate(data, template string) error {
	parent := filepath.Dir(template)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	unfinished, err := os.MkdirTemp(parent, "unfinished-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(unfinished) }()
	complete := filepath.Join(unfinished, dataDirectory)
	if err := os.CopyFS(complete, os.DirFS(data)); err != nil {
		return err
	}
	if err := os.Rename(complete, template); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// copyTemplate copies the template to the server's data.
func (s *Server) copyTemplate(template string) error {
	if err := os.CopyFS(s.data(), os.DirFS(template)); err != nil {
		return err
	}
	// PostgreSQL refuses a directory that other users may read.
	if err := os.Chmod(s.data(), 0o700); err != nil { //nolint:gosec // a directory
		return err
	}
	return filepath.WalkDir(s.data(), func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return s.account.own(path)
	})
}
