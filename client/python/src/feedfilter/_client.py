"""The client for threads."""

import socket
import ssl
import time
from datetime import datetime
from types import TracebackType
from typing import Any, Dict, Iterable, Iterator, List, Optional, Sequence, Type, TypeVar

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


class Client:
    """A client of one service. It is safe for concurrent use by threads.

    Create one and share it: it keeps up to 64 idle connections open, and limits the retries of
    all calls. It does not connect until the first call. In a server that forks, create it after the
    fork. Close it, or use it as a context manager.

    Every call raises a subclass of feedfilter.Error if it fails, and takes a `timeout` in seconds
    that replaces the client's. If a call, including its retries, has no answer in that time, it
    raises DeadlineExceededError. A server that sends an answer in small parts may take up to
    twice as long.

    Args:
        url: The service, such as "http://127.0.0.1:8080". It may have a path, which then precedes
            the service's paths. "unix:/run/feedfilter.sock" is a service on a Unix socket.
        token: The token, or a function that returns it before each attempt; it may be called
            concurrently. See token_file. None or "": no token.
        timeout: How many seconds a call may take, including retries. A renderer sets it to the
            time that it can wait, such as 0.2.
        max_attempts: The maximum number of attempts of a call, including the first. 1: no retries.
        ssl_context: Verifies the service, and may have a client certificate. None: the authorities
            of httpx.
        transport: Makes the requests instead of the client's own connections, for a proxy or a
            test. The client closes it. It excludes ssl_context and a Unix socket.
        max_answer_bytes: The maximum length of an answer, and of a line of an export, in bytes.
        user_agent: Sent with each request. "": "feedfilter-python/" and the version.

    Raises:
        ValueError: An argument is invalid. The message does not repeat the URL.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Token = None,
        timeout: float = 15.0,
        max_attempts: int = 4,
        ssl_context: Optional[ssl.SSLContext] = None,
        transport: Optional[httpx.BaseTransport] = None,
        max_answer_bytes: int = 16 << 20,
        user_agent: str = "",
    ) -> None:
        self._core = Core(url, token, timeout, max_attempts, max_answer_bytes, user_agent)
        self._core.check_transport(transport is not None, ssl_context)
        self._transport = transport or httpx.HTTPTransport(
            verify=self._core.tls(ssl_context), limits=LIMITS, uds=self._core.socket
        )

    def close(self) -> None:
        """Close the connections. The client must not be used afterwards."""
        self._transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    # Feeds.

    def filter(
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

        With record_seen, the call is retried only if no attempt can have taken effect. Otherwise,
        the service may already have recorded the kept posts as seen, and a retry would drop all of
        them.

        Args:
            viewer: The id of the user who looks at the feed.
            posts: Up to 10,000 candidates, in the order of the feed, with up to 20,000 ids of
                posts, related posts, authors, actors and facets, including repeated ones. Texts
                do not count.
            kinds: The names of the kinds to check, in this order. None: every kind that drops.
                Empty: none.
            annotate: The kinds to annotate kept posts with.
            limit: Ends the feed after that many kept posts, 1 to 10,000. None: no limit.
            record_seen: Record the kept posts as seen.
            exact: Let the ledger confirm what the filter reports.
            lists: Up to 20 shared lists: owners whose activities drop posts as if they were the
                viewer's, by kinds that the ledger keeps.
            after: A position of the followed database of the app, such as "0/16B3748": the feed
                has all that it had committed up to there. If the service does not get there in
                time, the error has the code "not_yet". None: what was recorded before the call.
            within: A time before the call in seconds, 0.001 to 86,400: the feed has all that the
                followed database of the app had committed until then, or the error has the code
                "not_yet". None: no time.
            timeout: Replaces the client's, in seconds.
        """
        call = self._core.filter(
            viewer, posts, kinds, annotate, limit, record_seen, exact, lists, after, within
        )
        return self._run(call, timeout)

    def explain(
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

        Args:
            viewer: The id of the user who looks at the feed.
            post: The candidate. With the id "": everything between the viewer and the author.
            lists: The shared lists of the feed.
            after: A position, as in filter.
            within: A time, as in filter.
            timeout: Replaces the client's, in seconds.
        """
        return self._run(self._core.explain(viewer, post, lists, after, within), timeout)

    def fanout(
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
        """Return which viewers must not get a new post, for apps that write posts into feeds.

        Args:
            post: The new post. It needs an author. Its id may be "".
            viewers: Up to 10,000 ids of users who would get the post.
            kinds: The names of the kinds to check, in this order. None: every kind that drops
                or keeps, and is two-way or has fanout. Empty: none.
            exact: Let the ledger confirm what the filter reports.
            after: A position, as in filter.
            within: A time, as in filter.
            timeout: Replaces the client's, in seconds.
        """
        call = self._core.fanout(post, viewers, kinds, exact, after, within)
        return self._run(call, timeout)

    # Activities.

    def record(
        self,
        user: str,
        kind: str,
        target: str,
        *,
        until: Optional[datetime] = None,
        timeout: Optional[float] = None,
    ) -> bool:
        """Record an activity, and return whether anything changed.

        `record("1", BLOCK, "2")` lets user 1 block user 2. When it returns, every later feed has
        the activity. After a retry, the result is about the last attempt. An earlier attempt whose
        answer was lost may have made the change.

        Args:
            user: The id of the user.
            kind: The kind, such as BLOCK.
            target: The id of the target, such as a user or a post.
            until: When the activity ends by itself: an aware datetime in the future, up to the
                year 9999. None: never.
            timeout: Replaces the client's, in seconds.
        """
        return self._run(self._core.activity(user, kind, target, ADD, until), timeout)

    def remove(self, user: str, kind: str, target: str, *, timeout: Optional[float] = None) -> bool:
        """Undo an activity, and return whether there was one; see record on retries."""
        return self._run(self._core.activity(user, kind, target, REMOVE), timeout)

    def record_posts(
        self, user: str, kind: str, posts: Sequence[str], *, timeout: Optional[float] = None
    ) -> int:
        """Record 1 to 1,000 posts of a kind with a window: `record_posts("1", SEEN, ["p7"])`.

        Returns:
            The number of distinct posts, which are all recorded now.
        """
        return self._run(self._core.record_posts(user, kind, posts), timeout)

    def record_batch(
        self, activities: Sequence[Activity], *, timeout: Optional[float] = None
    ) -> List[Result]:
        """Record and undo 1 to 10,000 activities, and return a result for each, in order.

        The service checks all of them first. If one is invalid, the call raises
        InvalidRequestError with its `field`, such as "activities[3].kind", and nothing changes.
        An `until` that has passed, or a `since` in the future, is the error of its result alone.
        """
        return self._run(self._core.record_batch(activities), timeout)

    def record_stream(
        self, activities: Iterable[Activity], *, timeout: Optional[float] = None
    ) -> Iterator[Result]:
        """Record and undo any number of activities, and yield a result for each, in order.

        An activity with an error does not end the stream. The client sends pieces of up to 500
        activities, and retries each piece like any other call. It yields the results of a piece
        before it reads the activities of the piece after the next. If a piece fails, the
        iteration raises its error. Activities without a result may or may not have taken effect;
        it is safe to repeat them. The activities of an export can be streamed unchanged.

        Args:
            activities: The activities.
            timeout: Replaces the client's, in seconds, for each piece.
        """
        piece = Piece()
        for activity in activities:
            full = piece.add(activity)
            if full:
                yield from self._run(self._core.stream_piece(full), timeout)
        rest = piece.rest()
        if rest:
            yield from self._run(self._core.stream_piece(rest), timeout)

    def get(
        self, user: str, kind: str, target: str, *, timeout: Optional[float] = None
    ) -> Optional[Item]:
        """Return the user's activity of a kind with the target, from the ledger. None: none."""
        return self._run(self._core.get(user, kind, target), timeout)

    def list(
        self, user: str, kind: str, *, incoming: bool = False, timeout: Optional[float] = None
    ) -> Iterator[Item]:
        """Yield the user's activities of a kind, newest first.

        It requests further parts while the caller reads.

        Args:
            user: The id of the user.
            kind: The kind, such as BLOCK.
            incoming: Yield the activities of others with the user, of a kind that targets users.
                If it is one-way and without fan-out, the order is that of a hash.
            timeout: Replaces the client's, in seconds, for each part.
        """
        listing = self._core.listing(user, kind, incoming)
        while listing.call is not None:
            yield from listing.take(self._run(listing.call, timeout))

    def count(self, user: str, *, timeout: Optional[float] = None) -> Dict[str, int]:
        """Return the number of the user's activities by the name of their kind."""
        return self._run(self._core.count(user), timeout)

    def preview(
        self, user: str, kind: str, targets: Sequence[str], *, timeout: Optional[float] = None
    ) -> Preview:
        """Return what recording activities with 1 to 10,000 targets would change.

        `kind` is the name of the kind, such as "block". The call changes nothing.
        """
        return self._run(self._core.preview(user, kind, targets), timeout)

    def export(self, user: str, *, timeout: Optional[float] = None) -> Iterator[Activity]:
        """Yield all activities of the user in the ledger, by kind and target.

        The call is not retried. If it raises an error, the activities before the error are
        incomplete. The timeout is for each step: the connection, and each wait for the next part
        of the answer. A caller that ends the iteration early should close the iterator.
        """
        export = self._core.export(user, timeout)
        with export.reading():
            response = self._open(export.request)
            try:
                export.begin(response)
                for part in _parts(response):
                    yield from export.add(part)
                export.end(response)
            finally:
                response.close()

    def delete_user(self, user: str, *, timeout: Optional[float] = None) -> int:
        """Remove every trace of a user, which takes up to 5 minutes. It needs a ledger.

        Its default timeout is 6 minutes instead of the client's. After an error, call it again to
        continue.

        Returns:
            The number of activities that the last attempt removed: the user's, and those of
            others with the user.
        """
        return self._run(self._core.delete_user(user), timeout)

    # The service.

    def kinds(self, *, timeout: Optional[float] = None) -> List[Kind]:
        """Return the kinds of activities that the service knows."""
        return self._run(self._core.kinds(), timeout)

    def ready(self, *, timeout: Optional[float] = None) -> Readiness:
        """Ask once, without retries, whether the service can answer feeds.

        If it cannot, that is an answer, not an error.
        """
        return self._run(self._core.ready(), timeout)

    def call(
        self,
        method: str,
        path: Sequence[str],
        *,
        query: Optional[Query] = None,
        body: object = None,
        timeout: Optional[float] = None,
    ) -> Any:
        """Make a call of the JSON API that the client has no method for, and return the answer.

        `call("GET", ["v1", "stats"])` returns the counters of the process. It retries, and raises
        errors, as all other calls do.

        Args:
            method: The HTTP method.
            path: The unescaped segments of the path.
            query: The query parameters.
            body: Sent as JSON. None: no body.
            timeout: Replaces the client's, in seconds.
        """
        return self._run(self._core.call(method, path, query, body), timeout)

    def _run(self, call: "Call[T]", timeout: Optional[float]) -> T:
        """Run the steps of the call."""
        steps = self._core.steps(call, timeout)
        try:
            step = next(steps)
            while True:
                if isinstance(step, Pause):
                    time.sleep(step.seconds)
                    step = next(steps)
                    continue
                try:
                    answer = self._send(step)
                except Exception as e:
                    step = steps.throw(e)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result

    def _send(self, send: Send) -> Answer:
        response = self._open(send.request)
        try:
            for part in _parts(response):
                send.add(part)
        finally:
            response.close()
        return send.answer(response)

    def _open(self, request: httpx.Request) -> httpx.Response:
        request.extensions = {**request.extensions, "trace": _without_delay}
        return self._transport.handle_request(request)


def _without_delay(event: str, info: Dict[str, Any]) -> None:
    """Send each part of a request at once.

    httpx before 0.25 uses Nagle's algorithm: the body of a request then waits up to 40 ms for the
    acknowledgement of its headers. asyncio turns it off.
    """
    if event == "connection.connect_tcp.complete":
        connection = info["return_value"].get_extra_info("socket")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _parts(response: httpx.Response) -> Iterable[bytes]:
    """Return the parts of the body as they arrive."""
    assert isinstance(response.stream, httpx.SyncByteStream)
    return response.stream
