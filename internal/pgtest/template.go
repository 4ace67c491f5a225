package pgtest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/feedfilter/feedfilter/internal/servertest"
)

// initdb takes more than a second of processor time, and always makes the same files. So it runs
// once for each installation of PostgreSQL. Its files stay in the user's cache directory as a
// template, which is unpacked for each server. It is one file, because most of the time of a copy
// goes into opening files.

// initdbArgs returns the arguments of initdb without the directory.
func initdbArgs() []string {
	return []string{
		"--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale", "C",
		"--no-sync", "--no-instructions",
	}
}

// withoutTemplate1 drops a third of the files of a cluster. Tests make databases of template0.
const withoutTemplate1 = "ALTER DATABASE template1 IS_TEMPLATE false\nDROP DATABASE template1\n"

// initialize makes the server's data from the template. It makes the template first, if there is
// none.
func (s *Server) initialize(ctx context.Context) error {
	template, err := s.template()
	if err != nil {
		return err
	}
	if err := s.unpack(template); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	args := append([]string{"--pgdata", s.data()}, initdbArgs()...)
	if output, err := servertest.Run(s.command(ctx, "initdb", args...)); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	single := s.command(ctx, "postgres", "--single", "-D", s.data(), "postgres")
	single.Stdin = strings.NewReader(withoutTemplate1)
	if output, err := servertest.Run(single); err != nil || bytes.Contains(output, []byte("ERROR")) {
		return fmt.Errorf("drop template1: %w\n%s", err, output)
	}
	return pack(s.data(), template)
}

// template returns the file of the template for this installation of PostgreSQL.
func (s *Server) template() (string, error) {
	initdb, err := os.Stat(filepath.Join(s.programs, "initdb"))
	if err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	made := initdb.ModTime().UnixNano()
	text := fmt.Append(nil, s.programs, initdb.Size(), made, initdbArgs(), withoutTemplate1)
	key := sha256.Sum256(text)
	return filepath.Join(cache, "feedfilter-pgtest", hex.EncodeToString(key[:8])+".tar"), nil
}

// lengthRecord is the record of a file in the template that ends in zeros. They are left out, so it
// has the file's length.
const lengthRecord = "FEEDFILTER.length"

// pack makes the template from the data of a server that has not started yet. A template that
// exists is complete.
func pack(data, template string) (err error) {
	parent := filepath.Dir(template)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(parent, "unfinished-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	archive := tar.NewWriter(file)
	err = filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == data {
			return err
		}
		return add(archive, data, path, entry)
	})
	if err := errors.Join(err, archive.Close(), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), template)
}

// add adds a file or directory below data to the template.
func add(archive *tar.Writer, data, path string, entry fs.DirEntry) error {
	name, err := filepath.Rel(data, path)
	if err != nil {
		return err
	}
	if entry.IsDir() {
		return archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name})
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	written := bytes.TrimRight(content, "\x00")
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(written))}
	if len(written) < len(content) {
		header.PAXRecords = map[string]string{lengthRecord: strconv.Itoa(len(content))}
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(written)
	return err
}

// unpack makes the server's data of the template. If there is no template, the error wraps
// [fs.ErrNotExist].
func (s *Server) unpack(template string) error {
	file, err := os.Open(template)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	// PostgreSQL refuses a directory that other users may read.
	if err := errors.Join(os.Mkdir(s.data(), 0o700), s.account.own(s.data())); err != nil {
		return err
	}
	buffer := make([]byte, 1<<18)
	for archive := tar.NewReader(bufio.NewReaderSize(file, 1<<18)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = s.extract(filepath.Join(s.data(), filepath.Clean(header.Name)), header, archive, buffer)
		}
		if err != nil {
			return fmt.Errorf("template %s: %w", template, err)
		}
	}
}

// extract makes a file or directory of the server's data.
func (s *Server) extract(path string, header *tar.Header, content io.Reader, buffer []byte) error {
	if header.Typeflag == tar.TypeDir {
		return errors.Join(os.Mkdir(path, 0o700), s.account.own(path))
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	// Without the struct, CopyBuffer would call File.ReadFrom, which makes a buffer for each file.
	_, err = io.CopyBuffer(struct{ io.Writer }{file}, content, buffer)
	if length, ends := header.PAXRecords[lengthRecord]; ends && err == nil {
		var n int64
		if n, err = strconv.ParseInt(length, 10, 64); err == nil {
			err = file.Truncate(n)
		}
	}
	return errors.Join(err, file.Close(), s.account.own(path))
}
