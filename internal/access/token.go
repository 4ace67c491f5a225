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
	tokenPrefix = "ff_" // by which people, and scanners for secrets, know one
	hashPrefix  = "sha256:"
	// maxToken is the length of the longest text that is looked up, in bytes.
	maxToken = 256
)

// digest is the SHA-256 of a token. A slow hash, as for passwords, would gain nothing: a token has
// 256 random bits, so nobody finds it by trying. Each request would pay for a slow hash.
type digest [sha256.Size]byte

// NewToken returns a random token of 256 bits: ff_ and 52 letters and digits.
func NewToken() string { return tokenPrefix + rand.Text() + rand.Text() }

// HashToken returns what a token file has of a token, as sha256:<hex>.
func HashToken(token string) string {
	d := sha256.Sum256([]byte(token))
	return hashPrefix + hex.EncodeToString(d[:])
}

func parseHash(text string) (d digest, err error) {
	digits, ok := strings.CutPrefix(text, hashPrefix)
	if n, err := hex.Decode(d[:], []byte(digits[:min(len(digits), 2*len(d))])); !ok || err != nil || n != len(d) || len(digits) != 2*n {
		return d, errors.New("is not sha256: and 64 hexadecimal digits")
	}
	if d == sha256.Sum256(nil) {
		return d, errors.New("is that of nothing")
	}
	return d, nil
}

// Token is one of the tokens in force. It is safe for concurrent use.
type Token struct {
	Name    string
	Scopes  []Scope
	Expires time.Time // it is refused from then on; zero: never

	digest  digest
	limiter *rate.Limiter // nil: as often as one likes
	rated   bool          // by the file
}

// Allows reports whether the token has one of the scopes. Where none is asked for, anybody may.
func (t *Token) Allows(oneOf ...Scope) bool {
	return len(oneOf) == 0 || slices.ContainsFunc(oneOf, func(s Scope) bool { return slices.Contains(t.Scopes, s) })
}

// Take counts a request, unless there have been too many: then it returns how long it is until one
// may be made.
func (t *Token) Take(now time.Time) (wait time.Duration) { return take(t.limiter, now) }

// Charge counts n requests more, which are being made, and returns how long it is until the rate
// has made up for them: no request may be made before.
func (t *Token) Charge(now time.Time, n int) (wait time.Duration) { return charge(t.limiter, now, n) }

// Rate is how often something may be done. The zero value is no limit.
type Rate struct {
	PerSecond float64 // above 0, up to a million
	Burst     int     // at once, after a while without; 0: as many as a second allows
}

const highestRate = 1e6

// check reports what is wrong with a rate.
func (r Rate) check() error {
	if !(r.PerSecond > 0 && r.PerSecond <= highestRate) {
		return fmt.Errorf("%v a second is not above 0 and up to %d", r.PerSecond, int(highestRate))
	}
	if r.Burst < 0 || r.Burst > highestRate {
		return fmt.Errorf("a burst of %d is not in 1 to %d", r.Burst, int(highestRate))
	}
	return nil
}
