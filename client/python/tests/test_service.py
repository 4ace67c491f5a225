"""The client with a service. All requests and answers are checked against the descriptions."""

import gc
import socket
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, Callable, List, Tuple, Type

import pytest

import feedfilter
from feedfilter import (
    ADD,
    BLOCK,
    BLOCKS,
    HIDE,
    LIKE,
    LIKES,
    REMOVE,
    SEEN,
    AccessDeniedError,
    Activity,
    Actor,
    Client,
    Dropped,
    DroppedViewer,
    Error,
    InvalidRequestError,
    LimitReachedError,
    Post,
    UnavailableError,
)

from .conftest import Proxy

UID = Callable[[str], str]


def reasons(dropped: List[Dropped[Post]]) -> List[Tuple[int, str, str]]:
    return [(d.index, d.kind, d.actor) for d in dropped]


def test_filter_reasons(client: Client, uid: UID) -> None:
    me, blocked, blocker, friend = uid("me"), uid("blocked"), uid("blocker"), uid("friend")
    client.record(me, BLOCK, blocked)
    client.record(blocker, BLOCK, me)
    client.record(me, HIDE, uid("hidden"))
    client.record(me, LIKE, uid("liked"))
    client.record_posts(me, SEEN, [uid("seen")])
    posts = [
        Post(uid("p0"), blocked),
        Post(uid("p1"), friend),
        Post(uid("p2"), blocker),
        Post(uid("p3"), friend, [uid("other"), blocked]),
        Post(uid("hidden"), friend),
        Post(uid("seen"), friend),
        Post(uid("liked"), friend),
        Post(uid("p7"), me),
    ]
    feed = client.filter(me, posts, annotate=["like"])
    assert reasons(feed.dropped) == [
        (0, "block", blocked),
        (2, "block", blocker),
        (3, "block", blocked),
        (4, "hide", ""),
        (5, "seen", ""),
    ]
    assert [id(p) for p in feed.kept] == [id(posts[i]) for i in (1, 6, 7)]
    assert all(d.post is posts[d.index] for d in feed.dropped)
    assert feed.annotated == {"like": frozenset([uid("liked")])}
    assert feed.next is None and feed.degraded == []
    assert client.filter(me, posts, kinds=[]).kept == posts
    only = client.filter(me, posts, kinds=["seen"], exact=True)
    assert [(d.index, d.unconfirmed) for d in only.dropped] == [(5, True)]
    assert client.filter(me, []).kept == []


@pytest.mark.parametrize(
    ("block", "like", "seen"), [(BLOCK, LIKE, SEEN), (BLOCKS, LIKES, SEEN)], ids=["name", "plural"]
)
def test_either_name(client: Client, uid: UID, block: str, like: str, seen: str) -> None:
    me, enemy, friend = uid("me"), uid("enemy"), uid("friend")
    assert client.record(me, block, enemy)
    assert client.record_posts(me, seen, [uid("old")]) == 1
    batch = client.record_batch([Activity(me, like, uid("p")), Activity(me, like, uid("p"))])
    assert [result.changed for result in batch] == [True, False]
    posts = [Post(uid("p"), friend), Post(uid("q"), enemy), Post(uid("old"), friend)]
    feed = client.filter(me, posts, kinds=[block, seen], annotate=[like])
    assert [(d.index, d.kind) for d in feed.dropped] == [(1, BLOCK), (2, SEEN)]
    assert feed.annotated == {LIKE: frozenset([uid("p")])}
    assert [item.target for item in client.list(me, block)] == [enemy]
    assert [(i.user, i.target) for i in client.list(enemy, block, incoming=True)] == [(me, "")]
    item = client.get(me, block, enemy)
    assert item is not None and item.target == enemy
    assert client.get(enemy, block, me) is None
    with pytest.raises(InvalidRequestError):
        client.get(me, block, None)  # type: ignore[arg-type]
    assert [r.direction for r in client.explain(enemy, Post("", me)).reasons] == ["by_actor"]
    assert client.preview(me, like, [uid("p")]).present == 1
    assert client.count(me)[BLOCK] == 1
    assert [d.kind for d in client.fanout(Post("", enemy), [me], kinds=[block]).dropped] == [BLOCK]
    assert client.remove(me, block, enemy)


