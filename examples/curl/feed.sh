#!/usr/bin/env bash
# User 1 blocks user 2, asks for a feed, and undoes it. Usage: feed.sh [URL]
set -euo pipefail

service=${1:-http://127.0.0.1:8080}

# call METHOD PATH [BODY] prints the answer, and fails if it is an error. curl repeats the call
# itself after 408, 429, 500, 502, 503, 504 or a refused connection. It waits as long as Retry-After
# says.
call() {
    local options=(--silent --show-error --fail-with-body --max-time 10 --retry 4 --retry-connrefused --request "$1")
    [ -z "${FEEDFILTER_TOKEN:-}" ] || options+=(--header "Authorization: Bearer $FEEDFILTER_TOKEN")
    [ -z "${3:-}" ] || options+=(--header 'Content-Type: application/json' --data "$3")
    curl "${options[@]}" "$service$2"
}

# expect WHAT GOT PART fails unless the answer has the part.
expect() {
    case $2 in
    *"$3"*) echo "$1: $2" ;;
    *)
        echo "$1: $2, want $3" >&2
        exit 1
        ;;
    esac
}

feed='{"viewer":"curl-1","posts":[{"id":"p8","author":"curl-2"},{"id":"p9","author":"curl-3"}]}'

call DELETE /v1/users/curl-1/blocks/curl-2 >/dev/null # of a run before
expect block "$(call PUT /v1/users/curl-1/blocks/curl-2)" '{"changed":true}'
expect feed "$(call POST /v1/feed/filter "$feed")" '{"posts":[{"id":"p9"}],"dropped":[{"id":"p8","kind":"block","actor":"curl-2"}]'
expect why "$(call POST /v1/feed/explain '{"viewer":"curl-2","post":{"id":"p1","author":"curl-1"}}')" '"direction":"by_actor"'
expect unblock "$(call DELETE /v1/users/curl-1/blocks/curl-2)" '{"changed":true}'
expect feed "$(call POST /v1/feed/filter "$feed")" '{"posts":[{"id":"p8"},{"id":"p9"}],"dropped":[]'
expect batch "$(call POST /v1/activities '{"activities":[{"user":"curl-1","kind":"hide","target":"p9","op":"add"},{"user":"curl-1","kind":"hide","target":"p9","op":"remove"}]}')" \
    '{"results":[{"changed":true},{"changed":true}]}'

# What is wrong with a request, its answer says; curl exits with 22.
status=0
wrong=$(call PUT /v1/users/curl-1/blocks/curl-1) || status=$?
expect "wrong, status $status" "$wrong" '"code":"self_block"'
[ "$status" = 22 ]
