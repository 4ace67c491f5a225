package httpapi

import (
	"cmp"
	"container/list"
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

// Access configures who may call the service, and how often. The zero value allows every call,
// without a limit.
type Access struct {
	_ struct{} // fields are named

	// Tokens are the accepted tokens. A request needs one with a scope of its route. Nil: no
	// request needs a token.
	Tokens *access.Tokens

	// Users limits how often feeds, explanations and calls under /v1/users/{user} are made for each
	// user. Batches do not count: importing a user's history must not block the user's feed. Nil:
	// no limit.
	Users *access.Users

	// Hosts are the names that the Host header may have. IP addresses are always valid. Nil: any
	// name. Hosts protects a service that listens on loopback without tokens against DNS rebinding:
	// a web page whose host name leads to 127.0.0.1.
	Hosts []string

	// Audit gets a line for each write, each explanation, each inspected key, and some refused
	// requests. Nil: there is no audit log.
	Audit *access.Audit
	// AuditReads: Audit also gets a line for each list, count, preview, export, fan-out and
	// inspected user.
	AuditReads bool
	IDs        *access.IDs // hashes the ids in the audit log; default: with a random key
}

// Trusts reports whether a request has a valid token, or needs none.
func (a Access) Trusts(r *http.Request) bool {
	if a.Tokens == nil {
		return true
	}
	_, err := a.Tokens.Check(r.Header[echo.HeaderAuthorization])
	return err == nil
}

// gate decides who may make which calls, and keeps the audit log. Only its counters change.
type gate struct {
	access  Access
	origins *http.CrossOriginProtection
	refused refusals
	noise   *access.Throttle // throttles log lines of refused requests
	strays  *access.Throttle // throttles log lines of other errors of callers without a token
	faults  *access.Throttle // throttles log lines of errors of the service
}

func newGate(a Access) *gate {
	a.IDs = cmp.Or(a.IDs, access.NewIDs())
	return &gate{
		access: a, origins: http.NewCrossOriginProtection(), refused: newRefusals(),
		noise: access.NewThrottle(), strays: access.NewThrottle(), faults: access.NewThrottle(),
	}
}

// refusal is the error of a request that is refused before it has any effect.
type refusal struct {
	problem

	challenge string        // WWW-Authenticate
	after     time.Duration // Retry-After
}

func (r *refusal) Error() string { return r.Message }

// headers sets the response headers of the refusal.
func (r *refusal) headers(h http.Header) {
	if r.challenge != "" {
		h.Set(echo.HeaderWWWAuthenticate, r.challenge)
	}
	if r.after > 0 {
		h.Set(echo.HeaderRetryAfter, strconv.Itoa(int(math.Ceil(r.after.Seconds()))))
	}
}

// refusals has a counter for each code of a refusal. The map does not change later.
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

// accessStats are the counters of access control.
type accessStats struct {
	Refused       map[string]uint64   `json:"refused"` // refused requests, by the code of their error
	TokenFile     *access.ReloadStats `json:"token_file,omitempty"`
	AuditFailures uint64              `json:"audit_failures"` // lost lines
}

func (g *gate) accessStats() accessStats {
	stats := accessStats{Refused: make(map[string]uint64, len(g.refused))}
	for code, n := range g.refused {
		stats.Refused[code] = n.Load()
	}
	if g.access.Tokens != nil {
		file := g.access.Tokens.Stats()
		stats.TokenFile = &file
	}
	if g.access.Audit != nil {
		stats.AuditFailures = g.access.Audit.Failures()
	}
	return stats
}

// countRefused counts a request that failed with err. loud reports whether to log it. suppressed is
// the number of earlier requests that were not logged.
//
// Refusals are throttled. Where tokens are required, so are errors of the service, and other errors
// of each token and of callers without one, each on their own. So nobody can fill the log, or hide
// the errors of others.
func (g *gate) countRefused(k *call, status int, err error) (suppressed uint64, loud bool) {
	lines := g.strays
	refused, ok := errors.AsType[*refusal](err)
	switch {
	case ok:
		g.refused[refused.Code].Add(1)
		lines = g.noise
	case g.access.Tokens == nil || status < http.StatusBadRequest || err != nil && describe(err).Code == codeOverloaded: // countShed logs it
		return 0, true
	case k.token == nil: // a stranger hides nobody's errors
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		lines = g.faults
	default:
		lines = k.token.Errors
	}
	return lines.Pass(time.Now())
}

// call is a request and what the service knows about it.
type call struct {
	echo.Context

	token *access.Token // nil: the request needs no token, or has none
	audit *audited      // nil: the request is not audited

	guest    *list.Element // among the guests
	messages *heldBody     // of a stream of messages

	procedure bool  // the route is of the gRPC API, whose errors have another form
	begun     bool  // the procedure has received its message
	failed    error // the error that a procedure answered with
}

// by returns the name of the call's token, "" without one.
func (k *call) by() string {
	if k.token == nil {
		return ""
	}
	return k.token.Name
}

// callOf returns the call behind the context c.
func callOf(c echo.Context) *call {
	k, ok := c.(*call)
	if !ok { // observe makes a call of every request
		panic(fmt.Sprintf("a request is a %T", c))
	}
	return k
}

// rightHost refuses a request whose Host header has no name of the service.
func (g *gate) rightHost(c echo.Context) error {
	if g.access.Hosts == nil || namesHost(g.access.Hosts, c.Request().Host) || overSocket(c.Request()) {
		return nil
	}
	leaveBody(c)
	return &refusal{problem: problem{Code: codeMisdirected, Message: "the Host header does not name this service"}}
}

// overSocket reports whether a request came over a Unix socket. DNS rebinding cannot reach one.
func overSocket(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && addr.Network() == "unix"
}

// namesHost reports whether a Host header has one of the names or an IP address, or is empty.
// Browsers never send an empty one.
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

// admitted lets a request in if its token allows the route and no rate is exceeded. It runs before
// everything else, so a caller without a token cannot make the service read a body or take up a
// slot.
func (g *gate) admitted(r route, next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		k := callOf(c)
		if err := g.admit(r, k); err != nil {
			leaveBody(c)
			return err
		}
		if k.audit = g.toAudit(r); k.audit != nil {
			if err := g.mayAudit(); err != nil {
				leaveBody(c)
				return err
			}
		}
		return next(c)
	}
}