def test_readme(url: str, uid: UID) -> None:
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    program = text.split("```python\n")[1].split("```")[0]
    for old, new in (
        ('"http://127.0.0.1:8080"', repr(url)),
        ("0.2", "60"),
        ('"1"', repr(uid("1"))),
    ):
        assert old in program
        program = program.replace(old, new)
    exec(program + "\nclient.close()", {})


def test_filter_in_parts(client: Client, uid: UID) -> None:
    me = uid("me")
    client.record(me, HIDE, uid("p1"))
    posts = [Post(uid(f"p{i}"), uid("author")) for i in range(6)]
    first = client.filter(me, posts, limit=2, record_seen=True)
    assert [p.id for p in first.kept] == [uid("p0"), uid("p2")]
    assert reasons(first.dropped) == [(1, "hide", "")] and first.next == 3
    rest = client.filter(me, posts[first.next :])
    assert rest.kept == posts[3:] and rest.next is None
    again = client.filter(me, posts)
    assert [(d.index, d.kind) for d in again.dropped] == [(0, "seen"), (1, "hide"), (2, "seen")]


@dataclass
class Card(Post):
    """A post with data for its renderer."""

    title: str = ""


def test_filter_keeps_objects_of_subclasses(client: Client, uid: UID) -> None:
    feed = client.filter(uid("me"), [Card(uid("p"), uid("author"), title="Hello")])
    assert [card.title for card in feed.kept] == ["Hello"]


def test_filter_1000_posts(client: Client, uid: UID) -> None:
    me = uid("me")
    targets = [uid(f"author{i}") for i in range(0, 1000, 10)]
    batch = [Activity(me, "block", t) for t in targets]
    assert all(r.changed and r.error is None for r in client.record_batch(batch))
    posts = [Post(uid(f"p{i}"), uid(f"author{i}"), [uid("a"), uid("b")]) for i in range(1000)]
    feed = client.filter(me, posts)
    assert [(d.index, d.actor) for d in feed.dropped] == list(zip(range(0, 1000, 10), targets))
    assert [p.id for p in feed.kept] == [uid(f"p{i}") for i in range(1000) if i % 10]


def test_record_list_count_remove(client: Client, uid: UID) -> None:
    me, until = uid("me"), datetime(2099, 1, 2, 3, 4, 5, 678901, tzinfo=timezone.utc)
    began = datetime.now(timezone.utc)
    assert client.record(me, BLOCK, uid("a")) is True
    assert client.record(me, BLOCK, uid("a")) is False
    assert client.record(me, BLOCK, uid("b"), until=until) is True
    newest, oldest = client.list(me, BLOCK)
    assert (newest.target, newest.until) == (uid("b"), until)
    assert (oldest.target, oldest.until) == (uid("a"), None)
    assert abs(oldest.since - began) < timedelta(minutes=10)
    assert oldest.since.utcoffset() == timedelta(0)
    kinds = ("domain-mute", "hide", "follow", "like", "repost-mute", "word-mute")
    none = dict.fromkeys(kinds, 0)
    assert client.count(me) == {"block": 2, **none}
    assert client.remove(me, BLOCK, uid("a")) is True
    assert client.remove(me, BLOCK, uid("a")) is False
    assert [item.target for item in client.list(me, BLOCK)] == [uid("b")]
    assert client.filter(me, [Post(uid("p"), uid("a"))]).dropped == []


def test_list_of_several_parts(client: Client, uid: UID) -> None:
    me = uid("me")
    batch = [Activity(me, "like", uid(f"p{i}")) for i in range(150)]
    assert len(client.record_batch(batch)) == 150
    targets = [item.target for item in client.list(me, LIKE)]
    assert sorted(targets) == sorted(a.target for a in batch)


