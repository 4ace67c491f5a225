"""The common part of Client and AsyncClient: requests, answers and retries, without I/O.

Core.steps is a generator. It yields the next step, a Send or a Pause, and takes the answer of a
Send. Each client is a loop that runs these steps in its own way.
"""

import base64
import binascii
import http
import math
import random
import re
import ssl
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import (
    Callable,
    Dict,
    Generator,
    Generic,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Type,
    TypeVar,
    Union,
)
from urllib.parse import quote, urlencode

import httpx
from google.protobuf.message import DecodeError

from . import _wire as wire
from ._errors import (
    AccessDeniedError,
    DeadlineExceededError,
    Error,
    OverloadedError,
    UnavailableError,
    UnexpectedAnswerError,
    class_of,
    retryable,
)
from ._types import (
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
from ._version import __version__
from .v1.activity_pb2 import (
    CountRequest,
    CountResponse,
    ListRequest,
    RecordPostsRequest,
    RecordPostsResponse,
    RecordRequest,
    RecordResponse,
)
from .v1.error_pb2 import ErrorDetail
from .v1.feed_pb2 import ExplainRequest, FanoutRequest

T = TypeVar("T")

Token = Union[None, str, Callable[[], str]]
Query = Mapping[str, Union[str, int]]

PROTO = "application/proto"
JSON = "application/json"
NDJSON = "application/x-ndjson"

FEED = "feedfilter.v1.FeedService"
ACTIVITY = "feedfilter.v1.ActivityService"

FIRST_PAUSE = 0.1  # limits the random pause before the second attempt; doubles with each attempt
LONG_PAUSE = 3.0  # limits every random pause
LONGEST_WAIT = 30.0  # the longest Retry-After for which the client waits
MAX_BUDGET = 100  # in tenths of a retry; each successful call regains one
RETRY = 10  # what a retry takes from the budget

IDLE = 60.0  # seconds until an idle connection is closed: shorter than the service's
KEPT = 64  # idle connections
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT, keepalive_expiry=IDLE)
ERROR_BYTES = 64 << 10  # of an error answer
DELETE_TIMEOUT = 360.0  # longer than a deletion takes

FIRST_ITEMS = 100  # in the first part of a list, for callers that read only its beginning
MORE_ITEMS = 1000  # in every further part

# A piece of a stream fits into the buffers of a connection, so it is sent completely before the
# first result is read.
PIECE_LINES = 500
PIECE_BYTES = 64 << 10

_VISIBLE = re.compile(r"[!-~]+")
_REQUEST_ID = re.compile(r"[0-9A-Za-z._-]{1,64}")
_request_id: ContextVar[str] = ContextVar("feedfilter_request_id", default="")


@contextmanager
def request_id(value: str) -> Iterator[None]:
    """Send an id with the calls in this context, for the service's log.

    The id is 1 to 64 ASCII letters, digits and "-_.". It applies to the current thread or task.

    Raises:
        ValueError: The id is invalid.
    """
    if not _REQUEST_ID.fullmatch(value):
        raise ValueError(f"request id: {value!r} is not 1 to 64 ASCII letters, digits and -_.")
    before = _request_id.set(value)
    try:
        yield
    finally:
        _request_id.reset(before)


def token_file(path: str) -> Callable[[], str]:
    """Return a token function that reads a file and strips white space.

    It reads the file for each attempt, so the file may be replaced at any time. A call fails with
    an OSError if the file cannot be read, and with a ValueError if the file is empty.
    """

    def read() -> str:
        with open(path, encoding="utf-8") as file:
            token = file.read().strip()
        if not token:
            raise ValueError(f"read the token: {path} is empty")
        return token

    return read


@dataclass
class Call(Generic[T]):
    """One call of the API."""

    path: str
    content: Callable[[], Optional[bytes]]
    parse: Callable[[bytes], T]
    method: str = "POST"
    type: str = PROTO  # of the request, if it has a body
    answer: str = PROTO  # media type of the answer
    once: bool = False  # must not be retried if it may have taken effect
    retried: bool = True
    also: int = 0  # a status whose answer is read like that of 2xx
    timeout: Optional[float] = None  # of the whole call; None: the client's
    # The ids and names in the arguments by field, for errors.
    given: Mapping[str, object] = field(default_factory=dict)


@dataclass
class Answer:
    """The answer to a request."""

    status: int
    headers: httpx.Headers
    body: bytes


