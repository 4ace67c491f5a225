package integration

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/feedfilter/feedfilter/internal/awstest"
	"github.com/feedfilter/feedfilter/internal/redistest"
)

// TestIAM runs the service on a cache that requires IAM. The cache accepts only tokens that were
// signed for the connection, and closes all connections repeatedly. No request may fail, and no
// answer may be wrong. The user has the rights that the Terraform module grants.
func TestIAM(t *testing.T) {
	const user, password = "feed-user", "of the server alone"
	server := redistest.Start(t)
	rule := []any{"ACL", "SETUSER", user, ">" + password}
	for _, word := range accessString(t) {
		rule = append(rule, word)
	}
	for _, command := range [][]any{rule, {"ACL", "SETUSER", "default", "off"}} {
		must(t, server.Client().Do(t.Context(), command...).Err())
	}
	front := awstest.StartFront(t, "feed", false, server.Addr(), user, password)
	a := awstest.Start(t)
	a.PutGroup("feed", awstest.Group{TLS: true, Addr: front.Addr(), Reader: front.Addr()})
	a.Use(t)
	t.Setenv("SSL_CERT_FILE", front.CAFile(t))
	s := serve(t, "--data-dir", t.TempDir(), "--pages", "16", "--redis", "elasticache://feed?user="+user+"&reader=true")
	s.logOnFailure()

	const workers, cuts = 6, 10
	var done atomic.Bool
	var feeds, degraded atomic.Int64
	var running sync.WaitGroup
	for w := range workers {
		running.Go(func() {
			viewer := fmt.Sprint("u", w)
			for i := 0; !done.Load() && !t.Failed(); i++ {
				hidden, shown := fmt.Sprint("p", i), fmt.Sprint("q", i)
				if _, err := s.put(viewer, "hides", hidden, false); err != nil {
					t.Errorf("hide: %v", err)
				}
				f, err := s.feed(feedRequest{Viewer: viewer, Posts: []post{{ID: hidden, Author: "a"}, {ID: shown, Author: "a"}}})
				if err != nil || len(f.Dropped) == 0 || f.Dropped[0].ID != hidden {
					t.Errorf("feed with %s hidden: %+v, %v", hidden, f, err)
				}
				feeds.Add(1)
				degraded.Add(int64(len(f.Degraded)))
			}
		})
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range cuts {
		for before := feeds.Load(); !t.Failed() && feeds.Load() < before+100; {
			<-tick.C
		}
		front.Cut()
	}
	done.Store(true)
	running.Wait()
	denied, err := server.Client().Do(t.Context(), "ACL", "LOG").Slice()
	for _, entry := range denied {
		if text := fmt.Sprint(entry); !strings.Contains(text, "client|setinfo") {
			t.Errorf("denied: %s", text)
		}
	}
	if err != nil {
		t.Error(err)
	}
	taken, refused := front.SignIns()
	t.Logf("%d feeds, %d cuts, %d connections, %d kinds degraded", feeds.Load(), cuts, taken, degraded.Load())
	if taken < 2*cuts || len(refused) > 0 {
		t.Errorf("%d tokens were accepted, these were refused: %v", taken, refused)
	}
}

// accessString returns the rights that the Terraform module grants to the user of a cache, without
// a command that Redis 7.0 does not have.
func accessString(t *testing.T) (words []string) {
	t.Helper()
	text, err := os.ReadFile("../infra/terraform/access.tf")
	must(t, err)
	_, text, _ = bytes.Cut(text, []byte("access_string = join("))
	text, _, _ = bytes.Cut(text, []byte("\n  ))"))
	for _, quoted := range regexp.MustCompile(`"[^" ]+"`).FindAllString(string(text), -1) {
		words = append(words, strings.Trim(quoted, `"`))
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == "+client|setinfo" })
	if len(words) < 20 || words[0] != "on" {
		t.Fatalf("unexpected access string in access.tf: %q", words)
	}
	return words
}
