package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// examples are shown at the end of each command's help, by the command. A test sees to it that they are understood, and that
// each command has some.
func examples() map[string][]string {
	return map[string][]string{
		"serve": {
			"feedfilter serve --data-dir /var/lib/feedfilter",
			"feedfilter serve --redis redis://127.0.0.1:6379 --ledger postgres://feeds:password@127.0.0.1/feeds",
			"FEEDFILTER_LOG_LEVEL=debug feedfilter serve --config /etc/feedfilter.json",
		},
		"import": {
			"feedfilter import blocks.csv",
			"zcat activities.ndjson.gz | feedfilter import --format ndjson -",
			"feedfilter import --on-error skip --output json blocks.csv",
		},
		"import file": {
			"feedfilter import file blocks.csv",
		},
		"import sets": {
			"feedfilter import sets --from redis://127.0.0.1:6379 --keys blocks:{user} --kind block --server http://127.0.0.1:8080",
		},
		"compare": {
			"feedfilter compare sets --from redis://127.0.0.1:6379 --keys blocks:{user} --kind block --server http://127.0.0.1:8080",
		},
		"compare sets": {
			"feedfilter compare sets --from redis://127.0.0.1:6379 --keys blocks:{user} --kind block --server http://127.0.0.1:8080",
		},
		"compare file": {
			"feedfilter compare file --kind hide --differences differences.ndjson hides.csv",
		},
		"export": {
			"feedfilter export --to activities.ndjson",
			"feedfilter export --user 42",
		},
		"doctor": {
			"feedfilter doctor --redis redis://127.0.0.1:6379",
			"feedfilter doctor --config /etc/feedfilter.json --strict --output json",
		},
		"plan": {
			"feedfilter plan --users 1e6 --activities-per-user 30 --feeds-per-second 500",
			"feedfilter plan --users 1e8 --activities-per-user 50 --feeds-per-second 20000 --replicas 2 --chart plan.svg",
		},
		"reshape": {
			"feedfilter reshape --pages 65536 --redis redis://127.0.0.1:6379 --ledger postgres://feeds:password@127.0.0.1/feeds",
			"feedfilter reshape --pages 65536 --server http://127.0.0.1:8080",
		},
		"token new": {
			"feedfilter token new --name renderer --scope feed:read --ttl 2160h --auth-file tokens.json",
		},
		"token list": {
			"feedfilter token list --auth-file tokens.json",
		},
		"token check": {
			"feedfilter token check --auth-file tokens.json",
		},
		"hash-id": {
			"feedfilter hash-id --data-dir /var/lib/feedfilter 42",
		},
		"health": {
			"feedfilter health",
			"feedfilter health --url http://10.0.0.5:8080 --timeout 1s --output json",
		},
		"bench": {
			"feedfilter bench --redis redis://127.0.0.1:6379",
		},
		"bench goals": {
			"feedfilter bench goals --activities 1000000 --plot charts",
		},
		"bench growth": {
			"feedfilter bench growth --redis redis://127.0.0.1:6379 --users 100000 --plot charts",
		},
		"config": {
			"feedfilter config check --config /etc/feedfilter.json",
		},
		"config check": {
			"feedfilter config check --config /etc/feedfilter.json && systemctl reload feedfilter",
		},
		"config print": {
			"feedfilter config print --config /etc/feedfilter.json",
			"feedfilter config print --show-secrets --output json > /etc/feedfilter.json",
		},
		"completion": {
			"source <(feedfilter completion bash)",
			"feedfilter completion fish > ~/.config/fish/completions/feedfilter.fish",
		},
		"man": {
			"feedfilter man serve | man -l -",
			"feedfilter man --dir /usr/local/share/man/man1",
		},
		"version": {
			"feedfilter version --output json",
		},
	}
}

// addExamples puts them after what there is to say of a command.
func addExamples(node *kong.Node, all map[string][]string) {
	if lines := all[node.Path()]; node.Type == kong.CommandNode && len(lines) > 0 {
		node.Detail = strings.TrimSpace(node.Detail + "\n\nExamples:\n\n    " + strings.Join(lines, "\n    "))
	}
	for _, below := range node.Children {
		addExamples(below, all)
	}
}
