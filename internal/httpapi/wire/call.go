package wire

import (
	"container/list"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/access"
)

// Call is a request and what the service knows about it. One goroutine uses it at a time.
type Call struct {
	echo.Context

	Token  *access.Token // nil: the request needs no token, or has none
	Failed error         // the error that was answered, if the handler returned none

	// Guest is the place of a request that no budget counts; nil: it has none. Only package limits
	// uses it.
	Guest *list.Element

	audit *audited // nil: the request is not audited
}

// CallOf returns the call behind the context c.
func CallOf(c echo.Context) *Call {
	k, ok := c.(*Call)
	if !ok { // the first middleware makes a Call of every request
		panic(fmt.Sprintf("a request is a %T", c))
	}
	return k
}

// TokenName returns the name of the call's token, "" without one.
func (k *Call) TokenName() string {
	if k.Token == nil {
		return ""
	}
	return k.Token.Name
}

// RequestID returns the id of the request, which is in its answer, too.
func (k *Call) RequestID() string { return k.Response().Header().Get(echo.HeaderXRequestID) }

// Method returns the method of the request for logs, or "OTHER" for unknown methods, which can be
// any text.
func (k *Call) Method() string {
	switch method := k.Request().Method; method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions:
		return method
	default:
		return "OTHER"
	}
}

// Handler answers a call, or returns the error that is answered.
type Handler func(k *Call) error

// Route is one method of one path, and who may use it.
type Route struct {
	Method, Path string
	Handle       Handler

	// Scopes: a token needs one of them. None: the route needs no token.
	Scopes []access.Scope
	// Free routes do not count as requests in progress, because they matter most under overload.
	Free bool
	// Audit says when requests are audited. Those that write always are.
	Audit Audit
}

// Audit says when requests of a route that writes nothing are audited.
type Audit uint8

// When requests are audited.
const (
	AuditUsers  Audit = iota // with reads, if the path has a user
	AuditReads               // with reads: the route tells what users have done
	AuditAlways              // the route explains or inspects
)

// Audited reports whether requests of the route are audited. With reads, those that tell what users
// have done are.
func (r Route) Audited(reads bool) bool {
	writes := r.Method != http.MethodGet && slices.ContainsFunc(r.Scopes, func(s access.Scope) bool {
		return s == access.ActivityWrite || s == access.OpsWrite || s == access.SourceWrite
	})
	return writes || r.Audit == AuditAlways || reads && (r.Audit == AuditReads || strings.Contains(r.Path, ":user"))
}