class Send:
    """An attempt: a request, the limits of its answer, and the body so far."""

    def __init__(self, request: httpx.Request, deadline: float, limit: int) -> None:
        self.request = request
        self._deadline = deadline
        self._limit = limit
        self._body = bytearray()

    def add(self, part: bytes) -> None:
        """Add a part of the body. Raise an error if the body is too long or too late."""
        self._body += part
        if len(self._body) > self._limit:
            raise UnexpectedAnswerError(f"{where(self.request)}: more than {self._limit} bytes")
        if time.monotonic() >= self._deadline:
            raise httpx.ReadTimeout("the answer is incomplete at timeout", request=self.request)

    def answer(self, response: httpx.Response) -> Answer:
        """Return the answer, after its whole body has been added."""
        return Answer(response.status_code, response.headers, bytes(self._body))


class Remaining(Dict[str, float]):
    """The timeouts of the steps of a request. Each step gets the remaining time."""

    def __init__(self, timeouts: Mapping[str, float], deadline: float) -> None:
        super().__init__(timeouts)
        self._deadline = deadline

    def get(self, key: str, default: object = None) -> float:
        """Return the seconds that are left."""
        return max(self._deadline - time.monotonic(), 0.001)


@dataclass
class Pause:
    """Wait for that many seconds."""

    seconds: float


Steps = Generator[Union[Send, Pause], Optional[Answer], T]


