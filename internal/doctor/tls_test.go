package doctor

import (
	"context"
	"testing"
)

// Without TLS, the finding depends on the server's address.
func TestPlain(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string]string{
		"127.0.0.1:6379":     "ok none, on a private network",
		"[::1]:6379":         "ok none, on a private network",
		"10.1.2.3:6379":      "ok none, on a private network",
		"192.0.2.1:6379":     "warn none, and 192.0.2.1 is a public address",
		"[2001:db8::1]:6379": "warn none, and 2001:db8::1 is a public address",
	} {
		if f := judgePlain(context.Background(), "tcp", []string{"127.0.0.1:1", addr}); f.status.String()+" "+f.found != want {
			t.Errorf("%s: %v %s, want %s", addr, f.status, f.found, want)
		}
	}
	if f := judgePlain(context.Background(), "unix", []string{"/run/redis.sock"}); f.status != OK {
		t.Errorf("%+v", f)
	}
}
