package client_test

import (
	"errors"
	"net/http"
	"testing"

	"github.com/feedfilter/feedfilter/client"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// TestPathsBehindProxy: a service may be below a path of a proxy. Ids keep their form.
func TestPathsBehindProxy(t *testing.T) {
	for want, mediaType := range map[string]string{
		"/feed%2Ffilter/v1/users/a%2Fb/hide/c":                "application/json",
		"/feed%2Ffilter/feedfilter.v1.ActivityService/Record": typeMessage,
	} {
		var got string
		n := network(func(r *http.Request, _ int) (*http.Response, error) {
			got = r.URL.RequestURI()
			body := `{"changed":true}`
			if mediaType == typeMessage {
				body = messageText(&feedfilterv1.RecordResponse{Changed: true})
			}
			return answered(r, 200, body, "Content-Type", mediaType), nil
		})
		o := client.Options{HTTPClient: &http.Client{Transport: &counted{network: n}}, JSON: mediaType != typeMessage}
		service := newClient(t, "http://proxy/feed%2Ffilter/", o)
		if _, err := service.Delete(t.Context(), "a/b", client.Hide, "c"); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	}
}

// TestErrorsOfProxies: an error answer that is not from the service has the text of its status.
func TestErrorsOfProxies(t *testing.T) {
	service, _ := over(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
		return answered(r, 403, `{"message":"Forbidden"}`), nil
	})
	_, err := service.Kinds(t.Context())
	if e, ok := errors.AsType[*client.Error](err); !ok || e.Status != 403 || e.Message != "Forbidden" || !errors.Is(err, client.ErrForeign) {
		t.Errorf("%v", err)
	}
}

// TestReady: "cannot answer feeds" is an answer, although its status is an error elsewhere.
func TestReady(t *testing.T) {
	for _, status := range []int{200, 503} {
		service, asked := over(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
			return answered(r, status, `{"status":"unavailable","down":[{"dependency":"ledger","reason":"x"}]}`), nil
		})
		ready, err := service.Ready(t.Context())
		if err != nil || ready.Answers() || len(ready.Down) != 1 || asked.asked.Load() != 1 {
			t.Errorf("%d: %+v, %v after %d attempts", status, ready, err, asked.asked.Load())
		}
	}
}
