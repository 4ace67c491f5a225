"""Conversions between values and their form in Protobuf and JSON."""

import json
import re
from datetime import datetime, timedelta, timezone
from typing import (
    Any,
    Dict,
    Iterable,
    List,
    Mapping,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
    Union,
)

from ._errors import Error, InvalidRequestError, class_of
from ._types import (
    ADD,
    REMOVE,
    Activity,
    Actor,
    Degraded,
    Down,
    Dropped,
    DroppedViewer,
    Explanation,
    Fanout,
    Feed,
    Item,
    Kind,
    P,
    Page,
    Post,
    Preview,
    Readiness,
    Reason,
    Result,
    TextRange,
)
from .v1.activity_pb2 import (
    OP_ADD,
    OP_REMOVE,
    ListResponse,
    Op,
    RecordBatchRequest,
    RecordBatchResponse,
)
from .v1.error_pb2 import ErrorDetail
from .v1.feed_pb2 import (
    ANSWER_DROPPED,
    ExplainResponse,
    Facet,
    FanoutResponse,
    FilterRequest,
    FilterResponse,
)

T = TypeVar("T")
N = TypeVar("N", str, Union[str, Actor])

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d)(?:\.(\d+))?(?:([Zz])|([+-]\d\d:\d\d))", re.ASCII
)

OPS = {ADD: OP_ADD, REMOVE: OP_REMOVE}


class OddError(Exception):
    """An answer does not match the schema or its request."""


# Requests.


def invalid(field: str, code: str, message: str) -> InvalidRequestError:
    """Return the error of a request that the client does not send."""
    return InvalidRequestError(message, code=code, field=field)


def names(field: str, values: Sequence[N]) -> Sequence[N]:
    """Return a list of names or ids. Refuse a string, which is a sequence, too."""
    if isinstance(values, (str, bytes)):
        raise TypeError(f"{field}: {values!r} is not a list of strings")
    return values


def check_texts(field: str, value: object) -> None:
    """Refuse an id or a name in the arguments of a call that is not a string."""
    below: Iterable[Tuple[str, object]] = ()
    if isinstance(value, Post):
        names_of = ("id", "author", "actors", "facets", "related", "text")
        below = ((f"{field}.{name}", getattr(value, name)) for name in names_of)
    elif isinstance(value, Actor):
        below = ((f"{field}.id", value.id), (f"{field}.role", value.role))
    elif isinstance(value, Activity):
        prefix = field + "." if field else ""
        below = ((prefix + name, getattr(value, name)) for name in ("user", "kind", "target"))
    elif isinstance(value, Mapping):
        for name in value:
            check_texts(field, name)
        below = ((f"{field}.{name}", one) for name, one in value.items())
    elif isinstance(value, (list, tuple)):
        below = ((f"{field}[{index}]", one) for index, one in enumerate(value))
    elif value is not None and not isinstance(value, str):
        kind = type(value).__name__
        raise invalid(field, "invalid_id", f"{value!r} is of type {kind}: ids and names are str")
    for name, one in below:
        check_texts(name, one)


def roles(actors: Sequence[Union[str, Actor]]) -> Tuple[Sequence[str], Sequence[str]]:
    """Return the ids of users on a post, and their roles. No roles: none is known."""
    if not any(isinstance(actor, Actor) for actor in actors):
        return actors, ()  # type: ignore[return-value]  # they are texts
    both = [actor if isinstance(actor, Actor) else Actor(actor) for actor in actors]
    return [actor.id for actor in both], [actor.role for actor in both]


def moment(field: str, when: datetime) -> datetime:
    """Return the time in UTC. Refuse an ambiguous time without a time zone."""
    if when.tzinfo is None or when.utcoffset() is None:
        raise invalid(field, "out_of_range", f"{when.isoformat()} has no time zone")
    return when.astimezone(timezone.utc)


def stamp(field: str, when: Optional[datetime], into: Any) -> None:
    """Set a Timestamp of a message, unless the time is None."""
    if when is None:
        return
    since = moment(field, when) - _EPOCH
    into.seconds = since.days * 86400 + since.seconds
    into.nanos = since.microseconds * 1000
    into.SetInParent()


def duration(seconds: Optional[float]) -> Optional[str]:
    """Return a time as the service takes it."""
    return None if seconds is None else f"{seconds * 1000:.0f}ms"


