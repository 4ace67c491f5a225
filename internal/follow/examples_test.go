package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/internal/kindfile"
)

// The files of examples/follow need no more SQL than their own, and rows give what their README
// says: those there before the start, and those that change afterwards.
func TestExamples(t *testing.T) {
	for name, app := range map[string]struct{ before, after, first, then string }{
		"own": {
			`INSERT INTO blocks VALUES (1, 2);
			INSERT INTO hides (user_id, post_id, expires_at, deleted_at) VALUES (1, 7, NULL, NULL), (1, 8, now() + interval '1 day', NULL),
				(1, 9, now() - interval '1 day', NULL), (1, 10, NULL, now());
			INSERT INTO list_members VALUES (7, 3, 'accepted'), (7, 4, 'proposed')`,
			`DELETE FROM blocks; UPDATE hides SET deleted_at = now() WHERE post_id = 7; UPDATE list_members SET state = 'accepted'`,
			"block 1 2, block list:7 3, hide 1 7, hide 1 8 until",
			"block list:7 3, block list:7 4, hide 1 8 until",
		},
		"mastodon": {
			`INSERT INTO blocks (created_at, updated_at, account_id, target_account_id) VALUES (now(), now(), 1, 2);
			INSERT INTO mutes (created_at, updated_at, account_id, target_account_id, expires_at, hide_notifications)
				VALUES (now(), now(), 1, 3, NULL, false), (now(), now(), 1, 4, now() + interval '1 day', true), (now(), now(), 1, 5, now() - interval '1 day', true);
			INSERT INTO account_domain_blocks (created_at, updated_at, account_id, domain) VALUES (now(), now(), 1, 'bad.example'), (now(), now(), NULL, 'x.example')`,
			`UPDATE mutes SET expires_at = NULL, hide_notifications = true WHERE target_account_id = 4; DELETE FROM mutes WHERE target_account_id = 3; DELETE FROM account_domain_blocks`,
			"block 1 2, domain-block 1 bad.example, mute 1 3, mute 1 4 until",
			"block 1 2, mute 1 4",
		},
		"lemmy": {
			`INSERT INTO person_actions (person_id, target_id, blocked_at, followed_at) VALUES (1, 2, now(), NULL), (1, 3, NULL, now());
			INSERT INTO community_actions (person_id, community_id, blocked_at, followed_at) VALUES (1, 20, now(), NULL), (1, 21, NULL, now());
			INSERT INTO instance_actions (person_id, instance_id, blocked_communities_at, blocked_persons_at) VALUES (1, 30, now(), NULL), (1, 31, now(), now())`,
			`UPDATE person_actions SET blocked_at = now() WHERE target_id = 3; UPDATE person_actions SET blocked_at = NULL WHERE target_id = 2;
			UPDATE instance_actions SET blocked_communities_at = NULL; DELETE FROM community_actions WHERE community_id = 21`,
			"author-instance-block 1 31, community-block 1 20, instance-block 1 30, instance-block 1 31, person-block 1 2, subscription 1 21",
			"author-instance-block 1 31, community-block 1 20, person-block 1 3",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := func(end string) []byte {
				text, err := os.ReadFile("../../examples/follow/" + name + end)
				if !errors.Is(err, fs.ErrNotExist) {
					must(t, err)
				}
				return text
			}
			kinds := activity.BuiltinKinds()
			if text := file(".kinds.json"); text != nil {
				var err error
				kinds, err = kindfile.Parse(text)
				must(t, err)
			}
			a := newAppOf(t, string(file(".sql")), string(file(".json")), kinds)
			f := a.follower("one")
			f.options.Create = false
			a.exec(app.before)
			a.start(f)
			want := func(what, want string) {
				t.Helper()
				a.reached()
				var all []string
				must(t, a.recorder.Export(t.Context(), "", func(x activity.Activity) error {
					end := ""
					if !x.Until.IsZero() {
						end = " until"
					}
					all = append(all, fmt.Sprint(x.Kind, " ", x.User, " ", x.Target, end))
					return nil
				}))
				slices.Sort(all)
				if got := strings.Join(all, ", "); got != want {
					t.Errorf("%s:\n%s, want\n%s", what, got, want)
				}
			}
			want("rows at the start", app.first)
			a.exec(app.after)
			want("rows that have changed", app.then)
		})
	}
}
