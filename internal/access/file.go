package access

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// maxTokens limits the tokens of a file, because each request is compared with all of them.
const maxTokens = 1000

// File is the content of a token file, in JSON:
//
//	{"tokens":[{"name":"renderer","hash":"sha256:<hex>","scopes":["feed:read"],
//	  "expires":"2027-01-01T00:00:00Z","rate":500,"burst":1000}]}
//
// expires, rate and burst are optional.
type File struct {
	Tokens []Entry `json:"tokens"`
}

// Entry is one token of a file.
type Entry struct {
	// Name is 1 to 64 letters, digits, '-', '_' or '.'. It appears in logs.
	Name    string    `json:"name"`
	Hash    string    `json:"hash"`             // see HashToken
	Scopes  []Scope   `json:"scopes"`           // at least one
	Expires time.Time `json:"expires,omitzero"` // in RFC 3339; from then on, the token is refused
	Rate    *float64  `json:"rate,omitempty"`   // requests a second
	Burst   *int      `json:"burst,omitempty"`  // requests at once; default: those of one second
}

// ParseFile parses a token file. Its error names all mistakes.
func ParseFile(text []byte) (File, error) {
	var f File
	decoders := json.WithUnmarshalers(json.UnmarshalFromFunc(refuseNull))
	if err := json.Unmarshal(text, &f, json.RejectUnknownMembers(true), decoders); err != nil {
		return File{}, explain(err)
	}
	return f, f.Check()
}

// explain keeps the content of the file out of the error, because a hash field may hold a token by
// mistake.
func explain(err error) error {
	if bad, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(bad, jsontext.ErrDuplicateName) {
			return fmt.Errorf("invalid JSON at byte %d: duplicate name", bad.ByteOffset)
		}
		return fmt.Errorf("invalid JSON at byte %d", bad.ByteOffset)
	}
	if bad, ok := errors.AsType[*json.SemanticError](err); ok {
		switch {
		case errors.Is(bad, errNull):
			return fmt.Errorf("%s: %w", bad.JSONPointer, errNull)
		case errors.Is(bad, json.ErrUnknownName):
			return fmt.Errorf("%s: unknown field", bad.JSONPointer)
		}
		return fmt.Errorf("%s: wrong type of value", bad.JSONPointer)
	}
	return errors.New("not a token file")
}

var errNull = errors.New("null is not allowed; leave the field out")

// refuseNull refuses a null. Otherwise a token with a null as its expiry would never expire.
func refuseNull(d *jsontext.Decoder, _ any) error {
	if d.PeekKind() == jsontext.KindNull {
		return errNull
	}
	return errors.ErrUnsupported // decode it as usual
}

// Check returns an error that names all mistakes.
func (f File) Check() error {
	var errs []error
	if len(f.Tokens) == 0 || len(f.Tokens) > maxTokens {
		errs = append(errs, fmt.Errorf("tokens: %d, not 1 to %d", len(f.Tokens), maxTokens))
	}
	names, hashes := make(map[string]int), make(map[digest]int)
	for i, e := range f.Tokens {
		where := fmt.Sprintf("tokens[%d]", i)
		for _, err := range e.check() {
			errs = append(errs, fmt.Errorf("%s.%w", where, err))
		}
		if first, again := names[e.Name]; again {
			errs = append(errs, fmt.Errorf("%s.name: duplicate of tokens[%d]", where, first))
		} else {
			names[e.Name] = i
		}
		d, err := parseHash(e.Hash)
		if first, again := hashes[d]; again && err == nil {
			errs = append(errs, fmt.Errorf("%s.hash: duplicate of tokens[%d]", where, first))
		} else if err == nil {
			hashes[d] = i
		}
	}
	return errors.Join(errs...)
}

func (e Entry) check() (errs []error) {
	if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`).MatchString(e.Name) {
		errs = append(errs, errors.New("name: not 1 to 64 letters, digits, '-', '_' or '.'"))
	}
	if _, err := parseHash(e.Hash); err != nil {
		errs = append(errs, fmt.Errorf("hash: %w", err))
	}
	if len(e.Scopes) == 0 {
		errs = append(errs, fmt.Errorf("scopes: empty, allowed: %q", Scopes()))
	}
	for i, s := range e.Scopes {
		switch {
		case !slices.Contains(Scopes(), s):
			errs = append(errs, fmt.Errorf("scopes[%d]: not one of %q", i, Scopes()))
		case slices.Contains(e.Scopes[:i], s):
			errs = append(errs, fmt.Errorf("scopes[%d]: duplicate scope %s", i, s))
		}
	}
	switch {
	case e.Rate == nil && e.Burst != nil:
		errs = append(errs, errors.New("burst: needs a rate"))
	case e.Burst != nil && *e.Burst < 1:
		errs = append(errs, fmt.Errorf("burst: %d is less than 1", *e.Burst))
	case e.Rate != nil:
		if err := e.Limit().check(); err != nil {
			errs = append(errs, fmt.Errorf("rate: %w", err))
		}
	}
	return errs
}

// Limit returns the rate of the token; the zero value: it has none of its own.
func (e Entry) Limit() (r Rate) {
	if e.Rate != nil {
		r.PerSecond = *e.Rate
	}
	if e.Burst != nil {
		r.Burst = *e.Burst
	}
	return r
}
