package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// checkSentinel asks the sentinels for the primary, and connects to it.
func (d *Doctor) checkSentinel(ctx context.Context) finding {
	if len(d.reached) == 0 {
		return skipf("no connection")
	}
	var first error
	var failed []string
	agree := 0
	for _, addr := range d.reached {
		primary, err := d.askSentinel(ctx, addr)
		if err != nil {
			first = cmp.Or(first, err)
			failed = append(failed, addr+": "+words(err))
			continue
		}
		d.primary = cmp.Or(d.primary, primary)
		if primary == d.primary {
			agree++
		}
	}
	if d.primary == "" {
		return fail(andMore(failed[:min(len(failed), someNodes)], len(failed)-someNodes), d.sentinelTodo(first))
	}
	if _, err := connectOnce(ctx, "tcp", d.primary); err != nil {
		d.primary = ""
		return fail("the primary: "+words(err), networkTodo(err))
	}
	found := fmt.Sprintf("%d of %d sentinels report %s at %s", agree, len(d.reached), d.servers.Failover.MasterName, d.primary)
	if agree < len(d.reached) {
		return warn(found, "Check the sentinels that disagree: they do not count in an election.")
	}
	return okf("%s", found)
}

var errNoPrimary = errors.New("knows no primary of that name")

func (d *Doctor) askSentinel(ctx context.Context, addr string) (primary string, err error) {
	o := d.servers.Failover
	client := redis.NewSentinelClient(&redis.Options{
		Addr: addr, Username: o.SentinelUsername, Password: o.SentinelPassword, Dialer: d.dialTLS(),
		DialTimeout: o.DialTimeout, ReadTimeout: o.ReadTimeout, WriteTimeout: o.WriteTimeout,
		MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = client.Close() }()
	answer, err := client.GetMasterAddrByName(ctx, o.MasterName).Result()
	switch {
	case errors.Is(err, redis.Nil):
		return "", errNoPrimary
	case err != nil:
		return "", err
	case len(answer) != 2:
		return "", fmt.Errorf("answers %q", answer)
	}
	return net.JoinHostPort(answer[0], answer[1]), nil
}

func (d *Doctor) sentinelTodo(err error) string {
	switch {
	case errors.Is(err, errNoPrimary):
		return fmt.Sprintf("Correct the name of the primary in --redis, %s, or have the sentinels monitor it.", d.servers.Failover.MasterName)
	case redis.HasErrorPrefix(err, "NOAUTH"), redis.HasErrorPrefix(err, "WRONGPASS"), redis.HasErrorPrefix(err, "NOPERM"):
		return "Give the sentinels' own user and password before the hosts: redis+sentinel://<user>:<password>@<host>:<port>/<primary>."
	case isRedisReply(err):
		return "Name the sentinels in --redis (default port 26379), not the servers that they monitor."
	}
	return networkTodo(err)
}