class Budget:
    """Limits the retries of all calls together. It is safe for concurrent use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = MAX_BUDGET

    def take(self) -> bool:
        """Take one retry, if one is left, and return whether it was."""
        with self._lock:
            if self._left < RETRY:
                return False
            self._left -= RETRY
            return True

    def earn(self) -> None:
        """Regain a tenth of a retry."""
        with self._lock:
            self._left = min(self._left + 1, MAX_BUDGET)


def where(request: httpx.Request) -> str:
    """Return the method and the path of a request."""
    return f"{request.method} {request.url.path}"


def escaped(segment: str) -> str:
    """Escape a segment of a path; "." and ".." have a special meaning there."""
    wire.check_texts("path", segment)
    if segment and not segment.strip("."):
        return segment.replace(".", "%2E")
    return quote(segment, safe="")


def path_of(segments: Sequence[str]) -> str:
    """Return the path of unescaped segments."""
    return "".join("/" + escaped(segment) for segment in segments)


def nothing() -> Optional[bytes]:
    """Return the content of a request without a body."""
    return None


class Core:
    """The settings and the calls of a client. It is safe for concurrent use."""

    def __init__(
        self,
        url: str,
        token: Token,
        timeout: float,
        max_attempts: int,
        max_answer_bytes: int,
        user_agent: str,
    ) -> None:
        self.socket: Optional[str] = None
        if url.startswith("unix:"):
            self.socket, url = url[5:], "http://localhost"
            if self.socket.startswith("//"):
                self.socket = self.socket[2:]
            if not self.socket:
                raise ValueError("url: unix: the path of the socket is missing")
        self._base = _base(url)
        self._prefix = self._base.raw_path.rstrip(b"/")
        self._token = token
        self._max_attempts = max_attempts
        self.max_answer_bytes = max_answer_bytes
        self._agent = user_agent or "feedfilter-python/" + __version__
        self._budget = Budget()
        self._urls: Dict[str, httpx.URL] = {}  # of procedures
        self.timeout = checked_timeout(timeout)
        if max_attempts < 1:
            raise ValueError(f"max_attempts: {max_attempts} is less than 1")
        if max_answer_bytes < 1:
            raise ValueError(f"max_answer_bytes: {max_answer_bytes} is less than 1")

    # Requests.

    def _url(self, path: str) -> httpx.URL:
        url = self._urls.get(path)
        if url is None:
            url = self._base.copy_with(raw_path=self._prefix + path.encode("ascii"))
            if path.startswith("/feedfilter."):
                self._urls[path] = url
        return url

    def request(
        self, call: "Call[T]", content: Optional[bytes], seconds: float, whole: bool = True
    ) -> httpx.Request:
        """Return a request. The seconds limit the whole request, or with whole=False each step."""
        headers = {"User-Agent": self._agent, "Accept-Encoding": "identity", "Accept": "*/*"}
        if content is not None:
            headers["Content-Type"] = call.type
        if call.type == PROTO:
            headers["Connect-Protocol-Version"] = "1"
            headers["Connect-Timeout-Ms"] = str(min(math.ceil(seconds * 1000), 9_999_999_999))
        name = _request_id.get()
        if name:
            headers["X-Request-ID"] = name
        token = self._token() if callable(self._token) else self._token
        if token:
            if not _VISIBLE.fullmatch(token):
                raise ValueError("token: contains characters other than visible ASCII")
            headers["Authorization"] = "Bearer " + token
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), seconds)
        if whole:
            timeouts = Remaining(timeouts, time.monotonic() + seconds)
        return httpx.Request(
            call.method,
            self._url(call.path),
            headers=headers,
            content=content,
            extensions={"timeout": timeouts},
        )

    # Retries.

    def steps(self, call: "Call[T]", timeout: Optional[float] = None) -> "Steps[T]":
        """Make a call: yield its steps, and return its result."""
        total = self.timeout if call.timeout is None else call.timeout
        if timeout is not None:
            total = checked_timeout(timeout)
        deadline = time.monotonic() + total
        try:
            content = call.content()
        except Error:
            raise
        except ValueError as e:
            raise wire.invalid("", "", f"encode the request: {e}") from e
        except TypeError:
            for name, value in call.given.items():
                wire.check_texts(name, value)
            raise
        attempt = 1
        while True:
            left = deadline - time.monotonic()
            if left <= 0:  # the time ended after the pause
                raise DeadlineExceededError(f"{call.method} {call.path}: no answer in {total:g} s")
            request = self.request(call, content, left)
            send = Send(request, deadline, self.max_answer_bytes)
            cause: Optional[Exception] = None
            unsent = False
            error: Error
            try:
                answer = yield send
                assert answer is not None
                result = self._result(call, request, answer)
            except (httpx.TransportError, CutOffError) as e:
                error, cause = lost(request, e, total), e
                unsent = isinstance(
                    e, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
                )
            except Error as e:
                error = e
            else:
                self._budget.earn()
                return result
            pause = self._pause(call, attempt, error, unsent, deadline)
            if pause is None:
                raise error from cause
            yield Pause(pause)
            attempt += 1

    def _pause(
        self, call: "Call[T]", attempt: int, error: Error, unsent: bool, deadline: float
    ) -> Optional[float]:
        """Return the seconds until the next attempt. None: no further attempt."""
        if not call.retried or attempt >= self._max_attempts:
            return None
        if not isinstance(error, UnavailableError):
            return None
        if error.status != 0 and not retryable(error.status, error.code):
            return None
        if call.once and not unsent and not _harmless(error):
            return None
        if error.retry_after > LONGEST_WAIT or isinstance(error, DeadlineExceededError):
            return None
        if not self._budget.take():
            return None
        pause = random.uniform(0, min(FIRST_PAUSE * 2 ** (attempt - 1), LONG_PAUSE))
        if error.retry_after:
            pause = error.retry_after + random.uniform(0, FIRST_PAUSE)
        return pause if time.monotonic() + pause < deadline else None

    # Answers.

    def _result(self, call: "Call[T]", request: httpx.Request, answer: Answer) -> T:
        if answer.status // 100 != 2 and answer.status != call.also:
            raise failure(request, answer)
        expect(request, answer.status, answer.headers, call.answer)
        try:
            return call.parse(answer.body)
        except CutOffError:
            raise
        except (DecodeError, wire.OddError) as e:
            raise UnexpectedAnswerError(f"{where(request)}: {e}", status=answer.status) from e

    def check_transport(self, given: bool, context: Optional[ssl.SSLContext]) -> None:
        """Refuse the caller's transport with settings that only the client's own transport uses."""
        if given and (self.socket is not None or context is not None):
            raise ValueError("transport: excludes a Unix socket and ssl_context")

    def tls(self, context: Optional[ssl.SSLContext]) -> Union[bool, ssl.SSLContext]:
        """Return what verifies the server: by default the authorities of httpx."""
        if context is None and self._base.scheme == "https":
            return True
        # Without TLS, skip loading the authorities, which is slow.
        return context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)

    # Calls.

    def filter(
        self,
        viewer: str,
        posts: Sequence[P],
        kinds: Optional[Sequence[str]],
        annotate: Sequence[str],
        limit: Optional[int],
        record_seen: bool,
        exact: bool,
        lists: Sequence[str],
        after: Optional[str],
        within: Optional[float],
    ) -> "Call[Feed[P]]":
        return Call(
            _procedure(FEED, "Filter"),
            lambda: wire.filter_request(
                viewer, posts, kinds, annotate, limit, record_seen, exact, lists, after, within
            ),
            lambda text: wire.feed_of(text, posts, annotate),
            once=record_seen,
            given={
                "viewer": viewer,
                "posts": posts,
                "kinds": kinds,
                "annotate": annotate,
                "lists": lists,
                "after": after,
            },
        )

    def explain(
        self,
        viewer: str,
        post: Post,
        lists: Sequence[str],
        after: Optional[str],
        within: Optional[float],
    ) -> "Call[Explanation]":
        def content() -> bytes:
            request = ExplainRequest(
                viewer=viewer,
                lists=wire.names("lists", lists),
                after=after,
                within=wire.duration(within),
            )
            request.post.id = post.id
            wire.fill_post(request.post, post)
            return wire.encoded(request)

        given = {"viewer": viewer, "post": post, "lists": lists, "after": after}
        return Call(_procedure(FEED, "Explain"), content, wire.explanation_of, given=given)

    def fanout(
        self,
        post: Post,
        viewers: Sequence[str],
        kinds: Optional[Sequence[str]],
        exact: bool,
        after: Optional[str],
        within: Optional[float],
    ) -> "Call[Fanout]":
        def content() -> bytes:
            request = FanoutRequest(
                post=post.id,
                viewers=wire.names("viewers", viewers),
                exact=exact,
                after=after,
                within=wire.duration(within),
            )
            wire.fill_post(request, post)
            if kinds is not None:
                request.kinds.SetInParent()
                request.kinds.names.extend(wire.names("kinds", kinds))
            return wire.encoded(request)

        return Call(
            _procedure(FEED, "Fanout"),
            content,
            lambda text: wire.fanout_of(text, viewers),
            given={"post": post, "viewers": viewers, "kinds": kinds, "after": after},
        )

    def activity(
        self, user: str, kind: str, target: str, op: str, until: object = None
    ) -> "Call[bool]":
        def content() -> bytes:
            request = RecordRequest(user=user, plural=kind, target=target, op=wire.op("op", op))
            wire.stamp("until", until, request.until)  # type: ignore[arg-type]  # as the caller has
            return wire.encoded(request)

        return Call(
            _procedure(ACTIVITY, "Record"),
            content,
            lambda text: wire.read(RecordResponse(), text).changed,
            given={"user": user, "kind": kind, "target": target},
        )

    def record_posts(self, user: str, kind: str, posts: Sequence[str]) -> "Call[int]":
        return Call(
            _procedure(ACTIVITY, "RecordPosts"),
            lambda: wire.encoded(
                RecordPostsRequest(user=user, plural=kind, posts=wire.names("posts", posts))
            ),
            lambda text: wire.read(RecordPostsResponse(), text).recorded,
            given={"user": user, "kind": kind, "posts": posts},
        )

    def record_batch(self, activities: Sequence[Activity]) -> "Call[List[Result]]":
        return Call(
            _procedure(ACTIVITY, "RecordBatch"),
            lambda: wire.batch_request(activities),
            lambda text: wire.results_of(text, len(activities)),
            given={"activities": activities},
        )

    def get(self, user: str, kind: str, target: str) -> "Call[Optional[Item]]":
        return Call(
            _procedure(ACTIVITY, "List"),
            # None would list all.
            lambda: wire.encoded(ListRequest(user=user, plural=kind, target=target or "")),
            lambda text: wire.Part(text).only(),
            given={"user": user, "kind": kind, "target": target},
        )

    def listing(self, user: str, kind: str, incoming: bool) -> "Listing":
        def part(limit: int, cursor: str) -> "Call[wire.Part]":
            return Call(
                _procedure(ACTIVITY, "List"),
                lambda: wire.encoded(
                    ListRequest(
                        user=user, plural=kind, limit=limit, cursor=cursor, incoming=incoming
                    )
                ),
                wire.Part,
                given={"user": user, "kind": kind},
            )

        return Listing(part)

    def count(self, user: str) -> "Call[Dict[str, int]]":
        return Call(
            _procedure(ACTIVITY, "Count"),
            lambda: wire.encoded(CountRequest(user=user)),
            lambda text: dict(wire.read(CountResponse(), text).counts),
            given={"user": user},
        )

    def stream_piece(self, lines: Sequence[bytes]) -> "Call[List[Result]]":
        def parse(text: bytes) -> List[Result]:
            split = Lines(self.max_answer_bytes)
            got = [wire.json_result(wire.parsed(line)) for line in split.feed(text)]
            split.end()
            if len(got) != len(lines):
                raise CutOffError(f"{len(got)} results for {len(lines)} activities")
            return got

        path = path_of(("v1", "activities"))
        return Call(path, lambda: b"".join(lines), parse, type=NDJSON, answer=NDJSON)

    def export(self, user: str, timeout: Optional[float]) -> "Export":
        call: Call[None] = self._get(("v1", "users", user, "export"), lambda value: None)
        seconds = self.timeout if timeout is None else checked_timeout(timeout)
        request = self.request(call, None, seconds, whole=False)
        return Export(request, seconds, self.max_answer_bytes)

    def preview(self, user: str, kind: str, targets: Sequence[str]) -> "Call[Preview]":
        def content() -> bytes:
            wire.check_texts("kind", kind)
            wire.check_texts("targets", targets)
            return wire.json_text({"kind": kind, "targets": list(wire.names("targets", targets))})

        return Call(
            path_of(("v1", "users", user, "preview")),
            content,
            lambda text: wire.json_preview(wire.parsed(text)),
            type=JSON,
            answer=JSON,
        )

    def delete_user(self, user: str) -> "Call[int]":
        call: Call[int] = self._get(
            ("v1", "users", user), lambda value: wire.need(value, "deleted", int)
        )
        call.method, call.timeout = "DELETE", DELETE_TIMEOUT
        return call

    def kinds(self) -> "Call[List[Kind]]":
        return self._get(("v1", "kinds"), wire.json_kinds)

    def ready(self) -> "Call[Readiness]":
        call: Call[Readiness] = self._get(("readyz",), wire.json_readiness)
        call.also, call.retried = 503, False
        return call

    def call(
        self, method: str, path: Sequence[str], query: Optional[Query], body: object
    ) -> "Call[object]":
        call: Call[object] = self._get(wire.names("path", path), lambda value: value)
        call.method = method
        if query:
            call.path += "?" + urlencode(query)
        if body is not None:
            call.content = lambda: wire.json_text(body)
        return call

    def _get(self, segments: Sequence[str], parse: Callable[[object], T]) -> "Call[T]":
        return Call(
            path_of(segments),
            nothing,
            lambda text: parse(wire.parsed(text)),
            method="GET",
            type=JSON,
            answer=JSON,
        )


class CutOffError(wire.OddError):
    """An answer ended early, so the call may be retried."""


class Lines:
    """Splits an answer into lines. The last line must also end with a newline."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""

    def feed(self, part: bytes) -> List[bytes]:
        """Return the lines that the next part of the answer completes."""
        lines = (self._rest + part).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > self._limit:
            raise wire.OddError(f"a line has more than {self._limit} bytes")
        return lines

    def end(self) -> None:
        """Raise an error if the answer ended inside a line."""
        if self._rest:
            raise CutOffError("the answer ends inside a line")