def test_explain(client: Client, uid: UID) -> None:
    me, until = uid("me"), datetime(2099, 1, 1, tzinfo=timezone.utc)
    client.record(uid("a"), BLOCK, me, until=until)
    client.record(me, LIKE, uid("p"))
    client.record_posts(me, SEEN, [uid("p")])
    why = client.explain(me, Post(uid("p"), uid("c"), [uid("a")]))
    assert why.dropped and why.degraded == [] and why.page.keys > 0
    block, seen, like = why.reasons
    assert (block.kind, block.actor, block.direction) == ("block", uid("a"), "by_actor")
    assert (block.effect, block.certainty, block.until) == ("drop", "certain", until)
    assert block.since is not None
    assert (seen.kind, seen.certainty, len(seen.parts)) == ("seen", "unconfirmed", 1)
    assert (like.kind, like.effect, like.direction) == ("like", "annotate", "by_viewer")


def test_roles_and_related(client: Client, uid: UID) -> None:
    me, muted, hidden = uid("me"), uid("u"), uid("o")
    assert client.record(me, "repost-mutes", muted) and client.record(me, HIDE, hidden)
    posts = [
        Post(uid("p0"), uid("a"), ["x", Actor(muted, "repost")]),
        Post(uid("p1"), uid("a"), [Actor(muted, "mention"), Actor("x")]),
        Post(uid("p2"), uid("a"), related=["x", hidden]),
        Post(uid("p3"), uid("a"), related=[uid("r")]),
        Post(uid("r"), uid("a")),
        Post(uid("p4"), uid("a"), [muted]),  # in any role
    ]
    feed = client.filter(me, posts, record_seen=True)
    assert feed.dropped == [
        Dropped(posts[0], 0, "repost-mute", muted),
        Dropped(posts[2], 2, "hide", target=hidden),
        Dropped(posts[4], 4, "seen"),
        Dropped(posts[5], 5, "repost-mute", muted),
    ]
    assert [d.index for d in client.filter(me, posts[3:5]).dropped] == [0, 1]
    assert [r.kind for r in client.explain(me, posts[0]).reasons] == ["repost-mute"]
    assert [r.target for r in client.explain(me, posts[2]).reasons] == [hidden]
    assert not client.explain(me, Post(uid("p9"), "a", [Actor(muted, "quote")])).dropped


def test_keep(client: Client, uid: UID) -> None:
    me, friend, muted = uid("me"), uid("f"), uid("x.example")
    assert client.record(me, "domain-mutes", muted) and client.record(me, "follows", friend)
    posts = [Post(uid(name), name, facets={"domain": [muted]}) for name in (friend, uid("u"))]
    assert [d.index for d in client.filter(me, posts).dropped] == [1]
    assert not client.filter(me, posts, kinds=["domain-mute"]).kept
    why = client.explain(me, posts[0])
    assert not why.dropped
    assert [(r.kind, r.overruled_by) for r in why.reasons] == [
        ("domain-mute", "follow"),
        ("follow", ""),
    ]


def test_lists(client: Client, uid: UID) -> None:
    me, one, other = uid("me"), uid("L"), uid("M")
    assert client.record(one, BLOCK, uid("b")) and client.record(other, HIDE, uid("h"))
    posts = [Post(uid("p"), uid("b")), Post(uid("h"), "a"), Post(uid("q"), "a")]
    assert client.filter(me, posts).kept == posts
    feed = client.filter(me, posts, lists=[other, one])
    assert feed.dropped == [
        Dropped(posts[0], 0, "block", uid("b"), list=one),
        Dropped(posts[1], 1, "hide", list=other),
    ]
    [reason] = client.explain(me, posts[1], lists=(one, other)).reasons
    assert (reason.kind, reason.list) == ("hide", other)
    assert not client.explain(me, posts[1]).dropped


