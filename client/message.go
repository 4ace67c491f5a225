package client

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// typeMessage is the media type of a message in the Connect protocol. Each call is a POST of one
// message.
const typeMessage = "application/proto"

const (
	feedService     = "feedfilter.v1.FeedService"
	activityService = "feedfilter.v1.ActivityService"
)

// procedure is a call in the form of a message.
type procedure struct {
	path   string
	encode func() ([]byte, error)
	decode func(text []byte) error
}

// procedureOf returns a procedure of a service. The answer is read into response, and done then
// sets the result of the call.
func procedureOf[Response proto.Message](
	service, name string, request proto.Message, response Response, done func(Response),
) *procedure {
	return &procedure{
		path:   "/" + service + "/" + name,
		encode: func() ([]byte, error) { return proto.Marshal(request) },
		decode: func(text []byte) error {
			if err := proto.Unmarshal(text, response); err != nil {
				return err
			}
			done(response)
			return nil
		},
	}
}

// errNotOffered is the error of a service without procedures, such as an older version. The call
// had no effect.
var errNotOffered = errors.New("the service does not accept messages")

// messageFailure reads an error answer. An answer without an ErrorDetail is not from a procedure.
// Most of these mean that the service has no procedures.
func (c *Client) messageFailure(res *http.Response) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, min(maxErrorBytes, c.o.MaxAnswerBytes)))
	if err == nil {
		if detail := detailOf(text); detail != nil {
			e := &Error{
				Status:     int(detail.GetHttpStatus()),
				Code:       detail.GetCode(),
				Message:    detail.GetMessage(),
				Field:      detail.GetField(),
				Limit:      detail.GetLimit(),
				RetryAfter: retryAfter(res.Header.Get("Retry-After")),
				RequestID:  res.Header.Get("X-Request-ID"),
			}
			return fmt.Errorf("%s: %w", where(res), e)
		}
	}
	others := []int{
		http.StatusUnauthorized, http.StatusForbidden, http.StatusProxyAuthRequired,
		http.StatusRequestTimeout, http.StatusTooManyRequests,
	}
	// Some proxies answer messages with a 400 of their own. A bare 400 in plain text is no answer to
	// the message: see [Error.retryable].
	bare := res.StatusCode == http.StatusBadRequest && typed(res, "text/plain") == nil
	if res.StatusCode/100 == 4 && !bare && !slices.Contains(others, res.StatusCode) {
		return errNotOffered
	}
	res.Body = io.NopCloser(bytes.NewReader(text))
	return c.failure(res)
}

// detailOf returns the ErrorDetail of a Connect error; nil if there is none.
func detailOf(text []byte) *feedfilterv1.ErrorDetail {
	var answer struct {
		Details []struct {
			Type  string `json:"type"`
			Value string `json:"value"`
		} `json:"details"`
	}
	if json.Unmarshal(text, &answer) != nil {
		return nil
	}
	for _, d := range answer.Details {
		if d.Type != "feedfilter.v1.ErrorDetail" {
			continue
		}
		value, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(d.Value, "="))
		detail := new(feedfilterv1.ErrorDetail)
		if err == nil && proto.Unmarshal(value, detail) == nil && detail.GetCode() != "" {
			return detail
		}
	}
	return nil
}

// prepared holds the encoded body of a call in each form that an attempt needed.
type prepared [2][]byte

// in returns the body in a form; nil if the call has no body.
func (p *prepared) in(form form, call *call) (body []byte, err error) {
	switch {
	case p[form] != nil:
		return p[form], nil
	case form == asMessage:
		body, err = call.procedure.encode()
	case call.encode != nil:
		body, err = call.encode()
	case call.body != nil:
		body, err = json.Marshal(call.body, json.Deterministic(true))
	}
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w: %w", ErrInvalid, err)
	}
	p[form] = body
	return body, nil
}

// stamp returns a time as a message; nil for the zero time.
func stamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// timeOf returns the time in a message; the zero time for nil.
func timeOf(t *timestamppb.Timestamp) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.AsTime()
}

// op returns the enum value of an op.
func op(name string) feedfilterv1.Op {
	switch name {
	case Add:
		return feedfilterv1.Op_OP_ADD
	case Remove:
		return feedfilterv1.Op_OP_REMOVE
	case "":
		return feedfilterv1.Op_OP_UNSPECIFIED
	default:
		return -1 // the service refuses it
	}
}

// resultOf returns the result of one activity.
func resultOf(r *feedfilterv1.Result) Result {
	if d := r.GetError(); d != nil {
		return Result{
			Err: &Error{
				Code:    d.GetCode(),
				Message: d.GetMessage(),
				Field:   d.GetField(),
				Limit:   d.GetLimit(),
			},
		}
	}
	return Result{Changed: r.GetChanged()}
}

// degradedOf returns the kinds that could not be checked, never nil.
func degradedOf(all []*feedfilterv1.Degraded) []Degraded {
	kinds := make([]Degraded, len(all))
	for i, d := range all {
		kinds[i] = Degraded{Kind: d.GetKind(), Reason: d.GetReason()}
	}
	return kinds
}