def filter_request(
    viewer: str,
    posts: Sequence[Post],
    kinds: Optional[Sequence[str]],
    annotate: Sequence[str],
    limit: Optional[int],
    record_seen: bool,
    exact: bool,
    lists: Sequence[str],
    after: Optional[str],
    within: Optional[float],
) -> bytes:
    """Return the message of a feed. It requests only dropped posts: the shortest answer."""
    if limit is not None and limit < 1:  # 0 is "no limit" in a message
        raise invalid("limit", "out_of_range", f"{limit} is not in 1 to 10000")
    authors = [post.author for post in posts]
    of_posts = [post.text for post in posts]
    request = FilterRequest(
        viewer=viewer,
        posts=[post.id for post in posts],
        authors=authors if any(authors) else (),
        annotate=names("annotate", annotate),
        limit=limit or 0,
        record_seen=record_seen,
        exact=exact,
        answer=ANSWER_DROPPED,
        lists=names("lists", lists),
        after=after,
        within=duration(within),
        texts=of_posts if any(of_posts) else (),
    )
    facets: Dict[str, Facet] = {}
    for index, post in enumerate(posts):
        if post.actors:
            before = len(request.actors)
            ids, ids_roles = roles(names(f"posts[{index}].actors", post.actors))
            if any(ids_roles):
                request.actor_roles.extend([""] * (before - len(request.actor_roles)))
                request.actor_roles.extend(ids_roles)
            request.actors.extend(ids)
            request.actor_posts.extend([index] * len(ids))
        if post.related:
            request.related.extend(names(f"posts[{index}].related", post.related))
            request.related_posts.extend([index] * len(post.related))
        if post.facets:
            for name, ids in post.facets.items():
                if name not in facets:
                    facets[name] = request.facets.add(name=name)
                facets[name].ids.extend(names(f"posts[{index}].facets.{name}", ids))
                facets[name].posts.extend([index] * len(ids))
    if request.actor_roles:
        request.actor_roles.extend([""] * (len(request.actors) - len(request.actor_roles)))
    if kinds is not None:
        request.kinds.SetInParent()
        request.kinds.names.extend(names("kinds", kinds))
    return encoded(request)


def batch_request(activities: Sequence[Activity]) -> bytes:
    """Return the message of a batch."""
    request = RecordBatchRequest()
    for index, activity in enumerate(activities):
        at = f"activities[{index}]"
        message = request.activities.add(
            user=activity.user,
            kind=activity.kind,
            target=activity.target,
            op=op(f"{at}.op", activity.op),
        )
        stamp(f"{at}.since", activity.since, message.since)
        stamp(f"{at}.until", activity.until, message.until)
    return encoded(request)


def op(field: str, name: str) -> Op:
    """Return the enum value of an op."""
    if name not in OPS:
        raise invalid(field, "unknown_op", f"{name!r} is neither {ADD!r} nor {REMOVE!r}")
    return OPS[name]


def encoded(message: Any) -> bytes:
    """Return the bytes of a message."""
    text: bytes = message.SerializeToString()
    return text


def json_line(activity: Activity) -> bytes:
    """Return an activity as a line of NDJSON, with its newline."""
    check_texts("", activity)
    line = {
        "user": activity.user,
        "kind": activity.kind,
        "target": activity.target,
        "op": activity.op,
    }
    op("op", activity.op)
    for field, when in (("since", activity.since), ("until", activity.until)):
        if when is not None:
            line[field] = moment(field, when).isoformat().replace("+00:00", "Z")
    return json_text(line) + b"\n"