def test_positions(client: Client, uid: UID) -> None:
    post = Post(uid("p"), uid("a"))
    for after, code in (("0/16B3748", "not_followed"), ("16B3748", "invalid_position")):
        calls: List[Callable[[], object]] = [
            lambda: client.filter(uid("me"), [post], after=after),
            lambda: client.explain(uid("me"), post, after=after),
            lambda: client.fanout(post, [uid("me")], after=after),
        ]
        for call in calls:
            with pytest.raises(InvalidRequestError) as refused:
                call()
            assert (refused.value.status, refused.value.code) == (422, code)
            assert refused.value.field == "after"


def test_within(client: Client, uid: UID) -> None:
    post = Post(uid("p"), uid("a"))
    for within, status, code in (
        (2.0, 422, "not_followed"),
        (0.001, 422, "not_followed"),
        (0.0001, 400, "out_of_range"),
        (-1.0, 400, "out_of_range"),
        (90000.0, 400, "out_of_range"),
    ):
        calls: List[Callable[[], object]] = [
            lambda: client.filter(uid("me"), [post], within=within),
            lambda: client.explain(uid("me"), post, within=within),
            lambda: client.fanout(post, [uid("me")], within=within),
        ]
        for call in calls:
            with pytest.raises(InvalidRequestError) as refused:
                call()
            assert (refused.value.status, refused.value.code) == (status, code)
            assert refused.value.field == "within"


def test_fanout(client: Client, uid: UID) -> None:
    author, other, viewers = uid("author"), uid("other"), [uid(f"v{i}") for i in range(4)]
    domain = uid("x.example")
    assert client.record(viewers[1], BLOCK, author) and client.record(other, BLOCK, viewers[3])
    assert client.record(viewers[0], "domain-mutes", domain)
    post = Post("", author, [Actor(other, "repost")], facets={"domain": [domain]})
    got = client.fanout(post, viewers, exact=True)
    assert got.dropped == [
        DroppedViewer(viewers[0], "domain-mute", "", domain),
        DroppedViewer(viewers[1], "block", author),
        DroppedViewer(viewers[3], "block", other),
    ]
    assert client.fanout(Post("", author), viewers[2:], kinds=["block"]).dropped == []
    assert client.fanout(post, viewers, kinds=[]).dropped == [] and not got.degraded
    with pytest.raises(InvalidRequestError) as refused:
        client.fanout(post, viewers, kinds=["hide"])
    assert (refused.value.code, refused.value.field) == ("unsupported_op", "kinds[0]")


def test_facets(client: Client, uid: UID) -> None:
    me, muted = uid("me"), uid("x.example")
    assert client.record(me, "domain-mutes", muted)
    assert client.remove(me, "domain-mutes", uid("y.example")) is False
    posts = [
        Post(uid("p0"), uid("a"), facets={"domain": [uid("y.example")]}),
        Post(uid("p1"), uid("a"), facets={"domain": (uid("y.example"), muted)}),
        Post(uid("p2"), muted, [muted]),  # another facet
        Post(uid("p3"), uid("a"), facets={"domain": []}),
        Post(uid("p4"), uid("a"), facets={"domain": [muted]}),
    ]
    feed = client.filter(me, posts)
    assert feed.dropped == [Dropped(posts[i], i, "domain-mute", target=muted) for i in (1, 4)]
    assert feed.kept == [posts[i] for i in (0, 2, 3)]
    why = client.explain(me, posts[1])
    [reason] = why.reasons
    assert why.dropped and (reason.kind, reason.target, reason.actor) == ("domain-mute", muted, "")
    assert (reason.direction, reason.certainty) == ("by_viewer", "certain")
    assert not client.explain(me, posts[0]).dropped
    assert [item.target for item in client.list(me, "domain-mutes")] == [muted]


