"""AsyncClient against a service."""

import asyncio
import inspect
from typing import AsyncIterator, Callable, List

import httpx
import pytest

from feedfilter import (
    BLOCK,
    LIKE,
    SEEN,
    Activity,
    AsyncClient,
    Client,
    DeadlineExceededError,
    InvalidRequestError,
    Post,
    UnexpectedAnswerError,
)

from .agreement import AsyncChecked
from .conftest import Proxy

UID = Callable[[str], str]


def test_the_same_calls() -> None:
    def calls(of: type) -> List[str]:
        return [name for name in vars(of) if not name.startswith("_")]

    assert calls(AsyncClient) == calls(Client)
    for name in calls(Client):
        of_threads = inspect.signature(getattr(Client, name)).parameters.values()
        of_asyncio = inspect.signature(getattr(AsyncClient, name)).parameters.values()
        assert [(p.name, p.kind, p.default) for p in of_threads] == [
            (p.name, p.kind, p.default) for p in of_asyncio
        ], name


def test_every_call(url: str, async_transport: AsyncChecked, uid: UID) -> None:
    async def run() -> None:
        me = uid("me")
        async with AsyncClient(url, transport=async_transport, max_attempts=1) as c:
            assert await c.record(me, BLOCK, uid("a"))
            assert await c.record_posts(me, SEEN, [uid("p")]) == 1
            posts = [Post(uid("p"), uid("c")), Post(uid("q"), uid("a")), Post(uid("r"), uid("c"))]
            feed = await c.filter(me, posts)
            assert [(d.index, d.kind) for d in feed.dropped] == [(0, "seen"), (1, "block")]
            assert feed.kept == posts[2:]
            assert (await c.explain(me, posts[1])).dropped
            fanout = await c.fanout(Post("", me), [uid("x"), uid("a")])
            assert [(d.viewer, d.kind) for d in fanout.dropped] == [(uid("a"), "block")]
            batch = [Activity(me, "like", uid(f"p{i}")) for i in range(120)]
            assert all(r.changed for r in await c.record_batch(batch))
            assert len([item async for item in c.list(me, LIKE)]) == 120
            assert await c.get(me, LIKE, "none") is None
            assert (await c.count(me))["like"] == 120
            exported = [a async for a in c.export(me)]
            assert len(exported) == 121
            assert (await c.preview(me, "like", [uid("p0")])).present == 1
            assert await c.delete_user(me) == 121
            assert all([r.changed async for r in c.record_stream(exported)])

            async def later() -> AsyncIterator[Activity]:
                for i in range(600):
                    yield Activity(me, "like", uid(f"q{i}"))

            assert [r.changed async for r in c.record_stream(later())] == [True] * 600
            assert await c.remove(me, BLOCK, uid("a"))
            assert len(await c.kinds()) == 8 and (await c.ready()).answers
            assert await c.call("GET", ["healthz"]) == {"status": "ok"}
            with pytest.raises(InvalidRequestError) as refused:
                await c.record(me, BLOCK, me)
            assert (refused.value.code, refused.value.field) == ("self_block", "target")
            for call in (
                c.filter(me, posts, after="0/1"),
                c.explain(me, posts[1], after="0/1"),
                c.fanout(Post("", me), [uid("x")], after="0/1"),
            ):
                with pytest.raises(InvalidRequestError) as refused:
                    await call
                assert (refused.value.code, refused.value.field) == ("not_followed", "after")

    agreement = async_transport.agreement
    agreement.seen.clear()
    asyncio.run(run())
    procedures = {name for name in agreement.procedures if not name.endswith("/RecordStream")}
    assert set(agreement.seen) == procedures | {
        "deleteUser",
        "exportUser",
        "getHealth",
        "getKinds",
        "getReadiness",
        "previewActivities",
        "writeActivities",
    }


def test_export_that_is_refused(url: str) -> None:
    async def run() -> None:
        async with AsyncClient(url) as c:
            with pytest.raises(InvalidRequestError) as refused:
                assert [a async for a in c.export("x" * 257)] == []
            assert (refused.value.status, refused.value.code) == (400, "invalid_id")

    asyncio.run(run())


def test_concurrent_calls(url: str, uid: UID) -> None:
    async def run() -> None:
        async with AsyncClient(url) as c:

            async def one(number: int) -> int:
                me = uid(f"me{number}")
                await c.record(me, BLOCK, uid(f"a{number % 10}"))
                posts = [Post(uid(f"p{i}"), uid(f"a{i}")) for i in range(10)]
                return (await c.filter(me, posts)).dropped[0].index

            got = await asyncio.gather(*(one(i) for i in range(50)))
            assert list(got) == [i % 10 for i in range(50)]

    asyncio.run(run())


def test_retry_after_closed_connections(url: str, uid: UID, proxy: Callable[..., Proxy]) -> None:
    through = proxy(url, cut=1)

    async def run() -> None:
        async with AsyncClient(through.url) as c:
            assert await c.record(uid("me"), LIKE, uid("p"))

    asyncio.run(run())
    assert through.connections == 2


def test_unix_socket(socket_url: str) -> None:
    async def run() -> None:
        async with AsyncClient(socket_url) as c:
            assert (await c.ready()).answers

    asyncio.run(run())


def test_timeout(url: str, proxy: Callable[..., Proxy]) -> None:
    through = proxy(url)

    async def run() -> None:
        async with AsyncClient(through.url) as c:
            # On a busy machine the time may be up as a connection opens. anyio then leaves the
            # connection to the garbage collector, which warns. So there is an open one.
            assert (await c.ready()).answers
            through.silence()
            with pytest.raises(DeadlineExceededError):
                await c.count("1", timeout=0.05)

    asyncio.run(run())
    assert through.connections == 1


class Long(httpx.AsyncByteStream):
    """A long answer."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self.closed:
            yield bytes(1000)

    async def aclose(self) -> None:
        """Close the answer."""
        self.closed = True


class Lengthy(httpx.AsyncBaseTransport):
    """A service with long answers."""

    def __init__(self) -> None:
        self.answer = Long()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answer."""
        headers = {"content-type": "application/proto"}
        return httpx.Response(200, headers=headers, stream=self.answer)


def test_answer_that_is_too_long() -> None:
    service = Lengthy()

    async def run() -> None:
        async with AsyncClient("http://test", transport=service, max_answer_bytes=5000) as c:
            with pytest.raises(UnexpectedAnswerError, match="more than 5000 bytes"):
                await c.count("1")

    asyncio.run(run())
    assert service.answer.closed
