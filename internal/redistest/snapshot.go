package redistest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

const (
	dumpFile = "dump.rdb"
	// The append-only file is a directory with a manifest that names its parts.
	appendDir      = "appendonlydir"
	appendBase     = "appendonly.aof.1.base.rdb"
	appendManifest = "appendonly.aof.manifest"
)

// Snapshot writes all data of the server to a file, with SAVE, and returns the file's path, for
// RestartFrom of this server or another one. The file lasts as long as the test. The server's next
// start finds the same data as without the call, except that an existing RDB file is brought up to
// date. A server that does not answer fails the test.
func (s *Server) Snapshot() string {
	s.T.Helper()
	path, err := s.snapshot()
	if err != nil {
		s.T.Fatalf("redistest: taking a snapshot of %s: %v", s.Addr(), err)
	}
	return path
}

func (s *Server) snapshot() (path string, err error) {
	err = s.WhileUp(func() error {
		path, err = s.saved()
		return err
	})
	return path, err
}

// saved makes the server save, and returns the path of a copy.
func (s *Server) saved() (string, error) {
	dump := filepath.Join(s.dir, dumpFile)
	_, err := os.Stat(dump)
	hadDump := err == nil
	ctx := context.Background() // Await has a limit
	err = servertest.Await(ctx, "it has saved", func(ctx context.Context) error {
		return s.client.Save(ctx).Err() // fails during a background save
	})
	if err != nil {
		return "", err
	}
	path := filepath.Join(s.T.TempDir(), dumpFile)
	if err := copyFile(dump, path); err != nil {
		return "", err
	}
	if !hadDump {
		err = os.Remove(dump)
	}
	return path, err
}

// RestartFrom kills the server if it runs, and starts it with only the data of the snapshot, like a
// restored backup. The snapshot becomes its RDB file, and the base of its append-only file if it
// has one. Until the server saves again, each Restart starts it with the same data. A server that
// does not start fails the test.
//
// If the server is a replica, its primary then sends it the present data. If it is a primary, its
// replicas go back to the data of the snapshot.
func (s *Server) RestartFrom(snapshot string) {
	s.T.Helper()
	s.RestartAnyway(func() error { return s.restore(snapshot) }, s.launch)
}

// restore copies the snapshot to the files from which the server loads its data.
func (s *Server) restore(snapshot string) error {
	if err := copyFile(snapshot, filepath.Join(s.dir, dumpFile)); err != nil {
		return err
	}
	appended := filepath.Join(s.dir, appendDir)
	if _, err := os.Stat(appended); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// A server with an append-only file loads only that file.
	if err := os.RemoveAll(appended); err != nil {
		return err
	}
	if err := os.Mkdir(appended, 0o700); err != nil {
		return err
	}
	if err := copyFile(snapshot, filepath.Join(appended, appendBase)); err != nil {
		return err
	}
	manifest := fmt.Sprintf("file %s seq 1 type b\n", appendBase)
	return os.WriteFile(filepath.Join(appended, appendManifest), []byte(manifest), 0o600)
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}
