package httpapi

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/access"
)

// Access says who may call the service, and how often. With its zero value everybody may, as often as they like.
type Access struct {
	_ struct{} // fields are named

	// Tokens, one of which a request needs, with one of the scopes of its route. Nil: none is asked for.
	Tokens *access.Tokens

	// Users limits feeds, explanations and calls under /v1/users/{user}, of each user. Nil: not limited. Batches are not
	// counted: who imports a user's past must not keep the user's feed away.
	Users *access.Users

	// Hosts are the names that requests may be for, beside any IP address. Nil: any. It is for a service that is guarded
	// by where it listens alone: a web page whose name its owner lets point there, too (DNS rebinding), is then of
	// another name.
	Hosts []string

	// Audit gets a line for each write, each explanation and each key that is looked into, and some for requests that are refused. Nil: none.
	Audit *access.Audit
	IDs   *access.IDs // hash the ids in it; default: by a key that nobody knows
}

// refusal is why a request is not let in, before anything of it was done.
type refusal struct {
	problem

	challenge string        // WWW-Authenticate
	after     time.Duration // Retry-After
}

func (r *refusal) Error() string { return r.Message }

// headers sets what a client is to be told beside the body.
func (r *refusal) headers(h http.Header) {
	if r.challenge != "" {
		h.Set(echo.HeaderWWWAuthenticate, r.challenge)
	}
	if r.after > 0 {
		h.Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(r.after.Seconds()))))
	}
}

// refusals count those, by code. The map does not change.
type refusals map[string]*atomic.Uint64

func refusalCodes() []string {
	return []string{codeUnauthenticated, codeForbidden, codeRateLimited, codeMisdirected, codeCrossOrigin, codeAuditUnavailable}
}

func newRefusals() refusals {
	counts := make(refusals)
	for _, code := range refusalCodes() {
		counts[code] = new(atomic.Uint64)
	}
	return counts
}

// accessStats are part of what the process counts.
type accessStats struct {
	Refused       map[string]uint64   `json:"refused"` // requests that were not let in, by the code of their error
	TokenFile     *access.ReloadStats `json:"token_file,omitempty"`
	AuditFailures uint64              `json:"audit_failures"` // lines that were lost
}

func (s *service) accessStats() accessStats {
	stats := accessStats{Refused: make(map[string]uint64, len(s.refused))}
	for code, n := range s.refused {
		stats.Refused[code] = n.Load()
	}
	if s.access.Tokens != nil {
		file := s.access.Tokens.Stats()
		stats.TokenFile = &file
	}
	if s.access.Audit != nil {
		stats.AuditFailures = s.access.Audit.Failures()
	}
	return stats
}

// countRefused counts a request that was refused by err, and reports whether to log it, and how many have not been before:
// a line for each would let strangers fill the log. So would one for whatever else they get wrong, such as a path that there
// is not; what is left out of that does not count with what the audit log leaves out. Any other request is logged as usual.
func (s *service) countRefused(k *call, status int, err error) (suppressed uint64, loud bool) {
	if refused, ok := errors.AsType[*refusal](err); ok {
		s.refused[refused.Code].Add(1)
		return s.noise.Pass(time.Now())
	}
	if s.access.Tokens != nil && k.token == nil && status >= http.StatusBadRequest {
		return s.strays.Pass(time.Now())
	}
	return 0, true
}

// call is a request, with what is known of it beside.
type call struct {
	echo.Context

	token *access.Token // nil: none is asked for, or there is none
	audit *audited      // nil: it is not

	procedure bool  // of the gRPC API, which has a form of errors of its own
	begun     bool  // it is a procedure, and its message has been read
	failed    error // what the answer of a procedure said
}

// callOf returns the call that c is.
func callOf(c echo.Context) *call {
	k, ok := c.(*call)
	if !ok { // observe makes every request one
		panic(fmt.Sprintf("a request is a %T", c))
	}
	return k
}

// rightHost refuses a request that is for a name that the service does not have.
func (s *service) rightHost(c echo.Context) error {
	if s.access.Hosts == nil || namesHost(s.access.Hosts, c.Request().Host) || overSocket(c.Request()) {
		return nil
	}
	leaveBody(c)
	return &refusal{problem: problem{Code: codeMisdirected, Message: "the service does not have the name that the header Host says"}}
}

// overSocket reports whether a request came over a Unix socket, which no name leads to.
func overSocket(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && addr.Network() == "unix"
}