// admit checks the origin, the token and the rates of a request. It refuses requests that a browser
// sends for a page of another origin. Neither a loopback address nor client certificates stop
// those. Browsers ask for permission before they send JSON, but some routes take no body.
func (g *gate) admit(r route, k *call) error {
	if err := g.origins.Check(k.Request()); err != nil {
		return &refusal{problem: problem{Code: codeCrossOrigin, Message: "cross-origin request from a browser refused"}}
	}
	if err := g.authenticate(r, k); err != nil {
		return err
	}
	if k.token != nil {
		if wait := k.token.Take(time.Now()); wait > 0 {
			return tooOften(wait, "the token")
		}
	}
	if g.access.Users == nil || !slices.Contains(k.ParamNames(), "user") {
		return nil
	}
	user, err := pathID(k, "user")
	if err != nil {
		return nil //nolint:nilerr // the handler says what is wrong with it
	}
	return g.userMay(user, 1)
}

func (g *gate) authenticate(r route, k *call) error {
	if g.access.Tokens == nil || len(r.scopes) == 0 {
		return nil
	}
	token, err := g.access.Tokens.Check(k.Request().Header[echo.HeaderAuthorization])
	if err != nil {
		return unauthenticated(err)
	}
	k.token = token
	return allowed(token, "", r.scopes...)
}

// unauthenticated returns the refusal of a missing or invalid token, with the challenge of RFC
// 6750.
func unauthenticated(err error) error {
	challenge := `Bearer realm="feedfilter"`
	if !errors.Is(err, access.ErrNoToken) {
		challenge += `, error="invalid_token"`
	}
	return &refusal{problem: problem{Code: codeUnauthenticated, Message: err.Error()}, challenge: challenge}
}

// allowed returns an error if the token has none of the scopes. field is the part of the request
// that needs the scope, "" for the route.
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
			Code: codeForbidden, Field: field, Message: "the token lacks the required scope: " + strings.Join(names, " or "),
		},
		challenge: `Bearer realm="feedfilter", error="insufficient_scope", scope="` + strings.Join(names, " ") + `"`,
	}
}

// needs returns an error if the request has a token without the scope. field is the field of the
// body that needs the scope.
func (k *call) needs(scope access.Scope, field string) error {
	if k.token == nil {
		return nil
	}
	return allowed(k.token, field, scope)
}

// userMay counts a request for a user as a number of calls: one for each user or list whose
// activities it reads. It returns an error if the user's rate is exceeded. Otherwise the request
// passes whole, and later ones wait.
func (g *gate) userMay(user string, calls int) error {
	if wait := g.access.Users.Take(user, time.Now(), calls); wait > 0 {
		return tooOften(wait, "the user")
	}
	return nil
}

func tooOften(wait time.Duration, who string) error {
	return &refusal{problem: problem{Code: codeRateLimited, Message: "rate limit of " + who + " exceeded"}, after: wait}
}

// charge counts the activities of a batch as requests of its token. It never refuses the batch
// itself, only later requests.
func (k *call) charge(activities int) {
	if k.token != nil {
		k.token.Charge(time.Now(), activities-1) // the first was counted as the request
	}
}

// pace counts lines of a stream as requests of its token, and waits until the rate allows them. It
// returns an error if the token is no longer valid, because a stream can outlive its token.
func (g *gate) pace(k *call, lines int) error {
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
	token, err := g.access.Tokens.Again(k.token)
	if err != nil {
		return unauthenticated(err)
	}
	k.token = token
	return allowed(token, "", access.ActivityWrite)
}