def json_text(value: object) -> bytes:
    """Return a value as JSON."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


# Answers as messages.


def read(message: T, text: bytes) -> T:
    """Parse a message."""
    message.ParseFromString(text)  # type: ignore[attr-defined]  # T is a message
    return message


def time_of(message: Any, field: str) -> Optional[datetime]:
    """Return the time of a field. None: it is not set."""
    if not message.HasField(field):
        return None
    value = getattr(message, field)
    try:
        return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
    except OverflowError as e:
        raise OddError(f"{field}: {value.seconds} is not a time") from e


def feed_of(text: bytes, posts: Sequence[P], annotate: Sequence[str]) -> Feed[P]:
    """Return the feed of an answer, with the posts of its request."""
    answer = read(FilterResponse(), text)
    checked = len(posts)
    if answer.next:
        if answer.next >= checked:
            raise OddError(f"next: {answer.next}, of {checked} candidates")
        checked = answer.next
    kept: List[P] = []
    dropped: List[Dropped[P]] = []
    at = 0  # the first candidate that is not yet kept or dropped
    for d in answer.dropped:
        index = d.index
        if not at <= index < checked:
            raise OddError(f"dropped index {index}, want {at} to {checked - 1}")
        kept.extend(posts[at:index])
        dropped.append(
            Dropped(posts[index], index, d.kind, d.actor, d.unconfirmed, d.target, d.list)
        )
        at = index + 1
    kept.extend(posts[at:checked])
    if len(answer.annotated) != len(annotate):  # answers have names, requests may have plurals
        raise OddError("annotated: other kinds than the request's")
    if any(index >= checked for a in answer.annotated for index in a.posts):
        raise OddError("annotated: an index beyond the checked candidates")
    annotated = {a.kind: frozenset(posts[i].id for i in a.posts) for a in answer.annotated}
    return Feed(kept, dropped, annotated, answer.next or None, degraded_of(answer.degraded))


def degraded_of(all_of_them: Any) -> List[Degraded]:
    """Return the kinds that could not be checked."""
    return [Degraded(d.kind, d.reason) for d in all_of_them]


def explanation_of(text: bytes) -> Explanation:
    """Return the explanation in a message."""
    answer = read(ExplainResponse(), text)
    page = answer.page
    return Explanation(
        answer.dropped,
        [
            Reason(
                kind=r.kind,
                effect=r.effect,
                direction=r.direction,
                certainty=r.certainty,
                actor=r.actor,
                since=time_of(r, "since"),
                until=time_of(r, "until"),
                parts=tuple(r.parts),
                target=r.target,
                overruled_by=r.overruled_by,
                list=r.list,
                in_text=text_range(r),
            )
            for r in answer.reasons
        ],
        Page(page.number, page.sequence, page.keys, page.bytes, page.false_positive_rate),
        degraded_of(answer.degraded),
    )


def text_range(reason: Any) -> Optional[TextRange]:
    """Return where the phrase of a reason stands. None: it is not in the text."""
    if not reason.HasField("in_text"):
        return None
    return TextRange(reason.in_text.start, reason.in_text.end)


def fill_post(message: Any, post: Post) -> None:
    """Set the fields of a message that has those of one post, besides its id."""
    message.author = post.author
    message.text = post.text
    actors, done = roles(names("post.actors", post.actors))
    message.actors.extend(actors)
    message.actor_roles.extend(done)
    message.related.extend(names("post.related", post.related))
    for name, of in post.facets.items():
        message.facets.add(name=name, ids=names(f"post.facets.{name}", of))


def fanout_of(text: bytes, viewers: Sequence[str]) -> Fanout:
    """Return the answer to a fan-out, with the viewers of its request."""
    answer = read(FanoutResponse(), text)
    if any(d.index >= len(viewers) for d in answer.dropped):
        raise OddError(f"dropped: an index beyond the {len(viewers)} viewers")
    return Fanout(
        [DroppedViewer(viewers[d.index], d.kind, d.actor, d.target) for d in answer.dropped],
        degraded_of(answer.degraded),
    )


class Part:
    """One part of a list."""

    def __init__(self, text: bytes) -> None:
        answer = read(ListResponse(), text)
        self.next: str = answer.next
        self.items: List[Item] = []
        for item in answer.items:
            since = time_of(item, "since")
            if since is None:
                raise OddError("an item lacks since")
            self.items.append(Item(item.target, since, time_of(item, "until"), item.user))

    def only(self) -> Optional[Item]:
        """Return the only item, if there is one."""
        if len(self.items) > 1:
            raise OddError("more than one item")
        return self.items[0] if self.items else None


def results_of(text: bytes, count: int) -> List[Result]:
    """Return the results of a batch of count activities."""
    answer = read(RecordBatchResponse(), text)
    if len(answer.results) != count:
        raise OddError(f"{len(answer.results)} results for {count} activities")
    return [
        Result(False, error_of(r.error)) if r.HasField("error") else Result(r.changed)
        for r in answer.results
    ]


def error_of(detail: ErrorDetail, retry_after: float = 0.0, request_id: str = "") -> Error:
    """Return the error of an ErrorDetail."""
    return class_of(detail.http_status, detail.code)(
        detail.message,
        status=detail.http_status,
        code=detail.code,
        field=detail.field,
        limit=detail.limit,
        retry_after=retry_after,
        request_id=request_id,
    )


# Answers as JSON. Fields that this version does not know are ignored.


def parsed(text: bytes) -> Any:
    """Parse JSON."""
    try:
        return json.loads(text)
    except ValueError as e:
        raise OddError(f"not JSON: {e}") from e


def need(value: object, name: str, of: Type[T]) -> T:
    """Return a field of an object."""
    if not isinstance(value, dict):
        raise OddError("not an object")
    got = value.get(name)
    if not isinstance(got, of) or (isinstance(got, bool) and of is not bool):
        raise OddError(f"{name}: {got!r} is not of type {of.__name__}")
    return got


def may(value: object, name: str, of: Type[T]) -> Optional[T]:
    """Return a field of an object that may be missing or null."""
    if isinstance(value, dict) and value.get(name) is None:
        return None
    return need(value, name, of)


def texts(value: object, name: str) -> Optional[Tuple[str, ...]]:
    """Return a list of texts of an object that may be missing."""
    found = may(value, name, list)
    return None if found is None else tuple(found)


def json_time(value: object, name: str) -> Optional[datetime]:
    """Return a time in RFC 3339 that may be missing, truncated to microseconds."""
    text = may(value, name, str)
    if text is None:
        return None
    match = _RFC3339.fullmatch(text)
    if not match:
        raise OddError(f"{name}: {text!r} is not a time")
    seconds, fraction, zulu, offset = match.groups()
    micros = ((fraction or "") + "000000")[:6]
    zone = "+00:00" if zulu else offset
    try:
        when = datetime.fromisoformat(f"{seconds.upper()}.{micros}{zone}")
        return when.astimezone(timezone.utc)
    except (ValueError, OverflowError) as e:
        raise OddError(f"{name}: {text!r} is not a time") from e


def json_activity(line: object) -> Activity:
    """Return the activity of a line of an export."""
    return Activity(
        user=need(line, "user", str),
        kind=need(line, "kind", str),
        target=need(line, "target", str),
        op=need(line, "op", str),
        since=json_time(line, "since"),
        until=json_time(line, "until"),
    )


def json_error(value: object, status: int, retry_after: float, request_id: str) -> Error:
    """Return the error in the JSON of an answer or a line."""
    error = need(value, "error", dict)
    code = need(error, "code", str)
    return class_of(status, code)(
        need(error, "message", str),
        status=status,
        code=code,
        field=may(error, "field", str) or "",
        limit=may(error, "limit", int) or 0,
        retry_after=retry_after,
        request_id=request_id,
    )


def json_result(line: object) -> Result:
    """Return the result of a line of a stream."""
    if isinstance(line, dict) and "error" in line:
        return Result(False, json_error(line, 0, 0.0, ""))
    return Result(need(line, "changed", bool))


def json_preview(value: object) -> Preview:
    """Return a preview."""
    return Preview(
        new=need(value, "new", int),
        present=need(value, "present", int),
        total=need(value, "total", int),
        limit=may(value, "limit", int),
        over=need(value, "over", bool),
    )


def json_kinds(value: object) -> List[Kind]:
    """Return the kinds."""
    return [
        Kind(
            name=need(kind, "name", str),
            plural=need(kind, "plural", str),
            target=need(kind, "target", str),
            effect=need(kind, "effect", str),
            two_way=need(kind, "two_way", bool),
            ledger=need(kind, "ledger", bool),
            limit=may(kind, "limit", int),
            window_seconds=may(kind, "window_seconds", int),
            parts=may(kind, "parts", int),
            most=may(kind, "most", int),
            roles=texts(kind, "roles"),
            over=texts(kind, "over"),
            fanout=may(kind, "fanout", bool),
            fold=may(kind, "fold", str),
            rollup=may(kind, "rollup", str),
            text=may(kind, "text", bool),
        )
        for kind in need(value, "kinds", list)
    ]


def json_readiness(value: object) -> Readiness:
    """Return whether the service can answer feeds."""
    down = may(value, "down", list) or []
    return Readiness(
        need(value, "status", str),
        [Down(need(d, "dependency", str), need(d, "reason", str)) for d in down],
    )
