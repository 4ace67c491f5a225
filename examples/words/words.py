#!/usr/bin/env python3
"""Ann mutes a phrase, but not in posts by fay, whom she follows; bob mutes none.

Usage: words.py [URL]. The service has the kinds of kinds.json. Needs nothing but Python.
"""

import json
import os
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, Optional

SERVICE = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8080"
ANN, BOB, EVE, FAY = "py-ann", "py-bob", "py-eve", "py-fay"
POSTS = [
    {"id": "p1", "author": EVE, "text": "CLIMATE—change is real"},
    {"id": "p2", "author": FAY, "text": "My talk on climate change"},
    {"id": "p3", "author": EVE, "text": "The climate will change"},
]


def call(method: str, *path: str, until: str = "", body: Optional[Any] = None) -> Any:
    """Makes a call, once. ../python/feed.py shows how to repeat calls."""
    url = SERVICE + "/v1/" + "/".join(urllib.parse.quote(part, safe="") for part in path)
    if until:
        url += "?" + urllib.parse.urlencode({"until": until})
    request = urllib.request.Request(url, method=method)
    if body is not None:
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
    if token := os.environ.get("FEEDFILTER_TOKEN"):
        request.add_header("Authorization", "Bearer " + token)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def expect(what: str, got: str, want: str) -> None:
    print(f"{what}: {got}")
    if got != want:
        sys.exit(f"{what}: {got}, want {want}")


def shown(viewer: str) -> str:
    feed = call("POST", "feed", "filter", body={"viewer": viewer, "posts": POSTS})
    return " ".join(post["id"] for post in feed["posts"])


def main() -> None:
    call("DELETE", "users", ANN)  # of a run before
    mutes = ("users", ANN, "word-mutes")
    call("PUT", "users", ANN, "follows", FAY)
    call("PUT", *mutes, "Climate Change")
    call("PUT", *mutes, "Spoilers!", until="2127-01-01T00:00:00Z")
    try:
        call("PUT", *mutes, "eclipse", until="2001-01-01T00:00:00Z")
        expect("until 2001", "taken", "refused")
    except urllib.error.HTTPError as e:
        expect("until 2001", json.load(e)["error"]["code"], "out_of_range")
    muted = [
        item["target"] + (" until " + item["until"][:10] if "until" in item else "")
        for item in call("GET", *mutes)["items"]
    ]
    expect("muted", ", ".join(sorted(muted)), "climate change, spoilers until 2127-01-01")
    expect("ann sees", shown(ANN), "p2 p3")
    expect("bob sees", shown(BOB), "p1 p2 p3")
    why = call("POST", "feed", "explain", body={"viewer": ANN, "post": POSTS[0]})["reasons"][0]
    found = POSTS[0]["text"].encode()[why["in_text"]["start"] : why["in_text"]["end"]].decode()
    expect("why", f"{why['target']} in {found}", "climate change in CLIMATE—change")
    new = {"post": "p1", "author": EVE, "text": POSTS[0]["text"], "viewers": [ANN, BOB]}
    fanout = call("POST", "fanout", "filter", body=new)
    expect("p1 is not for", fanout["dropped"][0]["viewer"], ANN)
    call("DELETE", *mutes, "climate change")
    expect("ann sees", shown(ANN), "p1 p2 p3")


if __name__ == "__main__":
    main()
