package access

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Errors of [Tokens.Check].
var (
	ErrNoToken   = errors.New("there is no token")
	ErrMalformed = errors.New("malformed header: must be Authorization: Bearer <token>")
	ErrUnknown   = errors.New("the token is not known")
	ErrExpired   = errors.New("the token has expired")
)

// TokensConfig configures Tokens. File is required; the rest has defaults.
type TokensConfig struct {
	_ struct{} // fields are named

	File   string           // see [File]
	Rate   Rate             // of tokens without a rate in the file; default: no limit
	Logger *slog.Logger     // default: discards
	Now    func() time.Time // default: time.Now
}

// Tokens are the tokens of a file, as last read without error. They are safe for concurrent use.
type Tokens struct {
	reloader

	config  TokensConfig
	inForce atomic.Pointer[[]*Token]
}

// OpenTokens reads the file. To follow changes, the caller runs [Tokens.Watch].
func OpenTokens(c TokensConfig) (*Tokens, error) {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	t := &Tokens{config: c}
	t.reloader = reloader{
		what:  "the token file",
		names: []string{c.File},
		log:   c.Logger,
		apply: t.apply,
	}
	if err := t.open(); err != nil {
		return nil, err
	}
	return t, nil
}

// apply replaces the tokens by those of a file. A token that stays keeps what it has used of its
// rate.
func (t *Tokens) apply(contents [][]byte) error {
	file, err := ParseFile(contents[0])
	if err != nil {
		return fmt.Errorf("%s: %w", t.config.File, err)
	}
	tokens := make([]*Token, len(file.Tokens))
	for i, e := range file.Tokens {
		r := e.Limit()
		if e.Rate == nil {
			r = t.config.Rate
		}
		k := &Token{
			Name:    e.Name,
			Scopes:  e.Scopes,
			Expires: e.Expires,
			Errors:  NewThrottle(),
			limiter: r.limiter(),
			rated:   e.Rate != nil,
		}
		k.digest, _ = parseHash(e.Hash) // ParseFile has checked it
		if before := t.find(k.digest); before != nil {
			k.Errors = before.Errors
			if before.limiter != nil && k.limiter != nil &&
				before.limiter.Limit() == k.limiter.Limit() && before.limiter.Burst() == k.limiter.Burst() {
				k.limiter = before.limiter
			}
		}
		tokens[i] = k
	}
	t.inForce.Store(&tokens)
	return nil
}

// SetRate changes the rate of tokens without a rate in the file. A different rate resets these
// tokens.
func (t *Tokens) SetRate(r Rate) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r == t.config.Rate {
		return
	}
	t.config.Rate = r
	tokens := slices.Clone(*t.inForce.Load())
	for i, k := range tokens {
		if !k.rated {
			k := *k
			k.limiter = r.limiter()
			tokens[i] = &k
		}
	}
	t.inForce.Store(&tokens)
}

// find compares the digest with every token in full, so that its duration reveals nothing about a
// token.
func (t *Tokens) find(d digest) (found *Token) {
	tokens := t.inForce.Load()
	if tokens == nil {
		return nil
	}
	for _, k := range *tokens {
		if subtle.ConstantTimeCompare(k.digest[:], d[:]) == 1 {
			found = k
		}
	}
	return found
}

// Check returns the token in a request's Authorization headers. Its errors are ErrNoToken,
// ErrMalformed, ErrUnknown and ErrExpired.
func (t *Tokens) Check(authorization []string) (*Token, error) {
	switch len(authorization) {
	case 0:
		return nil, ErrNoToken
	case 1:
	default:
		return nil, ErrMalformed // more than one header is ambiguous
	}
	presented, ok := bearer(authorization[0])
	if !ok {
		return nil, ErrMalformed
	}
	var buffer [maxToken]byte
	k := t.find(sha256.Sum256(append(buffer[:0], presented...)))
	if k == nil {
		return nil, ErrUnknown
	}
	return k, t.expiry(k)
}

// Again checks an accepted token once more, and returns it with its current scopes. The error is
// ErrUnknown if the file no longer has the token, or ErrExpired.
func (t *Tokens) Again(k *Token) (*Token, error) {
	now := t.find(k.digest)
	if now == nil {
		return nil, ErrUnknown
	}
	return now, t.expiry(now)
}

func (t *Tokens) expiry(k *Token) error {
	if !k.Expires.IsZero() && !t.config.Now().Before(k.Expires) {
		return ErrExpired
	}
	return nil
}

// bearer returns the token of "Bearer <token>", by the syntax of RFC 6750.
func bearer(header string) (token string, ok bool) {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.TrimLeft(token, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", false
	}
	for _, c := range []byte(token) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') &&
			strings.IndexByte("-._~+/=", c) < 0 {
			return "", false
		}
	}
	return token, true
}
