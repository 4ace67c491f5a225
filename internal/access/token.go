package access

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

const (
	tokenPrefix = "ff_" // lets people and secret scanners recognize a token
	hashPrefix  = "sha256:"
	// maxToken is the maximum length of a token that is looked up, in bytes.
	maxToken = 256
)

// digest is the SHA-256 of a token. Passwords need a slow hash. Tokens do not, because 256 random
// bits cannot be guessed, and a slow hash would delay each request.
type digest [sha256.Size]byte

// NewToken returns a random token of 256 bits: ff_ and 52 letters and digits.
func NewToken() string { return tokenPrefix + rand.Text() + rand.Text() }

// HashToken returns the hash of a token for a token file: sha256:<hex>.
func HashToken(token string) string {
	d := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(d[:])
}

func parseHash(text string) (d digest, err error) {
	errForm := errors.New("must be sha256: and 64 hexadecimal digits")
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if !ok || len(digits) != hex.EncodedLen(len(d)) {
		return d, errForm
	}
	if _, err := hex.Decode(d[:], []byte(digits)); err != nil {
		return d, errForm
	}
	if d == sha256.Sum256(nil) {
		return d, errors.New("is the hash of an empty token")
	}
	return d, nil
}

// Token is a token of the file. It is safe for concurrent use.
type Token struct {
	Name    string
	Scopes  []Scope
	Expires time.Time // the token is refused from this time on; zero: never

	Errors *Throttle // of log lines about errors of the token's requests

	digest  digest
	limiter *rate.Limiter // nil: no limit
	rated   bool          // the file sets the rate
}

// Allows reports whether the token has one of the scopes. Without scopes, it returns true.
func (t *Token) Allows(oneOf ...Scope) bool {
	has := func(s Scope) bool { return slices.Contains(t.Scopes, s) }
	return len(oneOf) == 0 || slices.ContainsFunc(oneOf, has)
}

// Take counts a request and returns 0, if the rate allows it. Otherwise it returns the time until
// the next request is allowed.
func (t *Token) Take(now time.Time) (wait time.Duration) { return take(t.limiter, now) }

// Charge counts n more requests, even beyond the rate. It returns the time until the rate allows
// the next request.
func (t *Token) Charge(now time.Time, n int) (wait time.Duration) {
	return charge(t.limiter, now, n)
}

// Rate limits how often something may be done. The zero value is no limit.
type Rate struct {
	PerSecond float64 // greater than 0, up to a million
	Burst     int     // requests at once after a pause; 0: those of one second
}

const highestRate = 1e6

// check returns what is wrong with the rate.
func (r Rate) check() error {
	if !(r.PerSecond > 0 && r.PerSecond <= highestRate) {
		return fmt.Errorf("%v a second is not above 0 and up to %d", r.PerSecond, int(highestRate))
	}
	if r.Burst < 0 || r.Burst > highestRate {
		return fmt.Errorf("a burst of %d is not in 1 to %d", r.Burst, int(highestRate))
	}
	return nil
}
