package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/feedfilter/feedfilter/favfilter"
	"github.com/feedfilter/feedfilter/favfilter/redisstore"
)

//nolint:testableexamples // needs a server
func Example() {
	client := redis.NewClient(&redis.Options{
		Addr:                  "127.0.0.1:6379",
		ContextTimeoutEnabled: true, // so that deadlines of contexts count
		// Only Redis itself supports these notifications.
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer func() { _ = client.Close() }()
	store, err := redisstore.New(client, "hidden-posts")
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	f, err := favfilter.Open(ctx, store, favfilter.Config{
		Capacity: 10_000_000,
		PageBy: func(key string) string { // all keys of U1 in one page
			user, _, _ := strings.Cut(key, "_")
			return user
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := f.Add(ctx, "U1_P7", "U1_P9"); err != nil {
		fmt.Println(err)
		return
	}
	hidden, err := f.Contains(ctx, "U1_P6", "U1_P7", "U1_P8", "U1_P9") // one round trip
	fmt.Println(hidden, err)
}
