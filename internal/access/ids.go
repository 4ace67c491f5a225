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

// IDs turn ids of users and posts into their form in logs. They hash ids with HMAC-SHA256, so a
// reader of the logs without the key cannot find out ids by trying. They are safe for concurrent
// use.
type IDs struct{ key []byte }

// NewIDs returns hashes by a random key that nobody keeps.
func NewIDs() *IDs {
	key := make([]byte, idKeyBytes)
	_, _ = rand.Read(key) // never fails
	return &IDs{key}
}

// OpenIDs reads the key, 64 hexadecimal digits, from a file, which it makes, readable to its owner,
// where there is none. Processes whose hashes are to be the same need copies of one file.
func OpenIDs(file string) (*IDs, error) {
	text, err := readSmall(file)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makeKey(file); err != nil {
			return nil, fmt.Errorf("make a key for the hashes of ids: %w", err)
		}
		text, err = readSmall(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read the key for the hashes of ids: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil || len(key) != idKeyBytes {
		return nil, fmt.Errorf("the key for the hashes of ids: %s does not hold %d hexadecimal digits", file, 2*idKeyBytes)
	}
	return &IDs{key}, nil
}

// makeKey leaves a whole key in the file. If another process makes one at the same time, that is
// it.
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

// Hash returns h_ and the first 128 bits of the id's hash, in hexadecimal digits; nothing of no id.
func (h *IDs) Hash(id string) string {
	if id == "" {
		return ""
	}
	mac := hmac.New(sha256.New, h.key)
	mac.Write([]byte(id))
	return "h_" + hex.EncodeToString(mac.Sum(nil)[:16])
}
