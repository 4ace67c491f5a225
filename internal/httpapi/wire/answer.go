package wire

import (
	"context"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	jsonv1 "github.com/go-json-experiment/json/v1"
	"github.com/labstack/echo/v4"
)

// Accepted is an answer with the status 202.
type Accepted struct{ Answer any }

// Respond answers with v as JSON.
func Respond(k *Call, v any) error {
	if accepted, ok := v.(Accepted); ok {
		return RespondAs(k, http.StatusAccepted, accepted.Answer)
	}
	return RespondAs(k, http.StatusOK, v)
}

// RespondAs answers with v as JSON and a status.
func RespondAs(k *Call, status int, v any) error {
	body, err := json.Marshal(v, json.Deterministic(true), jsonv1.FormatDurationAsNano(true))
	if err != nil {
		return fmt.Errorf("answer: %w", err)
	}
	return Send(k, status, TypeJSON, body)
}

// Send answers with body. It does not keep a reference to body.
func Send(k *Call, status int, mediaType string, body []byte) error {
	h := k.Response().Header()
	h.Set(echo.HeaderContentType, mediaType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(body)))
	k.Response().WriteHeader(status)
	if _, err := k.Response().Write(body); err != nil {
		return fmt.Errorf("answer: %w: %w", ErrGone, err)
	}
	return nil
}

// Answer returns the handler of a call without query parameters. do returns what is answered.
func Answer(do func(ctx context.Context, k *Call) (any, error)) Handler {
	return func(k *Call) error {
		if _, err := Query(k); err != nil {
			return err
		}
		answer, err := do(k.Request().Context(), k)
		if err != nil {
			return err
		}
		return Respond(k, answer)
	}
}

// Bare is Answer for a call without a body.
func Bare(do func(ctx context.Context, k *Call) (any, error)) Handler {
	return Answer(func(ctx context.Context, k *Call) (any, error) {
		if err := NoBody(k); err != nil {
			return nil, err
		}
		return do(ctx, k)
	})
}

// BareUser is Bare for a call about the user in the path.
func BareUser(do func(ctx context.Context, k *Call, user string) (any, error)) Handler {
	return Bare(func(ctx context.Context, k *Call) (any, error) {
		user, err := PathID(k, "user")
		if err != nil {
			return nil, err
		}
		return do(ctx, k, user)
	})
}