// namesHost reports whether a Host header is one of the names, an IP address, or nothing, which no browser sends.
func namesHost(names []string, header string) bool {
	host := header
	if h, _, err := net.SplitHostPort(header); err == nil {
		host = h
	}
	if host == "" || slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, host) }) {
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}

// admitted lets a request in whose token allows the route, and which does not come too soon. It is before everything else,
// so that nobody without a token has the service read a body, or takes the place of others.
func (s *service) admitted(r route, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		k := callOf(c)
		if err := s.admit(r, k); err != nil {
			leaveBody(c)
			return err
		}
		if k.audit = s.toAudit(r); k.audit != nil {
			if err := s.mayAudit(); err != nil {
				leaveBody(c)
				return err
			}
		}
		return next(c)
	}
}

// admit also refuses what a browser sends for a page of another origin. That the service is on a loopback address, or
// asks for a client's certificate, would not keep that out; and though a browser asks first whether it may send the bodies
// that are read here, in vain, not every route reads one.
func (s *service) admit(r route, k *call) error {
	if err := s.origins.Check(k.Request()); err != nil {
		return &refusal{problem: problem{Code: codeCrossOrigin, Message: "a browser sent this for a page of another origin"}}
	}
	if err := s.authenticate(r, k); err != nil {
		return err
	}
	if k.token != nil {
		if wait := k.token.Take(time.Now()); wait > 0 {
			return tooOften(wait, "the token")
		}
	}
	if s.access.Users == nil || !slices.Contains(k.ParamNames(), "user") {
		return nil
	}
	user, err := pathID(k, "user")
	if err != nil {
		return nil //nolint:nilerr // the handler says what is wrong with it
	}
	return s.userMay(user)
}

func (s *service) authenticate(r route, k *call) error {
	if s.access.Tokens == nil || len(r.scopes) == 0 {
		return nil
	}
	token, err := s.access.Tokens.Check(k.Request().Header[echo.HeaderAuthorization])
	if err != nil {
		return unauthenticated(err)
	}
	k.token = token
	return allowed(token, "", r.scopes...)
}

// unauthenticated says what is wrong with a token, as RFC 6750 has it.
func unauthenticated(err error) error {
	challenge := `Bearer realm="feedfilter"`
	if !errors.Is(err, access.ErrNoToken) {
		challenge += `, error="invalid_token"`
	}
	return &refusal{problem: problem{Code: codeUnauthenticated, Message: err.Error()}, challenge: challenge}
}

// allowed returns an error if the token has none of the scopes. Field is what asks for them, if it is not the route.
func allowed(token *access.Token, field string, oneOf ...access.Scope) error {
	if token.Allows(oneOf...) {
		return nil
	}
	names := make([]string, len(oneOf))
	for i, s := range oneOf {
		names[i] = string(s)
	}
	return &refusal{
		problem: problem{
			Code: codeForbidden, Field: field, Message: "the token does not have the scope that this needs: " + strings.Join(names, " or "),
		},
		challenge: `Bearer realm="feedfilter", error="insufficient_scope", scope="` + strings.Join(names, " ") + `"`,
	}
}

// needs returns an error if the request has a token, and that lacks the scope, which field of its body asks for.
func (k *call) needs(scope access.Scope, field string) error {
	if k.token == nil {
		return nil
	}
	return allowed(k.token, field, scope)
}

// userMay counts a request for a user, or says that there are too many.
func (s *service) userMay(user string) error {
	if wait := s.access.Users.Take(user, time.Now()); wait > 0 {
		return tooOften(wait, "the user")
	}
	return nil
}

func tooOften(wait time.Duration, who string) error {
	return &refusal{problem: problem{Code: codeRateLimited, Message: "too many requests of " + who}, after: wait}
}

// charge counts the activities of a batch as requests of its token. They are let in together, and those
// after them wait.
func (k *call) charge(activities int) {
	if k.token != nil {
		k.token.Charge(time.Now(), activities-1) // the first was counted as the request
	}
}

// pace counts lines of a stream as requests of its token, and waits until there may be so many: a stream is slowed
// down where requests would be refused. It returns an error once the token is no longer good: a stream can
// outlive it.
func (s *service) pace(k *call, lines int) error {
	if k.token == nil {
		return nil
	}
	if wait := k.token.Charge(time.Now(), lines); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-k.Request().Context().Done():
			return k.Request().Context().Err()
		}
	}
	token, err := s.access.Tokens.Again(k.token)
	if err != nil {
		return unauthenticated(err)
	}
	k.token = token
	return allowed(token, "", access.ActivityWrite)
}
