#!/usr/bin/env python3
"""User 1 blocks user 2, asks for a feed, and undoes it. Usage: feed.py [URL]. Needs nothing but Python."""

import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Optional

SERVICE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
ATTEMPTS = 4


class Refused(Exception):
    """An error that the service answers, with its code, such as "self_block"."""

    def __init__(self, status: int, code: str, message: str):
        super().__init__(f"{status} {code}: {message}")
        self.status, self.code = status, code


def refused(e: urllib.error.HTTPError) -> Refused:
    try:
        error = json.load(e)["error"]
        return Refused(e.code, error["code"], error["message"])
    except (ValueError, KeyError, TypeError):  # of a proxy on the way
        return Refused(e.code, "", e.reason)


def call(method: str, *path: str, body: Optional[Any] = None) -> Any:
    """Makes a call, and repeats it where that may help.

    Do not use it for a feed with record_seen: the first attempt may record its posts as seen.
    """
    url = SERVICE + "/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in path)
    request = urllib.request.Request(url, method=method)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    if token := os.environ.get("FEEDFILTER_TOKEN"):
        request.add_header("Authorization", "Bearer " + token)
    for attempt in range(1, ATTEMPTS + 1):
        pause = random.uniform(0, 0.1 * 2**attempt)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            error = refused(e)
            if e.code not in (408, 429, 502, 503, 504) or attempt == ATTEMPTS:
                raise error from None
            pause += float(e.headers.get("Retry-After") or 0)
        except (OSError, http.client.HTTPException):  # it was not reached, or did not answer to the end
            if attempt == ATTEMPTS:
                raise
        time.sleep(pause)


def expect(what: str, got: Any, want: Any) -> None:
    print(f"{what}: {got}")
    if got != want:
        sys.exit(f"{what}: {got}, want {want}")


def shown() -> list:
    """The ids of the posts that the viewer gets to see."""
    posts = [{"id": "p8", "author": "py-2"}, {"id": "p9", "author": "py-3"}]
    feed = call("POST", "feed", "filter", body={"viewer": "py-1", "posts": posts})
    return [post["id"] for post in feed["posts"]]


def main() -> None:
    block = ("users", "py-1", "blocks", "py-2")
    call("DELETE", *block)  # of a run before
    expect("block", call("PUT", *block), {"changed": True})
    expect("feed", shown(), ["p9"])
    why = call("POST", "feed", "explain", body={"viewer": "py-2", "post": {"id": "p1", "author": "py-1"}})
    expect("why", [reason["direction"] for reason in why["reasons"]], ["by_actor"])
    expect("unblock", call("DELETE", *block), {"changed": True})
    expect("feed", shown(), ["p8", "p9"])
    hide = {"user": "py-1", "kind": "hide", "target": "p9"}
    results = call("POST", "activities", body={"activities": [{**hide, "op": "add"}, {**hide, "op": "remove"}]})
    expect("batch", results, {"results": [{"changed": True}, {"changed": True}]})
    try:
        call("PUT", "users", "py-1", "blocks", "py-1")
        expect("wrong", "taken", "refused")
    except Refused as e:
        expect("wrong", e.code, "self_block")


if __name__ == "__main__":
    main()