def test_texts(client: Client, uid: UID) -> None:
    me, author = uid("me"), uid("author")
    assert client.record(me, "word-mutes", "Climate Change")
    assert not client.record(me, "word-mute", "CLIMATE change!")
    assert [item.target for item in client.list(me, "word-mutes")] == ["climate change"]
    posts = [
        Post(uid("p0"), author),
        Post(uid("p1"), author, text="💡 É: climate—change is real"),
        Post(uid("p2"), author, text="The climate will change."),
        Post(uid("p3"), author, facets={"phrase": ["Climate change"]}),
    ]
    feed = client.filter(me, posts)
    muted = [Dropped(posts[i], i, "word-mute", target="climate change") for i in (1, 3)]
    assert (feed.dropped, feed.kept, feed.degraded) == (muted, [posts[0], posts[2]], [])
    [reason] = client.explain(me, posts[1]).reasons
    assert reason.target == "climate change" and reason.in_text is not None
    found = posts[1].text.encode()[reason.in_text.start : reason.in_text.end]
    assert found.decode() == "climate—change"
    assert [reason.in_text for reason in client.explain(me, posts[3]).reasons] == [None]
    got = client.fanout(posts[1], [author, me])
    assert got.dropped == [DroppedViewer(me, "word-mute", "", "climate change")]
    assert client.fanout(posts[2], [me]).dropped == []
    with pytest.raises(InvalidRequestError) as refused:
        client.record(me, "word-mutes", "!?")
    assert (refused.value.code, refused.value.field) == ("invalid_id", "target")


def test_history_of_window(client: Client, uid: UID) -> None:
    me, now = uid("me"), datetime.now(timezone.utc)
    ages = {uid("recent"): timedelta(days=29), uid("old"): timedelta(days=36)}
    results = client.record_batch([Activity(me, "seen", p, since=now - a) for p, a in ages.items()])
    assert [(r.changed, r.error) for r in results] == [(True, None), (False, None)]
    dropped = client.filter(me, [Post(p, uid("a")) for p in ages]).dropped
    assert [d.post.id for d in dropped] == [uid("recent")]


def test_batch(client: Client, uid: UID) -> None:
    me, since = uid("me"), datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=timezone.utc)
    results = client.record_batch(
        [
            Activity(me, "hide", uid("p1"), since=since),
            Activity(me, "hide", uid("p2"), REMOVE),
            *(Activity(me, "hide", uid(f"q{i}")) for i in range(5)),
        ]
    )
    assert [r.changed for r in results] == [True, False, True, True, True, False, False]
    for result in results[5:]:  # a user may hide 4 posts
        assert isinstance(result.error, LimitReachedError)
        assert (result.error.code, result.error.limit) == ("limit_reached", 4)
    assert next(i for i in client.list(me, HIDE) if i.target == uid("p1")).since == since
    with pytest.raises(InvalidRequestError) as refused:
        client.record_batch([Activity(me, "like", uid("p")), Activity(me, "nothing", uid("p"))])
    assert refused.value.code == "unknown_kind" and "activities[1]" in refused.value.field
    assert client.count(me)["like"] == 0


def test_stream_and_export(client: Client, uid: UID) -> None:
    me, until = uid("me"), datetime(2099, 1, 1, tzinfo=timezone.utc)
    stream = [Activity(me, "like", uid(f"p{i:04}"), until=until) for i in range(700)]
    stream[600] = stream[0]
    results = list(client.record_stream(stream))
    assert [i for i, r in enumerate(results) if not r.changed] == [600] and len(results) == 700
    exported = list(client.export(me))
    assert [a.target for a in exported] == sorted({a.target for a in stream})
    assert {(a.user, a.kind, a.op, a.until) for a in exported} == {(me, "like", ADD, until)}
    assert client.delete_user(me) == 699
    assert list(client.export(me)) == [] and client.count(me)["like"] == 0
    assert all(r.changed for r in client.record_stream(exported))
    assert list(client.export(me)) == exported
    assert list(client.record_stream([])) == []


