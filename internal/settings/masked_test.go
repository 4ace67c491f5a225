package settings_test

import (
	"testing"

	"github.com/feedfilter/feedfilter/internal/settings"
)

func TestMasked(t *testing.T) {
	for text, want := range map[string]string{
		"redis://user:s3cret@host:6379/0":              "redis://user:***@host:6379/0",
		"redis://:s3cret@host":                         "redis://:***@host",
		"redis://user@host:6379":                       "redis://user@host:6379",
		"redis://host:6379/0?client_name=a@b":          "redis://host:***@b",
		"redis://u:s3cret@host/0?client_name=a@b":      "redis://u:***@b",
		"redis+cluster://u:s3:cr@et@a:1,b:2/?x=y":      "redis+cluster://u:***@a:1,b:2/?x=y",
		"redis+sentinel://a:1,b:2/primary":             "redis+sentinel://a:1,b:2/primary",
		"postgres://u:s3/cret@host/db":                 "postgres://u:***@host/db",
		"postgres://u:s3?cret@host/db":                 "postgres://u:***@host/db",
		"postgres://u:s3#cret@host/db":                 "postgres://u:***@host/db",
		"postgres://host/db?password=s3cret&a=b":       "postgres://host/db?password=***&a=b",
		"postgres://host/db?sslpassword=s3cret#c":      "postgres://host/db?sslpassword=***#c",
		"sqlite:dir/ledger.db":                         "sqlite:dir/ledger.db",
		"127.0.0.1:8080":                               "127.0.0.1:8080",
		"":                                             "",
		"elasticache://name?region=r&secret=id&user=u": "elasticache://name?region=r&secret=id&user=u",
		"unix://u:s3cret@/run/redis.sock":              "unix://u:***@/run/redis.sock",
		"redis://u:12/s3cret@host/0?a=b@c":             "redis://u:***@c",
		"host=h password=s3cret":                       "host=h password=s3cret", // not a URL
	} {
		if got := settings.Masked(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
