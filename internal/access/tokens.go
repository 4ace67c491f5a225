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
	ErrMalformed = errors.New("the header is not of the form: Authorization: Bearer <token>")
	ErrUnknown   = errors.New("the token is not known")
	ErrExpired   = errors.New("the token has expired")
)

// TokensConfig is what Tokens are made of. File is needed; the rest has defaults.
type TokensConfig struct {
	_ struct{} // fields are named

	File   string           // see [File]
	Rate   Rate             // of tokens that the file gives none; default: no limit
	Logger *slog.Logger     // default: discards
	Now    func() time.Time // default: time.Now
}

// Tokens are those of a file, as it was when it was last right. They are safe for concurrent use.
type Tokens struct {
	reloader

	config  TokensConfig
	inForce atomic.Pointer[[]*Token]
}

// OpenTokens reads the file. It does not follow changes; for that the caller runs [Tokens.Watch].
func OpenTokens(c TokensConfig) (*Tokens, error) {
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Now == nil {
		c.Now = time.Now
	}
	t := &Tokens{config: c}
	t.reloader = reloader{what: "the token file", names: []string{c.File}, log: c.Logger, apply: t.apply}
	if err := t.open(); err != nil {
		return nil, err
	}
	return t, nil
}

// apply brings a file's tokens into force. A token that is there already keeps what it has used of
// its rate.
func (t *Tokens) apply(contents [][]byte) error {
	file, err := ParseFile(contents[0])
	if err != nil {
		return fmt.Errorf("%s: %w", t.config.File, err)
	}
	tokens := make([]*Token, len(file.Tokens))
	for i, e := range file.Tokens {
		r := e.rate()
		if e.Rate == nil {
			r = t.config.Rate
		}
		k := &Token{Name: e.Name, Scopes: e.Scopes, Expires: e.Expires, limiter: r.limiter(), rated: e.Rate != nil}
		k.digest, _ = parseHash(e.Hash) // checked above
		if before := t.find(k.digest); before != nil && before.limiter != nil && k.limiter != nil &&
			before.limiter.Limit() == k.limiter.Limit() && before.limiter.Burst() == k.limiter.Burst() {
			k.limiter = before.limiter
		}
		tokens[i] = k
	}
	t.inForce.Store(&tokens)
	return nil
}

// SetRate changes the rate of tokens for which the file gives none. A new rate resets their use.
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

// find compares with every token, the whole of each, so that how long it takes says nothing of how
// much was right.
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

// Check returns the token that a request's Authorization headers present, or why there is none:
// ErrNoToken, ErrMalformed, ErrUnknown or ErrExpired.
func (t *Tokens) Check(authorization []string) (*Token, error) {
	switch len(authorization) {
	case 0:
		return nil, ErrNoToken
	case 1:
	default:
		return nil, ErrMalformed // which one is meant?
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

// Again checks a token that was valid before. It returns the token with its present scopes, or
// ErrUnknown if the file no longer has it, or ErrExpired.
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

// bearer returns the token of "Bearer <token>", as RFC 6750 has it.
func bearer(header string) (token string, ok bool) {
	scheme, token, ok := strings.Cut(header, " ")
	token = strings.TrimLeft(token, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" || len(token) > maxToken {
		return "", false
	}
	for _, c := range []byte(token) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && strings.IndexByte("-._~+/=", c) < 0 {
			return "", false
		}
	}
	return token, true
}