def test_stream_with_an_error(unchecked: Client, uid: UID) -> None:
    stream = [Activity(uid("me"), "like", uid(f"p{i}")) for i in range(3)]
    stream[1] = Activity(uid("me"), "nothing", uid("p"))
    results = list(unchecked.record_stream(stream))
    assert [r.changed for r in results] == [True, False, True]
    error = results[1].error
    assert isinstance(error, InvalidRequestError) and error.code == "unknown_kind"


def test_export_that_is_abandoned(client: Client, uid: UID) -> None:
    me = uid("me")
    client.record(me, LIKE, uid("p"))
    client.record(me, LIKE, uid("q"))
    lines = client.export(me)
    assert next(lines).target == uid("p")
    lines.close()  # type: ignore[attr-defined]
    assert client.count(me)["like"] == 2


def test_delete_user(client: Client, uid: UID) -> None:
    me = uid("me")
    client.record(me, LIKE, uid("p"))
    client.record(uid("a"), BLOCK, me)
    client.record_posts(me, SEEN, [uid("p")])
    assert client.delete_user(me) == 2
    assert client.delete_user(me) == 0
    feed = client.filter(me, [Post(uid("p"), uid("a"))], annotate=["like"])
    assert len(feed.kept) == 1 and feed.annotated == {"like": frozenset()}


def test_preview_kinds_ready_call(client: Client, uid: UID) -> None:
    me = uid("me")
    client.record(me, HIDE, uid("p0"))
    preview = client.preview(me, "hide", [uid(f"p{i}") for i in range(5)])
    assert preview == feedfilter.Preview(new=4, present=1, total=5, limit=4, over=True)
    assert client.preview(me, "like", [uid("p")]).limit is None
    kinds = {k.name: k for k in client.kinds()}
    added = ["domain-mute", "repost-mute", "word-mute", "follow"]
    assert list(kinds) == ["block", "hide", "like", "seen", *added]
    assert kinds["word-mute"].text and kinds["word-mute"].fold is None
    assert kinds["domain-mute"].text is None
    assert kinds["domain-mute"].target == "domain"
    assert kinds["domain-mute"].fold == "host" and kinds["domain-mute"].rollup is None
    assert kinds["hide"].fold is None
    assert kinds["repost-mute"].roles == ("repost",) and kinds["block"].roles is None
    assert kinds["follow"].over == ("domain-mute",) and kinds["block"].over is None
    assert kinds["block"].two_way and kinds["block"].limit is None and kinds["block"].ledger
    assert kinds["hide"].limit == 4 and kinds["hide"].window_seconds is None
    assert kinds["seen"].window_seconds == 30 * 86400 and kinds["seen"].parts
    ready = client.ready()
    assert ready.answers and ready.status == "ready" and ready.down == []
    listed = client.call("GET", ["v1", "users", me, "hides"], query={"limit": 1})
    assert [item["target"] for item in listed["items"]] == [uid("p0")]
    body = {"viewer": me, "posts": [{"id": uid("p0"), "author": uid("a")}]}
    dropped = client.call("POST", ["v1", "feed", "filter"], body=body)["dropped"]
    assert dropped == [{"id": uid("p0"), "kind": "hide"}]


@pytest.mark.parametrize("name", ["..", ".", "a/b", "ü %?#+&", "\U0001f600", "x" * 256])
def test_ids_of_any_characters(client: Client, name: str) -> None:
    client.delete_user(name)
    assert client.record(name, LIKE, name)
    assert [a.target for a in client.export(name)] == [name]
    assert client.filter(name, [Post(name, name)], annotate=["like"]).annotated["like"] == {name}
    assert client.delete_user(name) == 1


now = datetime.now(timezone.utc)