class Listing:
    """The parts of a list. Each part has the cursor of the next one."""

    def __init__(self, part: "Callable[[int, str], Call[wire.Part]]") -> None:
        self._part = part
        self._cursor = ""
        self.call: "Optional[Call[wire.Part]]" = part(FIRST_ITEMS, "")  # of the next part

    def take(self, part: wire.Part) -> List[Item]:
        """Return the items of the part that `call` returned, and set the next call, if any."""
        last, self._cursor = self._cursor, part.next
        more = part.next and part.next != last
        self.call = self._part(MORE_ITEMS, part.next) if more else None
        return part.items


class Export:
    """An export: its request, and the activities that have arrived."""

    def __init__(self, request: httpx.Request, seconds: float, max_line: int) -> None:
        self.request = request
        self._seconds = seconds
        self._lines = Lines(max_line)
        self._refused: Optional[Send] = None  # collects an error answer

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Turn errors of reading the answer into errors of this package."""
        try:
            yield
        except (httpx.TransportError, CutOffError) as e:
            raise lost(self.request, e, self._seconds) from e
        except wire.OddError as e:
            raise UnexpectedAnswerError(f"{where(self.request)}: {e}") from e

    def begin(self, response: httpx.Response) -> None:
        """Check the status and the headers of the answer."""
        if response.status_code != 200:
            self._refused = Send(self.request, math.inf, ERROR_BYTES)
        else:
            expect(self.request, 200, response.headers, NDJSON)

    def add(self, part: bytes) -> Iterator[Activity]:
        """Yield the activities that the next part of the body completes."""
        if self._refused:
            self._refused.add(part)
            return
        for line in self._lines.feed(part):
            yield wire.json_activity(wire.parsed(line))

    def end(self, response: httpx.Response) -> None:
        """Raise an error if the answer is an error, or ended inside a line."""
        if self._refused:
            raise failure(self.request, self._refused.answer(response))
        self._lines.end()


class Piece:
    """Collects lines of a stream until a request is full."""

    def __init__(self) -> None:
        self._lines: List[bytes] = []
        self._length = 0

    def add(self, activity: Activity) -> Optional[List[bytes]]:
        """Add an activity. If the request was full, return its lines."""
        line = wire.json_line(activity)
        full = None
        if len(self._lines) >= PIECE_LINES or self._length + len(line) > PIECE_BYTES:
            full = self.rest()
        self._lines.append(line)
        self._length += len(line)
        return full or None

    def rest(self) -> List[bytes]:
        """Return the remaining lines."""
        lines, self._lines, self._length = self._lines, [], 0
        return lines


def checked_timeout(timeout: float) -> float:
    """Return the timeout, which must be positive and finite."""
    if not 0 < timeout < math.inf:
        raise ValueError(f"timeout: {timeout} is not a positive number of seconds")
    return timeout


def _base(url: str) -> httpx.URL:
    """Parse the URL of a service. Errors do not repeat it: it may contain a password."""
    wrong = ValueError("url: not of the form http://<host>:<port> or unix:<path>")
    try:
        base = httpx.URL(url)
    except (httpx.InvalidURL, ValueError, TypeError):
        raise wrong from None
    if base.scheme not in ("http", "https") or not base.host:
        raise wrong
    if base.userinfo or base.query or base.fragment:
        raise wrong
    return base


def _procedure(service: str, name: str) -> str:
    return f"/{service}/{name}"


def _harmless(error: Error) -> bool:
    """Return whether the error says that the call had no effect."""
    return isinstance(error, OverloadedError) or error.code in ("audit_unavailable", "not_yet")


def lost(request: httpx.Request, e: Exception, seconds: float) -> Error:
    """Return the error of an attempt without a complete answer."""
    if isinstance(e, httpx.TimeoutException):
        return DeadlineExceededError(f"{where(request)}: no answer in {seconds:g} s")
    return UnavailableError(f"{where(request)}: {str(e) or type(e).__name__}")


def expect(request: httpx.Request, status: int, headers: httpx.Headers, want: str) -> None:
    """Raise an error unless the answer has the media type."""
    given = headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != want or "content-encoding" in headers:
        raise UnexpectedAnswerError(
            f"{where(request)}: unexpected Content-Type {given!r}", status=status
        )


def failure(request: httpx.Request, answer: Answer) -> Error:
    """Return the error of an error answer."""
    name = answer.headers.get("x-request-id", "")
    after = _retry_after(answer.headers.get("retry-after", ""))
    try:
        value = wire.parsed(answer.body)
        if isinstance(value, dict) and "error" in value:
            return wire.json_error(value, answer.status, after, name)
        detail = _detail(wire.need(value, "details", list))
        if detail is not None:
            return wire.error_of(detail, after, name)
    except wire.OddError:
        pass
    reason = http.HTTPStatus(answer.status).phrase if answer.status in _STATUSES else "no reason"
    kind: Type[Error] = UnexpectedAnswerError
    if retryable(answer.status, ""):  # from a proxy or the HTTP server, which have no codes
        kind = class_of(answer.status, "")
    elif answer.status in (401, 403):
        kind = AccessDeniedError
    return kind(
        f"{where(request)}: {reason}", status=answer.status, retry_after=after, request_id=name
    )


_STATUSES = frozenset(status.value for status in http.HTTPStatus)


def _detail(details: List[object]) -> Optional[ErrorDetail]:
    """Return the ErrorDetail of a Connect error."""
    for d in details:
        if wire.may(d, "type", str) != "feedfilter.v1.ErrorDetail":
            continue
        value = wire.need(d, "value", str).rstrip("=")
        try:
            detail = wire.read(ErrorDetail(), base64.b64decode(value + "=" * (-len(value) % 4)))
        except (DecodeError, binascii.Error, ValueError):
            return None
        return detail if detail.code else None
    return None


def _retry_after(text: str) -> float:
    """Return the seconds of the header, the only form that the service uses; else 0."""
    return min(float(text), 3600.0) if re.fullmatch(r"[0-9]{1,5}", text) else 0.0
