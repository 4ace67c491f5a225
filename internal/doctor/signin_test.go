package doctor

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"testing"
)

// The user that doctor asks for may do what the Terraform module lets its user do, but for what is of no use.
func TestRuleIsTheModules(t *testing.T) {
	text, err := os.ReadFile("../../infra/terraform/access.tf")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("access_string = join("))
	text, _, _ = bytes.Cut(text, []byte("\n  ))"))
	commands := func(text string) []string {
		all := regexp.MustCompile(`\+[a-z|]+`).FindAllString(text, -1)
		slices.Sort(all)
		return slices.DeleteFunc(all, func(c string) bool { return c == "+client|setinfo" }) // Redis 7.0 does not know it
	}
	if got, want := commands(AccessRule("feed")), commands(string(text)); !slices.Equal(got, want) || len(want) < 20 {
		t.Errorf("doctor asks for %q, the module gives %q", got, want)
	}
}
