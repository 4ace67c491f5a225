package settings

import (
	"regexp"
	"strings"
)

// Mask is what a password is shown as.
const Mask = "***"

// Masked returns text without the passwords of the URL that it may be: the one before the @ of its
// host, and parameters of its query whose names end in password. Where text is not quite a URL,
// Masked masks too much rather than too little.
func Masked(text string) string {
	text = regexp.MustCompile(`(?i)([?&][a-z_]*password=)[^&#]+`).ReplaceAllString(text, "${1}"+Mask)
	scheme, rest, _ := strings.Cut(text, "://")
	beforeQuery, _, _ := strings.Cut(rest, "?")
	password := regexp.MustCompile(`^([^:@]*):.*@`)
	hosts := regexp.MustCompile(`^[^:@/?#]*(:\d*)?(,[^:@/?#]*(:\d*)?)*([/?#]|$)`)
	masked := password.ReplaceAllString(beforeQuery, "${1}:"+Mask+"@")
	switch {
	case masked != beforeQuery:
		return scheme + "://" + masked + rest[len(beforeQuery):]
	case !hosts.MatchString(rest): // the password may have a ? in it
		return scheme + "://" + password.ReplaceAllString(rest, "${1}:"+Mask+"@")
	}
	return text
}
