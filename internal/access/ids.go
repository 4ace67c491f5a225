package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

const idKeyBytes = 32

// IDs turns ids of users and posts into hashes for logs, with HMAC-SHA256. Without the key, a hash
// cannot be traced to an id by trying ids. It is safe for concurrent use.
type IDs struct{ key []byte }

// NewIDs returns IDs with a random key that is not stored.
func NewIDs() *IDs {
	key := make([]byte, idKeyBytes)
	_, _ = rand.Read(key) // never fails
	return &IDs{key}
}

// OpenIDs reads the key, 64 hexadecimal digits, from a file. If the file does not exist, OpenIDs
// creates it, readable only by its owner. Processes with copies of the same file have the same
// hashes.
func OpenIDs(file string) (*IDs, error) {
	text, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(file); err != nil {
			return nil, fmt.Errorf("create the id key: %w", err)
		}
		text, err = readSmall(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the id key: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != idKeyBytes {
		return nil, fmt.Errorf("id key: %s does not hold %d hexadecimal digits", file, 2*idKeyBytes)
	}
	return &IDs{key}, nil
}

// makeKey stores a complete key in the file. If another process creates the file at the same time,
// its key stays.
func makeKey(file string) (err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(file), ".id-key-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(temp.Name())) }()
	_, err = fmt.Fprintln(temp, hex.EncodeToString(NewIDs().key))
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return err
	}
	if err := os.Link(temp.Name(), file); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// Hash returns h_ and the first 128 bits of the id's hash, in hexadecimal digits; "" for "".
func (h *IDs) Hash(id string) string {
	if id == "" {
		return ""
	}
	mac := hmac.New(sha256.New, h.key)
	mac.Write([]byte(id))
	return "h_" + hex.EncodeToString(mac.Sum(nil)[:16])
}
