package limits

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/access"
	"github.com/feedfilter/feedfilter/internal/httpapi/wire"
)

// Access configures who may call the service, and how often. The zero value allows every call,
// without a limit.
type Access struct {
	_ struct{} // fields are named

	// Tokens are the accepted tokens. A request needs one with a scope of its route. Nil: no
	// request needs a token.
	Tokens *access.Tokens

	// Users limits how often feeds, explanations and calls with {user} in their path are made for
	// each user. Batches do not count: importing a user's history must not block the user's feed.
	// Nil: no limit.
	Users *access.Users

	// Hosts are the names that the Host header may have. IP addresses are always valid. Nil: any
	// name. Hosts protects a service that listens on loopback without tokens against DNS rebinding:
	// a web page whose host name leads to 127.0.0.1.
	Hosts []string

	// Audit gets a line for each write, each explanation, each inspected key, and some refused
	// requests. Nil: there is no audit log.
	Audit *access.Audit
	// AuditReads: Audit also gets a line for each list, check, count, preview, export, fan-out and
	// inspected user.
	AuditReads bool
	IDs        *access.IDs // hashes the ids in the audit log; default: with a random key

	origins *http.CrossOriginProtection
}

// Prepare sets defaults. Call it before [Access.Admit].
func (a *Access) Prepare() {
	a.IDs, a.origins = cmp.Or(a.IDs, access.NewIDs()), http.NewCrossOriginProtection()
}

// Trusts reports whether a request has a valid token, or needs none.
func (a *Access) Trusts(r *http.Request) bool {
	if a.Tokens == nil {
		return true
	}
	_, err := a.Tokens.Check(r.Header[echo.HeaderAuthorization])
	return err == nil
}

// RightHost refuses a request whose Host header has no name of the service.
func (a *Access) RightHost(k *wire.Call) error {
	if a.Hosts == nil || namesHost(a.Hosts, k.Request().Host) || overSocket(k.Request()) {
		return nil
	}
	wire.LeaveBody(k)
	return &wire.RefusedError{Problem: wire.Problem{
		Code: wire.CodeMisdirected,
		Message: "the Host header does not name this service: call it at an address of --addr, " +
			"or start it with --auth-file or --insecure-no-auth",
	}}
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
	if host == "" || slices.ContainsFunc(names, func(n string) bool {
		return strings.EqualFold(n, host)
	}) {
		return true
	}
	_, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(host, "["), "]"))
	return err == nil
}

// Admit lets a request in if its token allows the route, no rate is exceeded, and the audit log can
// take its line. It runs before everything else, so a caller without a token cannot make the
// service read a body or take up a slot.
func (a *Access) Admit(r wire.Route, k *wire.Call) error {
	err := a.admit(r, k)
	if err == nil && a.Audit != nil && r.Audited(a.AuditReads) {
		k.StartAudit()
		err = a.MayAudit()
	}
	if err != nil {
		wire.LeaveBody(k)
	}
	return err
}

// admit checks the origin, the token and the rates of a request. It refuses requests that a browser
// sends for a page of another origin. Neither a loopback address nor client certificates stop
// those. Browsers ask for permission before they send JSON, but some routes take no body.
func (a *Access) admit(r wire.Route, k *wire.Call) error {
	if err := a.origins.Check(k.Request()); err != nil {
		return &wire.RefusedError{Problem: wire.Problem{
			Code: wire.CodeCrossOrigin, Message: "cross-origin request from a browser refused",
		}}
	}
	if a.Tokens != nil && len(r.Scopes) > 0 {
		token, err := a.Tokens.Check(k.Request().Header[echo.HeaderAuthorization])
		if err != nil {
			return unauthenticated(err)
		}
		k.Token = token
		if err := Allowed(token, "", r.Scopes...); err != nil {
			return err
		}
		if wait := token.Take(time.Now()); wait > 0 {
			return tooOften(wait, "the token")
		}
	}
	if a.Users == nil || !slices.Contains(k.ParamNames(), "user") {
		return nil
	}
	user, err := wire.PathID(k, "user")
	if err != nil {
		return nil //nolint:nilerr // the handler says what is wrong with it
	}
	return a.UserMay(user, 1)
}

// unauthenticated returns the refusal of a missing or invalid token, with the challenge of RFC
// 6750.
func unauthenticated(err error) error {
	challenge := `Bearer realm="feedfilter"`
	if !errors.Is(err, access.ErrNoToken) {
		challenge += `, error="invalid_token"`
	}
	return &wire.RefusedError{
		Problem:   wire.Problem{Code: wire.CodeUnauthenticated, Message: err.Error()},
		Challenge: challenge,
	}
}

// Allowed returns an error if the token has none of the scopes. field is the part of the request
// that needs the scope, "" for the route.
func Allowed(token *access.Token, field string, oneOf ...access.Scope) error {
	if token.Allows(oneOf...) {
		return nil
	}
	names := make([]string, len(oneOf))
	for i, s := range oneOf {
		names[i] = string(s)
	}
	return &wire.RefusedError{
		Problem: wire.Problem{
			Code:    wire.CodeForbidden,
			Field:   field,
			Message: "the token lacks the required scope: " + strings.Join(names, " or "),
		},
		Challenge: `Bearer realm="feedfilter", error="insufficient_scope", scope="` +
			strings.Join(names, " ") + `"`,
	}
}

// UserMay counts a request for a user as a number of calls: one for each user or list whose
// activities it reads. It returns an error if the user's rate is exceeded. Otherwise the request
// passes whole, and later ones wait.
func (a *Access) UserMay(user string, calls int) error {
	if wait := a.Users.Take(user, time.Now(), calls); wait > 0 {
		return tooOften(wait, "the user")
	}
	return nil
}

func tooOften(wait time.Duration, who string) error {
	return wire.Busy(wait, "rate limit of "+who+" exceeded")
}

// Pace counts lines of a stream as requests of its token, and waits until the rate allows them. It
// returns an error if the token is no longer valid, because a stream can outlive its token.
func (a *Access) Pace(k *wire.Call, lines int) error {
	if k.Token == nil {
		return nil
	}
	if wait := k.Token.Charge(time.Now(), lines); wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-k.Request().Context().Done():
			return k.Request().Context().Err()
		}
	}
	token, err := a.Tokens.Again(k.Token)
	if err != nil {
		return unauthenticated(err)
	}
	k.Token = token
	return Allowed(token, "", access.ActivityWrite)
}

// AccessStats are the counters of access control.
type AccessStats struct {
	Refused       map[string]uint64   `json:"refused"` // refused requests, by the code of their error
	TokenFile     *access.ReloadStats `json:"token_file,omitempty"`
	AuditFailures uint64              `json:"audit_failures"` // lost lines
}

// Stats returns the counters, with those of refused requests.
func (a *Access) Stats(refused map[string]uint64) AccessStats {
	stats := AccessStats{Refused: refused}
	if a.Tokens != nil {
		file := a.Tokens.Stats()
		stats.TokenFile = &file
	}
	if a.Audit != nil {
		stats.AuditFailures = a.Audit.Failures()
	}
	return stats
}
