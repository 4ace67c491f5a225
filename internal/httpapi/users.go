package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/labstack/echo/v4"

	"github.com/feedfilter/feedfilter/internal/access"
)

// userCalls answers the calls about what users do.
type userCalls struct{ *service }

func (s userCalls) routes() []route {
	read, write := []access.Scope{access.FeedRead}, []access.Scope{access.ActivityWrite}
	all := []route{
		{http.MethodGet, "/v1/users/:user", s.withLedger("a count", s.user), read, false},
		{http.MethodDelete, "/v1/users/:user", s.withLedger("the deletion of a user", s.deleteUser), write, false},
		{http.MethodGet, "/v1/users/:user/export", s.withLedger("an export", s.export), read, false},
		{http.MethodPost, "/v1/users/:user/preview", s.withLedger("a preview", s.preview), read, false},
		{http.MethodPost, "/v1/activities", s.batch, write, false},
	}
	for _, k := range s.activities.Kinds().All() {
		list := "/v1/users/:user/" + k.Plural
		if !k.InLedger() {
			all = append(all, route{http.MethodPost, list, s.recordPosts(k), write, false})
			continue
		}
		one := list + "/:target"
		all = append(all,
			route{http.MethodGet, list, s.withLedger("a list", s.list(k)), read, false},
			route{http.MethodPut, one, s.record(k, false), write, false},
			route{http.MethodDelete, one, s.record(k, true), write, false})
	}
	return all
}

// deleteTimeout is how long the deletion of a user may take. A user whom hundreds of thousands of
// others have blocked is on every page, and each page must be rebuilt.
const deleteTimeout = 5 * time.Minute

type previewRequest struct {
	Kind    string   `json:"kind"`
	Targets []string `json:"targets"`
}

// previewAnswer has the fields of an [activity.Preview].
type previewAnswer struct {
	New     int     `json:"new"`
	Present int     `json:"present"`
	Total   int     `json:"total"`
	Limit   *uint32 `json:"limit"` // null: no limit
	Over    bool    `json:"over"`
}

// preview answers what recording some activities would change.
func (s userCalls) preview(c echo.Context) error {
	if _, err := query(c); err != nil {
		return err
	}
	user, err := pathID(c, "user")
	if err != nil {
		return err
	}
	var req previewRequest
	done, err := s.decode(c, &req)
	if err != nil {
		return err
	}
	defer done()
	switch {
	case req.Kind == "":
		return refuse(codeMissingField, "kind", "the kind is empty or missing")
	case req.Targets == nil:
		return refuse(codeMissingField, "targets", "the field is missing")
	}
	callOf(c).note("preview", "", user, "")
	ctx, cancel := s.bounded(c.Request().Context())
	defer cancel()
	p, err := s.recorder.Preview(ctx, user, req.Kind, req.Targets)
	if err != nil {
		return err
	}
	answer := previewAnswer{New: p.New, Present: p.Present, Total: p.Total, Over: p.Over}
	if p.Limit > 0 {
		answer.Limit = &p.Limit
	}
	return respond(c, http.StatusOK, answer)
}

type userAnswer struct {
	Counts map[string]int `json:"counts"` // of activities, by kind
}

// user answers with the number of activities of a user, by kind.
func (s userCalls) user(c echo.Context) error {
	user, err := bareUser(c)
	if err != nil {
		return err
	}
	counts, err := s.countsOf(c.Request().Context(), callOf(c), user)
	if err != nil {
		return err
	}
	return respond(c, http.StatusOK, userAnswer{counts}, json.Deterministic(true))
}

// countsOf returns the number of activities of a user, by kind.
func (s userCalls) countsOf(ctx context.Context, of *call, user string) (map[string]int, error) {
	of.note("count", "", user, "")
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.recorder.Counts(ctx, user)
}

type deleteAnswer struct {
	Deleted int `json:"deleted"` // activities, both of the user and about the user
}

// deleteUser removes every trace of a user. It may take up to deleteTimeout, whatever the timeouts
// of the service and its server. It ends when the client leaves; what it has removed stays removed.
// After an error, a timeout or a broken connection, the client repeats the request until it is
// answered 200. That answer counts only what the last attempt removed.
func (s userCalls) deleteUser(c echo.Context) error {
	user, err := bareUser(c)
	if err != nil {
		return err
	}
	callOf(c).note("delete_user", "", user, "")
	if err := takeTime(c, deleteTimeout+s.timeout); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), deleteTimeout)
	defer cancel()
	deleted, err := s.recorder.DeleteUser(ctx, user)
	if err != nil {
		return err
	}
	callOf(c).noteDeleted(deleted)
	return respond(c, http.StatusOK, deleteAnswer{deleted})
}

// takeTime extends the time for writing the answer beyond the server's write timeout. Read timeouts
// need no change: they end with the body, and the server still notices a client that leaves.
func takeTime(c echo.Context, d time.Duration) error {
	if err := supported(http.NewResponseController(c.Response().Writer).SetWriteDeadline(time.Now().Add(d))); err != nil {
		return fmt.Errorf("extend the write deadline: %w: %w", errGone, err)
	}
	return nil
}
