package client_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/feedfilter/feedfilter/client"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
)

// TestKeptFromDropped: in both forms, the service is asked for the dropped posts alone, and the
// client adds the kept ones.
func TestKeptFromDropped(t *testing.T) {
	mark := func(like, save bool) map[string]bool { return map[string]bool{"like": like, "save": save} }
	want := client.Feed{
		Posts: []client.Kept{
			{ID: "p0", Marks: mark(true, false)}, {ID: "p2", Marks: mark(false, false)}, {ID: "p4", Marks: mark(true, true)},
		},
		Dropped: []client.Dropped{{ID: "p1", Kind: "hide"}, {ID: "p3", Kind: "block", Actor: "2"}},
		Next:    5, Degraded: []client.Degraded{},
	}
	message := messageText(&feedfilterv1.FilterResponse{
		Dropped:   []*feedfilterv1.Dropped{{Index: 1, Kind: "hide"}, {Index: 3, Kind: "block", Actor: "2"}},
		Annotated: []*feedfilterv1.Annotated{{Kind: "like", Posts: []uint32{0, 4}}, {Kind: "save", Posts: []uint32{4}}},
		Next:      5,
	})
	const body = `{"dropped":[{"index":1,"kind":"hide"},{"index":3,"kind":"block","actor":"2"}],` +
		`"annotated":{"like":[0,4],"save":[4]},"next":5,"degraded":[]}`
	for _, answer := range []string{"", client.AnswerKept} {
		req := client.FilterRequest{Viewer: "1", Annotate: []string{"like", "save"}, Limit: 3, Answer: answer}
		for i := range 7 {
			req.Posts = append(req.Posts, client.Post{ID: fmt.Sprint("p", i), Author: "2"})
		}
		messages, _ := overMessages(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
			var asked feedfilterv1.FilterRequest
			if text, err := io.ReadAll(r.Body); err != nil || proto.Unmarshal(text, &asked) != nil ||
				asked.GetAnswer() != feedfilterv1.Answer_ANSWER_DROPPED {
				t.Errorf("answer %q: the message asks for %v, %v", answer, asked.GetAnswer(), err)
			}
			return answered(r, 200, message, "Content-Type", typeMessage), nil
		})
		jsons, _ := over(t, client.Options{}, func(r *http.Request, _ int) (*http.Response, error) {
			if text, err := io.ReadAll(r.Body); err != nil || !strings.Contains(string(text), `"answer":"dropped"`) {
				t.Errorf("answer %q: JSON asks for %s, %v", answer, text, err)
			}
			return answered(r, 200, body), nil
		})
		for form, c := range map[string]*client.Client{"messages": messages, "JSON": jsons} {
			if got, err := c.Filter(t.Context(), req); err != nil || fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
				t.Errorf("answer %q, %s: %v\n%#v, want\n%#v", answer, form, err, got, want)
			}
		}
	}
}
