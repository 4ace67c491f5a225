package settings

import (
	"regexp"
	"strings"

	"github.com/alecthomas/kong"
)

// Mask is what stands for a secret that is not shown.
const Mask = "***"

// IsSecret reports whether all of a flag's value is a secret: its tag has "secret", or its name ends in token or password.
func isSecret(flag *kong.Flag) bool {
	return flag.Tag.Has("secret") || strings.HasSuffix(flag.Name, "token") || strings.HasSuffix(flag.Name, "password")
}

// Masked returns text, the value of a setting, without the passwords of the URL that it may be: the one before the @ of its host, and
// parameters of its query whose names end in password. Of a URL that is none, rather too much is masked than too little.
func Masked(text string) string {
	text = regexp.MustCompile(`(?i)([?&][a-z_]*password=)[^&#]+`).ReplaceAllString(text, "${1}"+Mask)
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		return text
	}
	authority := rest[:indexAny(rest, "/?#")]
	end := strings.LastIndexByte(rest[:indexAny(rest, "?")], '@')
	if hosts := regexp.MustCompile(`^[^:@]*(:\d*)?(,[^:@]*(:\d*)?)*$`); end < 0 && !hosts.MatchString(authority) {
		end = strings.LastIndexByte(rest, '@') // the password may have a ? in it
	}
	if user, _, has := strings.Cut(rest[:max(end, 0)], ":"); has {
		return scheme + "://" + user + ":" + Mask + rest[end:]
	}
	return text
}

// indexAny is where the first of chars is in text, or its length.
func indexAny(text, chars string) int {
	if i := strings.IndexAny(text, chars); i >= 0 {
		return i
	}
	return len(text)
}

// masked reports whether text is what a secret was shown as.
func masked(text string, secret bool) bool {
	return secret && text == Mask || strings.Contains(text, ":"+Mask+"@") || strings.Contains(text, "password="+Mask)
}
