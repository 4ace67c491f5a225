package main

import (
	"path/filepath"
	"testing"

	"github.com/feedfilter/feedfilter/internal/redistest"
)

// Files and sets have phrases as people type them. The ledger, exports and differences have their
// canonical form.
func TestPhrases(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) (file string) {
		file = filepath.Join(dir, name)
		writeFile(t, file, text)
		return file
	}
	data := []string{"--data-dir", filepath.Join(dir, "data"), "--pages=4", "--kinds", write("kinds.json",
		`{"facets":{"phrase":{"text":true}},"kinds":[{"name":"word-mute","target":"phrase","effect":"drop","fanout":true}]}`)}
	with := func(args ...string) []string { return append(args, data...) }

	lines := write("lines.csv", "user,kind,target,op\n"+
		"1,word-mute,Climate Change,add\n1,word-mutes,Spoilers!,add\n1,word-mute,!?,add\n1,word-mute,SPOILERS,remove\n")
	wantContains(t, feedfilter(t, 1, with("import", lines)...).stderr,
		"lines.csv:4: target: not a phrase: no word in it\n", "2 activities before line 4 are imported")
	wantContains(t, feedfilter(t, 0, with("import", "--on-error=skip", lines)...).stdout, "imported 3 activities (3 changed, 1 skipped)")

	sync := with("import", "--sync", "--user=1", "--kind=word-mute", write("bad.txt", "CLIMATE—Change\n#Go\n##\n"))
	wantContains(t, feedfilter(t, 1, sync...).stderr, "bad.txt:3: target: not a phrase: no word in it; nothing was changed")
	sync = with("import", "--sync", "--user=1", "--kind=word-mute", write("good.txt", "CLIMATE—Change\n#Go\n"))
	wantContains(t, feedfilter(t, 0, sync...).stdout, "added 1, updated 0, removed 0, unchanged 1")

	exported := feedfilter(t, 0, with("export", "--kind=word-mutes")...).stdout
	wantContains(t, exported, `"target":"climate change"`, `"target":"#go"`)
	wantContains(t, feedfilter(t, 0, with("import", write("all.ndjson", exported))...).stdout, "imported 2 activities (0 changed")

	running := serve(t, data...)
	address := "http://" + running.addr()
	sync = []string{
		"import", "--sync", "--user=1", "--kind=word-mute", "--max-removed=1", "--server", address,
		write("list.txt", "Climate change?\n選挙\n"),
	}
	if plan, want := feedfilter(t, 0, append(sync, "--dry-run")...).stdout, `{"user":"1","kind":"word-mute","target":"#go","op":"remove"}
{"user":"1","kind":"word-mute","target":"選挙","op":"add"}
`; plan != want {
		t.Errorf("it would change\n%s, want\n%s", plan, want)
	}
	wantContains(t, feedfilter(t, 0, sync...).stdout, "added 1, updated 0, removed 1, unchanged 1")

	server := redistest.Start(t)
	server.Client().SAdd(t.Context(), "words:1", "Climate Change", "#Go", "!?")
	from := []string{"--server", address, "--from", server.URL(), "--keys", "words:{user}", "--kind", "word-mute"}
	differ := feedfilter(t, 1, append([]string{"compare", "sets", "--settle=0s"}, from...)...)
	wantContains(t, differ.stderr, "compared 2 activities of 1 users", "missing   1", "extra     1", "invalid   1")
	if want := `{"user":"1","kind":"word-mute","target":"#go","op":"add"}
{"user":"1","kind":"word-mute","target":"選挙","op":"remove"}
`; differ.stdout != want {
		t.Errorf("the differences are\n%s, want\n%s", differ.stdout, want)
	}
	imported := feedfilter(t, 0, append([]string{"import", "sets"}, from...)...)
	wantContains(t, imported.stdout, "imported 3 members of 1 sets (1 changed, 0 undone meanwhile, 1 skipped)")
	wantContains(t, imported.stderr, `target "!?" cannot be recorded: target: not a phrase: no word in it`)
}
