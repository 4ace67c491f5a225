package rest_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/httpapi"
	"github.com/feedfilter/feedfilter/internal/httpapi/httpapitest"
	feedfilterv1 "github.com/feedfilter/feedfilter/proto/feedfilter/v1"
	"github.com/feedfilter/feedfilter/proto/feedfilter/v1/feedfilterv1connect"
)

// paged is a call that answers with a part of a list.
type paged struct {
	list string // equal for calls that answer with the same list
	// ask returns what is listed, the cursor of the next part, and the error's code and field.
	ask func(cursor string) (items []string, next, problem string)
}

// pagedCalls returns every paged call about two users, by JSON and by gRPC.
func pagedCalls(t *testing.T, s *httpapitest.Service) (all []paged) {
	t.Helper()
	call := httpapitest.Invokers(t, httpapitest.ServeBoth(t, s))["Connect"]
	add := func(user string, k activity.Kind, incoming bool, name string) {
		list, path := fmt.Sprint(user, " ", k.Name, " ", incoming), "/v1/users/"+user+"/"+name
		if incoming {
			path = "/v1/targets/" + user + "/" + name
		}
		all = append(all, paged{list, func(cursor string) (items []string, next, problem string) {
			a := s.Do(t, "GET", path+"?limit=1&cursor="+url.QueryEscape(cursor), "")
			if a.Status != http.StatusOK {
				return nil, "", fmt.Sprint(a.Status, " ", a.Code, " of ", a.Field)
			}
			values, _ := a.JSON["items"].([]any)
			for _, item := range values {
				of, _ := item.(map[string]any)
				items = append(items, fmt.Sprint(of["target"], of["user"]))
			}
			next, _ = a.JSON["next"].(string)
			return items, next, ""
		}}, paged{list, func(cursor string) (items []string, next, problem string) {
			var part feedfilterv1.ListResponse
			request := &feedfilterv1.ListRequest{User: user, Plural: name, Limit: 1, Cursor: cursor, Incoming: incoming}
			if err := call(t.Context(), feedfilterv1connect.ActivityServiceListProcedure, request, &part); err != nil {
				_, detail := httpapitest.DetailOf(t, err)
				return nil, "", fmt.Sprint(detail.GetHttpStatus(), " ", detail.GetCode(), " of ", detail.GetField())
			}
			for _, item := range part.GetItems() {
				items = append(items, item.GetTarget()+item.GetUser())
			}
			return items, part.GetNext(), ""
		}})
	}
	for _, k := range s.Activities.Kinds().All() {
		if !k.InLedger() {
			continue
		}
		for _, of := range [][2]string{{"1", k.Name}, {"1", k.Plural}, {"2", k.Plural}} {
			add(of[0], k, false, of[1])
			if k.Target == activity.User {
				add(of[0], k, true, of[1])
			}
		}
	}
	return all
}

// TestCursors: a cursor leads to the next part of the list that returned it, in whichever way that
// list is asked for. Every other list refuses it, and all refuse one that is cut off or changed.
func TestCursors(t *testing.T) {
	const invalid = "400 invalid_cursor of cursor"
	s := httpapitest.NewService(t, httpapi.Config{}, httpapitest.KindsWith(t,
		activity.Kind{Name: "mute", Plural: "mutes", Target: activity.User, Effect: activity.Drop},
		activity.Kind{Name: "follow", Plural: "follows", Target: activity.User, Effect: activity.Annotate, Fanout: true},
		activity.Kind{Name: "domain-mute", Plural: "domain-mutes", Target: "domain", Effect: activity.Drop}))
	for _, k := range s.Activities.Kinds().All() {
		for _, other := range []string{"5", "6", "7"} {
			for _, user := range []string{"1", "2"} {
				if k.InLedger() {
					s.Want(t, "PUT", "/v1/users/"+user+"/"+k.Plural+"/"+other, "", 200, httpapitest.Yes)
				}
				if k.InLedger() && k.Target == activity.User {
					s.Want(t, "PUT", "/v1/users/"+other+"/"+k.Plural+"/"+user, "", 200, httpapitest.Yes)
				}
			}
		}
	}
	calls := pagedCalls(t, s)
	for _, from := range calls {
		first, cursor, problem := from.ask("")
		if len(first) != 1 || cursor == "" || problem != "" {
			t.Fatalf("first part of list %s: %v, %q, %s", from.list, first, cursor, problem)
		}
		for _, to := range calls {
			items, _, problem := to.ask(cursor)
			if same := from.list == to.list; same != (problem == "") || !same && problem != invalid {
				t.Errorf("cursor of list %s for list %s: %v, %q", from.list, to.list, items, problem)
			} else if same && (len(items) != 1 || items[0] == first[0]) {
				t.Errorf("list %s has %v after %v", to.list, items, first)
			}
		}
		for end := 1; end < len(cursor); end++ {
			if items, _, problem := from.ask(cursor[:end]); problem != invalid {
				t.Errorf("%d of %d characters of a cursor of list %s: %v, %q", end, len(cursor), from.list, items, problem)
			}
		}
		for i := range cursor {
			changed := []byte(cursor)
			changed[i] = 'A' + (changed[i]-'A'+1)%26
			if items, _, problem := from.ask(string(changed)); string(changed) != cursor && problem != invalid {
				t.Errorf("cursor of list %s with another character %d: %v, %q", from.list, i, items, problem)
			}
		}
	}
}
