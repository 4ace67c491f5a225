package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
)

// maxAnswerBytes is the length of the longest answer that is read of a service.
const maxAnswerBytes = 4 << 20

// remote is a service that runs elsewhere and is asked over HTTP.
type remote struct {
	address string
	client  clientFlags
}

// ask sends a request to a route of the service, with a query if need be, and reads the answer, which is JSON. Where the service
// says what is wrong, that is the error.
func (s remote) ask(ctx context.Context, method, route, body string, into any) error {
	u, err := serviceURL(s.address)
	if err != nil {
		return err
	}
	path, query, _ := strings.Cut(route, "?")
	u = u.JoinPath(path)
	u.RawQuery = query
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, u.String(), strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if err := s.client.authorize(req); err != nil {
		return err
	}
	resp, err := directly().Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	u.RawQuery = ""
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswerBytes))
	if err != nil {
		return fmt.Errorf("%s: %w", u, err)
	}
	if resp.StatusCode < http.StatusMultipleChoices {
		if err := json.Unmarshal(text, into); err == nil {
			return nil
		}
	}
	var answer struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(text, &answer); err == nil && answer.Error.Message != "" {
		return fmt.Errorf("%s: %s", u, answer.Error.Message)
	}
	return fmt.Errorf("%s: answered %s, and not as feedfilter does", u, resp.Status)
}

// segment is an id as a part of a path: also one of dots, which would be taken for a place.
func segment(id string) string { return strings.ReplaceAll(url.PathEscape(id), ".", "%2E") }
