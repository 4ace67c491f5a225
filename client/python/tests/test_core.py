"""Retries, times, errors and invalid answers, without a service."""

import copy
import json
import random
import time
from base64 import b64encode
from datetime import datetime, timedelta, timezone
from typing import Any, Callable, Dict, List, Type, Union

import httpx
import pytest

import feedfilter
from feedfilter import (
    ADD,
    BLOCK,
    SEEN,
    AccessDeniedError,
    Activity,
    Actor,
    Client,
    DeadlineExceededError,
    Error,
    InvalidRequestError,
    OverloadedError,
    Post,
    UnavailableError,
    UnexpectedAnswerError,
)
from feedfilter.v1.activity_pb2 import CountResponse, ListResponse, RecordRequest, RecordResponse
from feedfilter.v1.error_pb2 import ErrorDetail
from feedfilter.v1.feed_pb2 import (
    ExplainRequest,
    ExplainResponse,
    FanoutRequest,
    FanoutResponse,
    FilterRequest,
    FilterResponse,
)

from .conftest import Mute

Reply = Union[httpx.Response, Exception]

SEVEN: Any = 7
POSTS = [Post("p0", "a"), Post("p1", "a"), Post("p2", "a")]


class Script:
    """A service with scripted answers, and the pauses of its client."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.replies: List[object] = []
        self.requests: List[httpx.Request] = []
        self.pauses: List[float] = []
        monkeypatch.setattr(time, "sleep", self.pauses.append)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, httpx.Response)
        return reply

    def client(self, *replies: object, **settings: Any) -> Client:
        """Return a client that gets these answers, one for each attempt."""
        self.replies += replies
        return Client("http://test", transport=httpx.MockTransport(self._answer), **settings)


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


def message(m: Any) -> httpx.Response:
    headers = {"content-type": "application/proto"}
    return httpx.Response(200, headers=headers, content=m.SerializeToString())


def refused(status: int, code: str, after: str = "", **fields: Any) -> httpx.Response:
    """Return a Connect error."""
    detail = ErrorDetail(code=code, message="why", http_status=status, **fields)
    value = b64encode(detail.SerializeToString()).decode().rstrip("=")
    headers = {"retry-after": after} if after else {}
    details = [
        {"type": "other", "value": ""},
        {"type": "feedfilter.v1.ErrorDetail", "value": value},
    ]
    return httpx.Response(status, headers=headers, json={"code": "x", "details": details})


CHANGED = RecordResponse(changed=True)


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_retries(script: Script, status: int) -> None:
    lost: List[Reply] = [
        httpx.ReadError("reset"),
        httpx.RemoteProtocolError("closed"),
        httpx.ConnectError("refused"),
    ]
    with script.client(
        refused(status, "unavailable"), message(CHANGED), *lost, message(CHANGED)
    ) as c:
        assert c.record("1", BLOCK, "2")
        assert len(script.pauses) == 1 and 0 <= script.pauses[0] <= 0.1
        assert c.record("1", BLOCK, "2")
    assert len(script.requests) == 6
    assert all(p <= most for p, most in zip(script.pauses[1:], (0.1, 0.2, 0.4)))
    assert len({r.content for r in script.requests}) == 1


def test_pauses_are_random_and_bounded(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda least, most: most)
    with script.client(*[httpx.ReadError("reset")] * 8, message(CHANGED), max_attempts=9) as c:
        assert c.record("1", BLOCK, "2", timeout=100)
    assert script.pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.0, 3.0, 3.0]


def test_retry_after(script: Script) -> None:
    with script.client(refused(503, "overloaded", "2"), message(CHANGED)) as c:
        assert c.record("1", BLOCK, "2")
    assert len(script.pauses) == 1 and 2 <= script.pauses[0] <= 2.1


@pytest.mark.parametrize("after, timeout", [("31", 100), ("14", 5)])
def test_retry_after_that_is_too_long(script: Script, after: str, timeout: float) -> None:
    with script.client(refused(503, "overloaded", after), timeout=timeout) as c:
        with pytest.raises(OverloadedError) as error:
            c.record("1", BLOCK, "2")
    assert error.value.retry_after == float(after) and script.pauses == []


@pytest.mark.parametrize(
    "reply", [refused(500, "internal"), refused(501, "no_ledger"), refused(409, "stuck")]
)
def test_no_retry(script: Script, reply: httpx.Response) -> None:
    with script.client(reply) as c, pytest.raises(Error):
        c.record("1", BLOCK, "2")
    assert len(script.requests) == 1


def test_attempts_end(script: Script) -> None:
    with script.client(*[refused(503, "unavailable")] * 4) as c:
        with pytest.raises(UnavailableError) as error:
            c.count("1")
    assert (error.value.status, error.value.code) == (503, "unavailable")
    assert len(script.requests) == 4


def test_budget_of_retries(script: Script) -> None:
    no = refused(503, "unavailable")
    with script.client(*[no] * 22, *[message(CHANGED)] * 10, no, no, max_attempts=2) as c:
        for _ in range(12):
            with pytest.raises(UnavailableError):
                c.record("1", BLOCK, "2")
        assert (len(script.requests), len(script.pauses)) == (22, 10)
        for _ in range(10):
            c.record("1", BLOCK, "2")
        with pytest.raises(UnavailableError):  # makes the retry that ten calls have earned
            c.record("1", BLOCK, "2")
    assert len(script.requests) == 34


def test_feed_with_record_seen(script: Script) -> None:
    ok = message(FilterResponse())
    retried: List[Reply] = [
        refused(503, "overloaded"),
        refused(429, "rate_limited"),
        refused(503, "audit_unavailable"),
    ]
    with script.client(refused(503, "not_yet"), ok) as c:
        assert c.filter("1", POSTS, record_seen=True, after="0/1").kept == POSTS
    with script.client(*retried, ok, httpx.ConnectError("refused"), ok) as c:
        assert c.filter("1", POSTS, record_seen=True).kept == POSTS
        assert c.filter("1", POSTS, record_seen=True).kept == POSTS
    for reply in (refused(503, "unavailable"), httpx.ReadError("reset"), httpx.Response(503)):
        script.requests.clear()
        with script.client(reply) as c, pytest.raises(UnavailableError):
            c.filter("1", POSTS, record_seen=True)
        assert len(script.requests) == 1


def test_timeout(mute: Mute) -> None:
    with Client(mute.url, timeout=0.05) as c:
        with pytest.raises(DeadlineExceededError, match="no answer in 0.05 s") as error:
            c.count("1")
    assert isinstance(error.value, TimeoutError) and error.value.status == 0


def test_timeout_is_sent_to_the_service(script: Script) -> None:
    with script.client(message(CHANGED), message(CHANGED), timeout=100) as c:
        c.record("1", BLOCK, "2")
        c.record("1", BLOCK, "2", timeout=300)
    told = [int(r.headers["connect-timeout-ms"]) for r in script.requests]
    assert 0 < told[0] <= 100_000 < told[1] <= 300_000
    assert 100 < script.requests[1].extensions["timeout"].get("read") <= 300


def test_timeout_of_a_call(mute: Mute) -> None:
    with Client(mute.url) as c, pytest.raises(DeadlineExceededError):
        list(c.export("1", timeout=0.05))


@pytest.mark.parametrize(
    "reply",
    [
        httpx.Response(200, headers={"content-type": "text/html"}, content=b"<p>Hello"),
        httpx.Response(200, headers={"content-type": "application/proto"}, content=b"\xff"),
        httpx.Response(404, content=b"nothing here"),
        httpx.Response(302, headers={"location": "/"}),
        httpx.Response(404, json={"error": "odd"}),
        httpx.Response(500, json={"details": [{"type": "feedfilter.v1.ErrorDetail", "value": 1}]}),
    ],
)
def test_foreign_answers(script: Script, reply: httpx.Response) -> None:
    with script.client(reply) as c, pytest.raises(UnexpectedAnswerError) as error:
        c.record("1", BLOCK, "2")
    assert error.value.status == reply.status_code
    assert len(script.requests) == 1


BARE = httpx.Response(
    400, headers={"content-type": "text/plain; charset=utf-8"}, content=b"400 Bad Request"
)


@pytest.mark.parametrize("bare", [BARE, httpx.Response(400, json={"error": "odd"})])
def test_bad_request_without_a_code(script: Script, bare: httpx.Response) -> None:
    """It says nothing about the request: the server of an overloaded process answered it."""
    with script.client(bare, message(CHANGED), bare, bare, max_attempts=2) as c:
        assert c.record("1", BLOCK, "2")
        assert len(script.requests) == 2
        with pytest.raises(UnavailableError) as error:
            c.record("1", BLOCK, "2")
        assert (error.value.status, error.value.code) == (400, "")
        assert len(script.requests) == 4
        script.replies = [bare]
        with pytest.raises(UnavailableError):  # it may have taken effect
            c.filter("1", [Post("p", author="2")], record_seen=True)
        assert len(script.requests) == 5


def test_answers_of_proxies(script: Script) -> None:
    with script.client(httpx.Response(502), httpx.Response(401), max_attempts=1) as c:
        with pytest.raises(UnavailableError, match="Bad Gateway") as error:
            c.count("1")
        assert (error.value.status, error.value.code) == (502, "")
        with pytest.raises(AccessDeniedError):
            c.count("1")


def test_answer_that_is_too_long(script: Script) -> None:
    answer = CountResponse(counts={"x" * 100: 1})
    with script.client(message(answer), message(answer), max_answer_bytes=100) as c:
        with pytest.raises(UnexpectedAnswerError, match="more than 100 bytes"):
            c.count("1")


@pytest.mark.parametrize(
    "answer",
    [
        {"dropped": [{"index": 3}]},
        {"dropped": [{"index": 1}, {"index": 1}]},
        {"dropped": [{"index": 2}, {"index": 1}]},
        {"next": 3},
        {"next": 1, "dropped": [{"index": 1}]},
        {"annotated": [{"kind": "like", "posts": [3]}]},
        {"annotated": []},
    ],
)
def test_feeds_that_do_not_fit_the_request(script: Script, answer: Dict[str, Any]) -> None:
    fields: Dict[str, Any] = {"annotated": [{"kind": "like"}], **answer}
    odd = FilterResponse(**fields)
    with script.client(message(odd)) as c, pytest.raises(UnexpectedAnswerError):
        c.filter("1", POSTS, annotate=["like"])


def test_degraded(script: Script) -> None:
    answer = FilterResponse(degraded=[{"kind": "seen", "reason": "down"}])
    with script.client(message(answer)) as c:
        assert c.filter("1", POSTS).degraded == [feedfilter.Degraded("seen", "down")]


def test_request_of_a_feed(script: Script) -> None:
    def sent() -> FilterRequest:
        request: FilterRequest = FilterRequest.FromString(script.requests[-1].content)
        return request

    with script.client(*[message(FilterResponse())] * 7) as c:
        c.filter("1", [Post("p"), Post("q")])
        assert not sent().authors and not sent().HasField("kinds") and sent().limit == 0
        c.filter("1", [Post("p"), Post("q", "a", ("b", "c"))], kinds=[], limit=7)
        assert list(sent().authors) == ["", "a"] and sent().HasField("kinds")
        assert list(sent().actors) == ["b", "c"] and list(sent().actor_posts) == [1, 1]
        assert sent().limit == 7 and not sent().exact and not sent().record_seen
        c.filter("1", [], exact=True, record_seen=True, kinds=("hide", "seen"))
        assert sent().exact and sent().record_seen
        assert list(sent().kinds.names) == ["hide", "seen"] and not sent().facets
        posts = [
            Post("p", facets={"tag": ("a", "b")}),
            Post("q"),
            Post("r", facets={"domain": ["x"], "tag": ["a"]}),
            Post("s", facets={"thread": []}),
        ]
        c.filter("1", posts)
        assert [(f.name, list(f.ids), list(f.posts)) for f in sent().facets] == [
            ("tag", ["a", "b", "a"], [0, 0, 2]),
            ("domain", ["x"], [2]),
            ("thread", [], []),
        ]
        assert not sent().actor_roles and not sent().related
        posts = [
            Post("p", actors=["1", "2"]),
            Post("q", actors=["3", Actor("4", "repost"), Actor("5")], related=("o", "r")),
            Post("r"),
            Post("s", actors=[Actor("6")], related=["o"]),
        ]
        c.filter("1", posts)
        assert list(sent().actors) == ["1", "2", "3", "4", "5", "6"]
        assert list(sent().actor_posts) == [0, 0, 1, 1, 1, 3]
        assert list(sent().actor_roles) == ["", "", "", "repost", "", ""]
        assert list(sent().related) == ["o", "r", "o"]
        assert list(sent().related_posts) == [1, 1, 3] and not sent().texts
        c.filter("1", [Post("p"), Post("q", text="é 💡"), Post("r", text="")])
        assert list(sent().texts) == ["", "é 💡", ""]


def test_request_of_an_explanation(script: Script) -> None:
    with script.client(message(ExplainResponse())) as c:
        tags = {"tag": ("x", "y"), "domain": ["x"]}
        c.explain("1", Post("p", "a", ["b", Actor("c", "quote")], tags, ["o"], "é"))
    post = ExplainRequest.FromString(script.requests[0].content).post
    assert (post.id, post.author, list(post.actors)) == ("p", "a", ["b", "c"])
    assert (list(post.actor_roles), list(post.related)) == (["", "quote"], ["o"])
    facets = [(f.name, list(f.ids), list(f.posts)) for f in post.facets]
    assert facets == [("tag", ["x", "y"], []), ("domain", ["x"], [])] and post.text == "é"


def test_requests_after_a_position(script: Script) -> None:
    def sent() -> List[str]:
        types: List[Any] = [FilterRequest, ExplainRequest, FanoutRequest]
        return [of.FromString(r.content).after for of, r in zip(types, script.requests[-3:])]

    answers = [message(FilterResponse()), message(ExplainResponse()), message(FanoutResponse())]
    with script.client(*answers * 2) as c:
        c.filter("1", POSTS, after="0/1")
        c.explain("1", POSTS[0], after="0/2")
        c.fanout(POSTS[0], ["1"], after="0/3")
        assert sent() == ["0/1", "0/2", "0/3"]
        c.filter("1", POSTS)
        c.explain("1", POSTS[0])
        c.fanout(POSTS[0], ["1"])
        assert sent() == ["", "", ""]


def test_position_that_the_service_reaches_later(script: Script) -> None:
    no = refused(503, "not_yet", "1", field="after")
    with script.client(no, message(FilterResponse()), no) as c:
        assert c.filter("1", POSTS, after="0/16B3748").kept == POSTS
        assert len(script.pauses) == 1 and 1 <= script.pauses[0] <= 1.1
        with pytest.raises(UnavailableError) as error:
            c.filter("1", POSTS, after="0/16B3748", timeout=0.5)
    assert (error.value.code, error.value.field) == ("not_yet", "after")


def test_posts_do_not_share_facets() -> None:
    one, other = Post("p"), Post("p")
    assert one == other and one.facets == {} and one.facets is not other.facets
    assert copy.deepcopy(one) == one != Post("p", facets={"tag": ["x"]})


AWARE = datetime(2030, 1, 1, tzinfo=timezone(timedelta(hours=-8)))


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.filter("1", POSTS, limit=0),
        lambda c: c.filter("1", POSTS, limit=-1),
        lambda c: c.filter("1", POSTS, limit=1 << 32),
        lambda c: c.filter("\ud800", POSTS),
        lambda c: c.filter("1", [Post("p", facets={"tag": ["\ud800"]})]),
        lambda c: c.filter("1", [Post("p", actors=[Actor("a", "\ud800")])]),
        lambda c: c.filter("1", [Post("p", related=["\ud800"])]),
        lambda c: c.filter("1", [Post("p", text="\ud800")]),
        lambda c: c.fanout(Post("p", "a", text="\ud800"), ["1"]),
        lambda c: c.filter("1", [Post("p", facets={"\ud800": []})]),
        lambda c: c.filter("1", POSTS, after="\ud800"),
        lambda c: c.record("1", BLOCK, "2", until=AWARE.replace(tzinfo=None)),
        lambda c: c.record_batch([Activity("1", "block", "2", "undo")]),
        lambda c: list(c.record_stream([Activity("1", "block", "2", ADD, datetime(2020, 1, 1))])),
        lambda c: list(c.record_stream([Activity("1", "block", "2", "undo")])),
    ],
)
def test_requests_that_are_not_sent(script: Script, call: Callable[[Client], object]) -> None:
    with script.client() as c, pytest.raises(InvalidRequestError) as error:
        call(c)
    assert isinstance(error.value, ValueError) and script.requests == []


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.filter("1", POSTS, kinds="block"),
        lambda c: c.filter("1", POSTS, lists="L"),
        lambda c: c.fanout(Post("", "1"), "2"),
        lambda c: c.explain("1", POSTS[0], lists="L"),
        lambda c: c.filter("1", POSTS, annotate="like"),
        lambda c: c.filter("1", [Post("p", "a", "b")]),
        lambda c: c.filter("1", [Post("p", "a", facets={"tag": "x"})]),
        lambda c: c.filter("1", [Post("p", "a", related="x")]),
        lambda c: c.explain("1", Post("p", "a", related="x")),
        lambda c: c.explain("1", Post("p", "a", facets={"tag": "x"})),
        lambda c: c.record_posts("1", SEEN, "p7"),
        lambda c: c.preview("1", "block", "2"),
        lambda c: c.call("GET", "v1"),
    ],
)
def test_arguments_of_the_wrong_type(script: Script, call: Callable[[Client], object]) -> None:
    with script.client() as c, pytest.raises(TypeError):
        call(c)
    assert script.requests == []


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.filter(SEVEN, POSTS),
        lambda c: c.filter("1", [Post("p", "a"), Post(SEVEN, "a")]),
        lambda c: c.filter("1", [Post("p", SEVEN)]),
        lambda c: c.filter("1", [Post("p", "a", ["b", SEVEN])]),
        lambda c: c.filter("1", [Post("p", "a", [Actor(SEVEN, "repost")])]),
        lambda c: c.filter("1", [Post("p", "a", related=[SEVEN])]),
        lambda c: c.filter("1", [Post("p", "a", facets={"tag": [SEVEN]})]),
        lambda c: c.filter("1", POSTS, lists=[SEVEN]),
        lambda c: c.filter("1", POSTS, after=SEVEN),
        lambda c: c.explain("1", POSTS[0], after=SEVEN),
        lambda c: c.fanout(Post("p", "a"), ["1"], after=SEVEN),
        lambda c: c.explain("1", Post(SEVEN, "a")),
        lambda c: c.fanout(Post("p", SEVEN), ["1"]),
        lambda c: c.fanout(Post("p", "a"), [SEVEN]),
        lambda c: c.record(SEVEN, BLOCK, "2"),
        lambda c: c.record("1", BLOCK, SEVEN),
        lambda c: c.record_posts("1", SEEN, [SEVEN]),
        lambda c: c.record_batch([Activity("1", "block", SEVEN)]),
        lambda c: list(c.record_stream([Activity(SEVEN, "block", "2")])),
        lambda c: list(c.list(SEVEN, BLOCK)),
        lambda c: c.get("1", BLOCK, SEVEN),
        lambda c: c.count(SEVEN),
        lambda c: list(c.export(SEVEN)),
        lambda c: c.preview(SEVEN, "block", ["2"]),
        lambda c: c.preview("1", "block", [SEVEN]),
        lambda c: c.delete_user(SEVEN),
    ],
)
def test_integer_ids(script: Script, call: Callable[[Client], object]) -> None:
    with script.client() as c, pytest.raises(InvalidRequestError, match="7 is of type int") as e:
        call(c)
    assert e.value.code == "invalid_id" and script.requests == []


@pytest.mark.parametrize(
    "call, field",
    [
        (lambda c: c.filter(SEVEN, POSTS), "viewer"),
        (lambda c: c.filter("1", [Post("p", "a"), Post(SEVEN, "a")]), "posts[1].id"),
        (lambda c: c.filter("1", [Post("p", "a", [Actor(SEVEN)])]), "posts[0].actors[0].id"),
        (lambda c: c.filter("1", [Post("p", facets={"tag": [SEVEN]})]), "posts[0].facets.tag[0]"),
        (lambda c: c.filter("1", [Post("p"), Post("q", text=SEVEN)]), "posts[1].text"),
        (lambda c: c.record_batch([Activity("1", "block", SEVEN)]), "activities[0].target"),
        (lambda c: list(c.record_stream([Activity("1", "block", SEVEN)])), "target"),
        (lambda c: c.delete_user(SEVEN), "path"),
    ],
)
def test_fields_of_integer_ids(
    script: Script, call: Callable[[Client], object], field: str
) -> None:
    with script.client() as c, pytest.raises(InvalidRequestError) as error:
        call(c)
    assert error.value.field == field


def test_times(script: Script) -> None:
    moment = {"seconds": -1, "nanos": 123_456_999}
    items = [{"target": "2", "since": moment, "until": {"seconds": 253_402_300_799}}]
    with script.client(message(ListResponse(items=items)), message(CHANGED)) as c:
        [item] = c.list("1", BLOCK)
        assert item.since == datetime(1969, 12, 31, 23, 59, 59, 123456, tzinfo=timezone.utc)
        assert item.until == datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone.utc)
        c.record("1", BLOCK, "2", until=AWARE)
    until = RecordRequest.FromString(script.requests[1].content).until
    assert until.seconds == int(AWARE.timestamp()) and until.nanos == 0


def ndjson(*lines: object, end: bytes = b"\n") -> httpx.Response:
    content = b"\n".join(json.dumps(line).encode() for line in lines) + end
    return httpx.Response(200, headers={"content-type": "application/x-ndjson"}, content=content)


LINE = {"user": "1", "kind": "block", "target": "2", "op": "add"}


@pytest.mark.parametrize(
    "text, want",
    [
        ("2026-11-20T09:30:00Z", datetime(2026, 11, 20, 9, 30, tzinfo=timezone.utc)),
        (
            "2026-11-20T09:30:00.5+01:00",
            datetime(2026, 11, 20, 8, 30, 0, 500000, tzinfo=timezone.utc),
        ),
        (
            "2026-11-20t09:30:00.0001239z",
            datetime(2026, 11, 20, 9, 30, 0, 123, tzinfo=timezone.utc),
        ),
    ],
)
def test_times_in_json(script: Script, text: str, want: datetime) -> None:
    with script.client(ndjson({**LINE, "since": text})) as c:
        assert [a.since for a in c.export("1")] == [want]


@pytest.mark.parametrize(
    "reply, kind, before",
    [
        (ndjson(LINE, LINE, end=b""), UnavailableError, 1),
        (ndjson(LINE, {"user": "1"}), UnexpectedAnswerError, 1),
        (ndjson({**LINE, "since": "yesterday"}), UnexpectedAnswerError, 0),
        (ndjson(LINE, [LINE]), UnexpectedAnswerError, 1),
        (ndjson("x" * 1000), UnexpectedAnswerError, 0),
        (httpx.Response(200, json={}), UnexpectedAnswerError, 0),
        (httpx.ReadError("reset"), UnavailableError, 0),
    ],
)
def test_exports_that_break_off(
    script: Script, reply: Reply, kind: Type[Error], before: int
) -> None:
    with script.client(reply, max_answer_bytes=500) as c:
        got = []
        with pytest.raises(kind):
            for activity in c.export("1"):
                got.append(activity)
    assert len(got) == before and len(script.requests) == 1


def test_streams_that_break_off(script: Script) -> None:
    done = {"changed": True}
    error = {"error": {"code": "unauthenticated", "message": "expired"}}
    activities = [Activity("1", "block", str(i)) for i in range(501)]
    short = ndjson(*[done] * 499)
    with script.client(short, ndjson(*[done] * 500), ndjson(error)) as c:
        results = list(c.record_stream(activities))
    assert [r.changed for r in results] == [True] * 500 + [False]
    assert isinstance(results[500].error, AccessDeniedError)
    lines = [r.content.count(b"\n") for r in script.requests]
    assert lines == [500, 500, 1]


def test_pieces_of_a_stream_are_bounded() -> None:
    lengths = []

    def answer(request: httpx.Request) -> httpx.Response:
        lengths.append(len(request.content))
        return ndjson(*[{"changed": True}] * request.content.count(b"\n"))

    activities = [Activity("1" * 250, "block", "2" * 250) for _ in range(300)]
    with Client("http://test", transport=httpx.MockTransport(answer)) as c:
        assert len(list(c.record_stream(activities))) == 300
    assert len(lengths) == 3 and max(lengths) <= 64 << 10


def test_tokens(script: Script) -> None:
    tokens = iter(["first", "second", ""])
    replies = [refused(503, "unavailable"), message(CHANGED), message(CHANGED)]
    with script.client(*replies, token=lambda: next(tokens)) as c:
        c.record("1", BLOCK, "2")
        c.record("1", BLOCK, "2")
    assert [r.headers.get("authorization") for r in script.requests] == [
        "Bearer first",
        "Bearer second",
        None,
    ]
    with script.client(token="two words") as c, pytest.raises(ValueError, match="token"):
        c.count("1")


def test_request_id() -> None:
    with pytest.raises(ValueError):
        with feedfilter.request_id("two words"):
            pass


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "ftp://host",
        "http://",
        "http://user:password@host",
        "http://host?a=b",
        "http://host#a",
        "unix:",
        "http://host:port",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(ValueError) as error:
        Client(url)
    assert "password" not in str(error.value)


@pytest.mark.parametrize(
    "settings",
    [{"timeout": 0}, {"timeout": float("inf")}, {"max_attempts": 0}, {"max_answer_bytes": 0}],
)
def test_settings_that_are_refused(settings: Dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Client("http://host", **settings)


def test_url_with_a_path() -> None:
    paths = []

    def answer(request: httpx.Request) -> httpx.Response:
        paths.append(request.url.raw_path)
        return httpx.Response(503)

    transport = httpx.MockTransport(answer)
    with Client("https://host/below/", transport=transport, max_attempts=1) as c:
        with pytest.raises(UnavailableError):
            c.count("1")
        for user in ("a/..", ".."):
            with pytest.raises(UnavailableError):
                c.delete_user(user)
    assert paths == [
        b"/below/feedfilter.v1.ActivityService/Count",
        b"/below/v1/users/a%2F..",
        b"/below/v1/users/%2E%2E",
    ]