@pytest.mark.parametrize(
    "call, kind, status, code, field",
    [
        (lambda c: c.filter("", []), InvalidRequestError, 400, "invalid_id", "viewer"),
        (
            lambda c: c.filter("1", [Post("p", "a"), Post("p\n", "a")]),
            InvalidRequestError,
            400,
            "invalid_id",
            "posts[1].id",
        ),
        (
            lambda c: c.filter("1", [Post("p", "a"), Post("q")]),
            InvalidRequestError,
            400,
            "invalid_id",
            "posts[1].author",
        ),
        (
            lambda c: c.filter("1", [Post("p", "a", ["b"] * 101)]),
            InvalidRequestError,
            422,
            "too_many_ids",
            "posts[0].actors",
        ),
        (
            lambda c: c.filter("1", [Post("p", "a", related=["x"] * 17)]),
            InvalidRequestError,
            422,
            "too_many_ids",
            "posts[0].related",
        ),
        (
            lambda c: c.filter("1", [Post("p", "a"), Post("q", "a", facets={"tag": ["x"]})]),
            InvalidRequestError,
            422,
            "unknown_facet",
            "posts[1].facets.tag",
        ),
        (
            lambda c: c.explain("1", Post("p", "a", facets={"tag": ["x"]})),
            InvalidRequestError,
            422,
            "unknown_facet",
            "post.facets.tag",
        ),
        (
            lambda c: c.filter("1", [Post("p", "a")] * 10_001),
            InvalidRequestError,
            400,
            "out_of_range",
            "posts",
        ),
        (
            lambda c: c.filter("1", [], kinds=["like"]),
            InvalidRequestError,
            422,
            "wrong_effect",
            "kinds[0]",
        ),
        (
            lambda c: c.filter("1", [], limit=10_001),
            InvalidRequestError,
            400,
            "out_of_range",
            "limit",
        ),
        (
            lambda c: c.record("1", BLOCK, "1"),
            InvalidRequestError,
            422,
            "self_block",
            "target",
        ),
        (
            lambda c: c.record("1", LIKE, "p", until=now - timedelta(hours=1)),
            InvalidRequestError,
            400,
            "out_of_range",
            "until",
        ),
        (lambda c: c.record("1", "x", "p"), InvalidRequestError, 422, "unknown_kind", "kind"),
        (
            lambda c: c.record_posts("1", SEEN, []),
            InvalidRequestError,
            400,
            "out_of_range",
            "posts",
        ),
        (
            lambda c: c.record_batch([]),
            InvalidRequestError,
            400,
            "out_of_range",
            "activities",
        ),
    ],
)
def test_errors(
    client: Client,
    call: Callable[[Client], object],
    kind: Type[Error],
    status: int,
    code: str,
    field: str,
) -> None:
    with feedfilter.request_id("of-this-test"), pytest.raises(kind) as refused:
        call(client)
    error = refused.value
    assert (error.status, error.code, error.field) == (status, code, field)
    assert error.message and error.request_id == "of-this-test"
    assert str(error).startswith(f"{status} {code}: ")


def test_errors_of_json(unchecked: Client, uid: UID) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        unchecked.preview(uid("me"), "hide", [])
    assert (refused.value.code, refused.value.field) == ("out_of_range", "targets")
    with pytest.raises(InvalidRequestError) as refused:
        list(unchecked.export(uid("x") * 300))
    assert (refused.value.status, refused.value.code) == (400, "invalid_id")


def test_limit_reached(client: Client, uid: UID) -> None:
    for i in range(4):
        client.record(uid("me"), HIDE, uid(f"p{i}"))
    with pytest.raises(LimitReachedError) as refused:
        client.record(uid("me"), HIDE, uid("p4"))
    assert (refused.value.status, refused.value.limit) == (409, 4)


def test_tokens(guarded: str, token: str, uid: UID, tmp_path: Path) -> None:
    posts = [Post(uid("p"), uid("a"))]
    with Client(guarded) as c, pytest.raises(AccessDeniedError) as refused:
        c.filter(uid("me"), posts)
    assert (refused.value.status, refused.value.code) == (401, "unauthenticated")
    with Client(guarded, token="wrong") as c, pytest.raises(AccessDeniedError) as refused:
        list(c.export(uid("me")))
    assert (refused.value.status, refused.value.code) == (401, "unauthenticated")
    with Client(guarded, token=token) as c:
        assert c.filter(uid("me"), posts).kept == posts
        with pytest.raises(AccessDeniedError) as refused:
            c.record(uid("me"), LIKE, uid("p"))
    assert (refused.value.status, refused.value.code) == (403, "forbidden")
    file = tmp_path / "token"
    with Client(guarded, token=feedfilter.token_file(str(file))) as c:
        with pytest.raises(FileNotFoundError):
            c.count(uid("me"))
        file.write_text("\n")
        with pytest.raises(ValueError, match="is empty"):
            c.count(uid("me"))
        file.write_text(token + "\n")
        assert c.count(uid("me"))["like"] == 0


