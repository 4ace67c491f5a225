"""The client for asyncio."""

import asyncio
import ssl
from datetime import datetime
from types import TracebackType
from typing import (
    Any,
    AsyncIterable,
    AsyncIterator,
    Dict,
    Iterable,
    List,
    Optional,
    Sequence,
    Type,
    TypeVar,
    Union,
)

import httpx

from ._core import LIMITS, Answer, Call, Core, Pause, Piece, Query, Send, Token
from ._types import (
    ADD,
    REMOVE,
    Activity,
    Explanation,
    Fanout,
    Feed,
    Item,
    Kind,
    P,
    Post,
    Preview,
    Readiness,
    Result,
)

T = TypeVar("T")


class AsyncClient:
    """A client of one service for asyncio. It belongs to one event loop.

    Its calls may run concurrently. They take the arguments of those of Client, return the same
    values and raise the same errors, and so does the constructor.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Token = None,
        timeout: float = 15.0,
        max_attempts: int = 4,
        ssl_context: Optional[ssl.SSLContext] = None,
        transport: Optional[httpx.AsyncBaseTransport] = None,
        max_answer_bytes: int = 16 << 20,
        user_agent: str = "",
    ) -> None:
        self._core = Core(url, token, timeout, max_attempts, max_answer_bytes, user_agent)
        self._core.check_transport(transport is not None, ssl_context)
        self._transport = transport or httpx.AsyncHTTPTransport(
            verify=self._core.tls(ssl_context), limits=LIMITS, uds=self._core.socket
        )

    async def close(self) -> None:
        """Close the connections. The client must not be used afterwards."""
        await self._transport.aclose()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        await self.close()

    # Feeds.

    async def filter(
        self,
        viewer: str,
        posts: Sequence[P],
        *,
        kinds: Optional[Sequence[str]] = None,
        annotate: Sequence[str] = (),
        limit: Optional[int] = None,
        record_seen: bool = False,
        exact: bool = False,
        lists: Sequence[str] = (),
        after: Optional[str] = None,
        within: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> Feed[P]:
        """Return which of the posts a viewer sees.

        See Client.filter.
        """
        call = self._core.filter(
            viewer, posts, kinds, annotate, limit, record_seen, exact, lists, after, within
        )
        return await self._run(call, timeout)

    async def explain(
        self,
        viewer: str,
        post: Post,
        *,
        lists: Sequence[str] = (),
        after: Optional[str] = None,
        within: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> Explanation:
        """Return what a feed of the viewer does with the post, and why. It needs a ledger.

        See Client.explain.
        """
        return await self._run(self._core.explain(viewer, post, lists, after, within), timeout)

    async def fanout(
        self,
        post: Post,
        viewers: Sequence[str],
        *,
        kinds: Optional[Sequence[str]] = None,
        exact: bool = False,
        after: Optional[str] = None,
        within: Optional[float] = None,
        timeout: Optional[float] = None,
    ) -> Fanout:
        """Return which viewers must not get a new post. See Client.fanout."""
        call = self._core.fanout(post, viewers, kinds, exact, after, within)
        return await self._run(call, timeout)

    # Activities.

    async def record(
        self,
        user: str,
        kind: str,
        target: str,
        *,
        until: Optional[datetime] = None,
        timeout: Optional[float] = None,
    ) -> bool:
        """Record an activity, and return whether anything changed. See Client.record."""
        return await self._run(self._core.activity(user, kind, target, ADD, until), timeout)

    async def remove(
        self, user: str, kind: str, target: str, *, timeout: Optional[float] = None
    ) -> bool:
        """Undo an activity, and return whether there was one.

        See Client.remove.
        """
        return await self._run(self._core.activity(user, kind, target, REMOVE), timeout)

    async def record_posts(
        self, user: str, kind: str, posts: Sequence[str], *, timeout: Optional[float] = None
    ) -> int:
        """Record 1 to 1,000 posts of a kind with a window: `record_posts("1", SEEN, ["p7"])`.

        See Client.record_posts.
        """
        return await self._run(self._core.record_posts(user, kind, posts), timeout)

    async def record_batch(
        self, activities: Sequence[Activity], *, timeout: Optional[float] = None
    ) -> List[Result]:
        """Record and undo 1 to 10,000 activities, and return a result for each, in order.

        See Client.record_batch.
        """
        return await self._run(self._core.record_batch(activities), timeout)

    async def record_stream(
        self,
        activities: Union[Iterable[Activity], AsyncIterable[Activity]],
        *,
        timeout: Optional[float] = None,
    ) -> AsyncIterator[Result]:
        """Record and undo any number of activities, and yield a result for each, in order.

        See Client.record_stream.
        """
        piece = Piece()
        async for activity in _each(activities):
            full = piece.add(activity)
            if full:
                for result in await self._run(self._core.stream_piece(full), timeout):
                    yield result
        rest = piece.rest()
        if rest:
            for result in await self._run(self._core.stream_piece(rest), timeout):
                yield result

    async def get(
        self, user: str, kind: str, target: str, *, timeout: Optional[float] = None
    ) -> Optional[Item]:
        """Return the user's activity of a kind with the target, if any. See Client.get."""
        return await self._run(self._core.get(user, kind, target), timeout)

    async def list(
        self, user: str, kind: str, *, incoming: bool = False, timeout: Optional[float] = None
    ) -> AsyncIterator[Item]:
        """Yield the user's activities of a kind, newest first. See Client.list."""
        listing = self._core.listing(user, kind, incoming)
        while listing.call is not None:
            for item in listing.take(await self._run(listing.call, timeout)):
                yield item

    async def count(self, user: str, *, timeout: Optional[float] = None) -> Dict[str, int]:
        """Return the number of the user's activities by the name of their kind.

        See Client.count.
        """
        return await self._run(self._core.count(user), timeout)

    async def preview(
        self, user: str, kind: str, targets: Sequence[str], *, timeout: Optional[float] = None
    ) -> Preview:
        """Return what recording activities with 1 to 10,000 targets would change.

        See Client.preview.
        """
        return await self._run(self._core.preview(user, kind, targets), timeout)

    async def export(
        self, user: str, *, timeout: Optional[float] = None
    ) -> AsyncIterator[Activity]:
        """Yield all activities of the user in the ledger, by kind and target.

        See Client.export.
        """
        export = self._core.export(user, timeout)
        with export.reading():
            response = await self._transport.handle_async_request(export.request)
            try:
                export.begin(response)
                async for part in _parts(response):
                    for activity in export.add(part):
                        yield activity
                export.end(response)
            finally:
                await response.aclose()

    async def delete_user(self, user: str, *, timeout: Optional[float] = None) -> int:
        """Remove every trace of a user, which takes up to 5 minutes. It needs a ledger.

        See Client.delete_user.
        """
        return await self._run(self._core.delete_user(user), timeout)

    # The service.

    async def kinds(self, *, timeout: Optional[float] = None) -> List[Kind]:
        """Return the kinds of activities that the service knows. See Client.kinds."""
        return await self._run(self._core.kinds(), timeout)

    async def ready(self, *, timeout: Optional[float] = None) -> Readiness:
        """Ask once, without retries, whether the service can answer feeds. See Client.ready."""
        return await self._run(self._core.ready(), timeout)

    async def call(
        self,
        method: str,
        path: Sequence[str],
        *,
        query: Optional[Query] = None,
        body: object = None,
        timeout: Optional[float] = None,
    ) -> Any:
        """Make a call of the JSON API that the client has no method for, and return the answer.

        See Client.call.
        """
        return await self._run(self._core.call(method, path, query, body), timeout)

    async def _run(self, call: "Call[T]", timeout: Optional[float]) -> T:
        """Run the steps of the call."""
        steps = self._core.steps(call, timeout)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    await asyncio.sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    answer = await self._send(step)
                except Exception as e:
                    step = steps.throw(e)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    async def _send(self, send: Send) -> Answer:
        response = await self._transport.handle_async_request(send.request)
        try:
            async for part in _parts(response):
                send.add(part)
        finally:
            await response.aclose()
        return send.answer(response)


def _parts(response: httpx.Response) -> AsyncIterable[bytes]:
    """Return the parts of the body as they arrive."""
    assert isinstance(response.stream, httpx.AsyncByteStream)
    return response.stream


async def _each(
    activities: Union[Iterable[Activity], AsyncIterable[Activity]]
) -> AsyncIterator[Activity]:
    """Yield the members of either kind of iterable."""
    if isinstance(activities, AsyncIterable):
        async for activity in activities:
            yield activity
    else:
        for activity in activities:
            yield activity
