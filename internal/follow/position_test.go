package follow

import (
	"strings"
	"testing"

	"github.com/feedfilter/feedfilter/activity"
	"github.com/feedfilter/feedfilter/activity/ledger"
)

// A position is read as it was written. Any other text is none.
func TestPosition(t *testing.T) {
	for _, text := range []ledger.Position{
		"00000001:0/16B3748 tables=1f2e3d4c catalog=2a system=7431 last=0/16B3700,742,1732839933000000",
		"0000000A:A/1 tables=x catalog=ffffffffffffffff system=1 last=A/0,4294967295,-1 part=10000@A/C",
		"00000001:0/16B3748 tables=1f2e3d4c catalog=2a system=7431 last=0/16B3700,742,1732839933000000 audited=1732839900 part=1@A/C",
	} {
		if p, ok := parsePosition(text); !ok || p.text() != text {
			t.Errorf("%q: %q, %v", text, p, ok)
		}
	}
	const whole = "00000001:0/16B3748 tables=1f2e3d4c catalog=2a system=7431 last=0/16B3700,742,1732839933000000"
	for _, text := range []string{
		"", "0/1", "x y", "0/16B3748 1f2e3d4c", " " + whole, whole + " ", whole + " part=@0/2", whole + " part=5@", whole + " part=a@0/2", whole + " more=1",
		whole + " audited=", whole + " audited=0", whole + " audited=x", whole + " part=1@0/2 audited=1",
		strings.Replace(whole, "742,", "", 1), strings.Replace(whole, "2a", "2A", 1), strings.Replace(whole, "tables", "table", 1),
		strings.Replace(whole, " last", "  last", 1), strings.Replace(whole, "742", "4294967296", 1),
	} {
		if p, ok := parsePosition(ledger.Position(text)); ok {
			t.Errorf("%q is read as %q", text, p)
		}
	}
}

// Files that map rows differently have different fingerprints, whatever the source says of tables.
func TestFingerprint(t *testing.T) {
	seen := make(map[string]string)
	for _, changed := range []string{
		"", `"blocker_id" "x"`, `"created_at" "x"`, `"public.blocks" "public.x"`, `"deleted_at" "x"`, `"expires_at" "x"`, `"accepted" "x"`, `"list:{list_id}" "l:{list_id}"`,
	} {
		file := apps
		if old, now, found := strings.Cut(changed, " "); found {
			file = strings.Replace(apps, old, now, 1)
		}
		all, err := ParseTables([]byte(file), activity.BuiltinKinds())
		must(t, err)
		text := all.fingerprint(activity.BuiltinKinds())
		if other, found := seen[text]; found {
			t.Errorf("the same fingerprint for %q and %q", changed, other)
		}
		seen[text] = changed
		all[0].partitioned = true
		if all.fingerprint(activity.BuiltinKinds()) != text {
			t.Error("another fingerprint for a partitioned table")
		}
	}
}

// TestFingerprintIsStable: positions in ledgers have these fingerprints. If one changes,
// deployments read their sources again after an upgrade. Another JSON library computed them.
func TestFingerprintIsStable(t *testing.T) {
	mutes, err := activity.NewKinds(activity.Kind{Name: "mute", Plural: "mutes", Target: "word", Effect: activity.Drop, Fold: activity.FoldCase})
	must(t, err)
	for _, c := range []struct {
		file  string
		kinds *activity.Kinds
		want  string
	}{
		{apps, activity.BuiltinKinds(), "6c1f0e11"},
		{`{"tables": [{"table": "mutes", "kind": "mute", "user": "user_id", "target": "word"}]}`, mutes, "df47057f"},
	} {
		all, err := ParseTables([]byte(c.file), c.kinds)
		must(t, err)
		if text := all.fingerprint(c.kinds); text != c.want {
			t.Errorf("the fingerprint is %s, want %s, of %s", text, c.want, c.file)
		}
	}
}

// TestFingerprintOfFolds: with a later form of a fold, tables are read again. With others, the
// fingerprint is that of earlier versions, so that an upgrade reads nothing again.
func TestFingerprintOfFolds(t *testing.T) {
	seen := make(map[string]activity.Fold)
	for _, fold := range []activity.Fold{activity.AsIs, activity.FoldLower, activity.FoldDomain, activity.FoldCase, activity.FoldHost} {
		kinds, err := activity.NewKinds(activity.Kind{Name: "mute", Plural: "mutes", Target: "word", Effect: activity.Drop, Fold: fold})
		must(t, err)
		all, err := ParseTables([]byte(`{"tables": [{"table": "mutes", "kind": "mute", "user": "user_id", "target": "word"}]}`), kinds)
		must(t, err)
		text := all.fingerprint(kinds)
		other, found := seen[text]
		if later := fold == activity.FoldCase || fold == activity.FoldHost; found == later && fold != activity.AsIs {
			t.Errorf("%q has the fingerprint %s, as %q", fold, text, other)
		}
		seen[text] = fold
	}
}