def test_unix_socket(socket_url: str, uid: UID) -> None:
    for given in (socket_url, socket_url.replace("unix:", "unix://")):
        with Client(given) as c:
            c.record(uid("me"), HIDE, uid("p"))
            assert c.filter(uid("me"), [Post(uid("p"), uid("a"))]).kept == []
            assert [a.target for a in c.export(uid("me"))] == [uid("p")]


# httpcore before 1.0 leaves an unconnected socket to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_unix_socket_without_a_service() -> None:
    with Client("unix:/nowhere/feedfilter.sock", max_attempts=1) as c:
        with pytest.raises(UnavailableError) as lost:
            c.ready()
    assert lost.value.status == 0
    del lost
    gc.collect()


def test_connections_are_kept(url: str, uid: UID, proxy: Callable[..., Proxy]) -> None:
    through = proxy(url)
    with Client(through.url, max_attempts=1) as c:
        for i in range(10):
            assert c.record(uid("me"), LIKE, uid(f"p{i}"))
        assert len(list(c.export(uid("me")))) == 10
        assert c.ready().answers
    assert through.connections == 1


def test_requests_are_sent_without_delay(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made: List[socket.socket] = []
    connect = socket.create_connection

    def create_connection(*args: Any, **settings: Any) -> socket.socket:
        made.append(connect(*args, **settings))
        return made[-1]

    monkeypatch.setattr(socket, "create_connection", create_connection)
    with Client(url) as c:
        c.count("1")
        assert [s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) for s in made] == [1]


def test_retry_after_closed_connections(url: str, uid: UID, proxy: Callable[..., Proxy]) -> None:
    through = proxy(url, cut=2)
    with Client(through.url) as c:
        assert c.record(uid("me"), LIKE, uid("p"))
        assert through.connections == 3
        through.break_connections()  # while it is idle
        assert c.count(uid("me"))["like"] == 1
        through.break_connections()
        assert [r.changed for r in c.record_stream([Activity(uid("me"), "like", uid("q"))])]
    through = proxy(url, cut=1)
    with Client(through.url, max_attempts=1) as c, pytest.raises(UnavailableError) as lost:
        c.count(uid("me"))
    assert (lost.value.status, lost.value.code) == (0, "")


def test_feed_that_records_is_not_retried(url: str, uid: UID, proxy: Callable[..., Proxy]) -> None:
    posts = [Post(uid("p"), uid("a"))]
    through = proxy(url, cut=1)
    with Client(through.url) as c:
        with pytest.raises(UnavailableError):
            c.filter(uid("me"), posts, record_seen=True)
        assert through.connections == 1
        assert c.filter(uid("me"), posts, record_seen=True).kept == posts


def test_threads(url: str, uid: UID) -> None:
    with Client(url) as c, ThreadPoolExecutor(16) as pool:

        def one(number: int) -> None:
            me = uid(f"me{number}")
            posts = [Post(uid(f"p{i}"), uid(f"a{i}")) for i in range(20)]
            assert c.record(me, BLOCK, uid(f"a{number % 20}"))
            feed = c.filter(me, posts)
            assert [d.index for d in feed.dropped] == [number % 20]
            assert c.remove(me, BLOCK, uid(f"a{number % 20}"))
            assert c.filter(me, posts).kept == posts

        assert len(list(pool.map(one, range(100)))) == 100
