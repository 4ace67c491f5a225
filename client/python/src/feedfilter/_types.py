"""Arguments and results of calls. Times are aware datetimes, in UTC in answers."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import (
    Dict,
    FrozenSet,
    Generic,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

from ._errors import Error

# Names of the built-in kinds, for all calls. Client.kinds returns all names. Requests may have a
# plural in place of a name; answers have names.
BLOCK = "block"
HIDE = "hide"
LIKE = "like"
SEEN = "seen"

# Deprecated: use the names. A service of version 0.1.0 needs plurals in calls about one kind.
BLOCKS = "blocks"
HIDES = "hides"
LIKES = "likes"

# Ops of activities.
ADD = "add"
REMOVE = "remove"


class Actor(NamedTuple):
    """A user on a post, and what the user did.

    Attributes:
        id: The user's id.
        role: What the user did, such as "repost": lower-case letters and dashes. "": unknown, so
            every kind looks at the user.
    """

    id: str
    role: str = ""


@dataclass
class Post:
    """A candidate for a feed. It may be a subclass: Client.filter returns the same objects.

    Attributes:
        id: The post's id: 1 to 256 bytes of UTF-8 without control characters, like all ids.
        author: The author's id, "" if unknown. Required if a checked kind targets users.
        actors: Up to 100 other users on the post, such as those who reposted it, or whom it
            quotes or mentions: ids, or Actors with a role.
        facets: Other ids on the post, by the facet that kinds of the service name as their target,
            such as {"domain": ["x.example"]}: up to 16 ids of each.
        related: Up to 16 other ids of the same content, such as that of the post that this one
            reposts. record_seen records the first of them instead of the post's own.
        text: The post's text. Kinds of the service with `text` look for phrases in its first 5,000
            bytes of UTF-8.
    """

    id: str
    author: str = ""
    actors: Sequence[Union[str, Actor]] = ()
    facets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    related: Sequence[str] = ()
    text: str = ""


P = TypeVar("P", bound=Post)


@dataclass(frozen=True)
class Dropped(Generic[P]):
    """A post that the viewer does not see, with the first reason.

    Attributes:
        post: The post, the same object as in the request.
        index: Its index in the request.
        kind: The kind that dropped it.
        actor: The author or actor that caused the drop, for kinds that target users; else "".
        unconfirmed: In exact feeds: the kind has a window, so nothing can confirm the reason.
        target: The id, for kinds that do not target users, unless it is the post's own; else "".
        list: The list of the request that drops it. "": the viewer does.
    """

    post: P
    index: int
    kind: str
    actor: str = ""
    unconfirmed: bool = False
    target: str = ""
    list: str = ""


@dataclass(frozen=True)
class Degraded:
    """A kind that could not be checked.

    Attributes:
        kind: The name of the kind.
        reason: Why, for people.
    """

    kind: str
    reason: str


@dataclass(frozen=True)
class Feed(Generic[P]):
    """The posts that a viewer sees, and the dropped posts.

    Attributes:
        kept: The posts that the viewer sees, in the order of the request.
        dropped: The dropped posts, in the order of the request.
        annotated: For each kind of `annotate`, by its name, the ids of the kept posts that it
            annotates.
        next: With a limit: the index of the first candidate that was not checked. Request the
            rest with `posts[next:]`. None: all candidates were checked.
        degraded: The kinds that could not be checked. If they include a kind such as "block",
            treat the feed as unanswered: it may contain posts that the viewer must not see.
    """

    kept: List[P]
    dropped: List[Dropped[P]]
    annotated: Dict[str, FrozenSet[str]] = field(default_factory=dict)
    next: Optional[int] = None
    degraded: List[Degraded] = field(default_factory=list)


@dataclass(frozen=True)
class TextRange:
    """A part of a text, in bytes of UTF-8: `text.encode()[start:end].decode()`.

    Attributes:
        start: The first byte.
        end: The first byte after it.
    """

    start: int
    end: int


@dataclass(frozen=True)
class Reason:
    """One thing that the filter reports about a post.

    Attributes:
        kind: The name of the kind.
        effect: "drop", "annotate" or "keep".
        direction: Whose activity: "by_viewer" or "by_actor".
        certainty: "certain": the ledger has it. "false": it is a false positive. "unconfirmed":
            the kind has a window, so nothing can confirm it.
        actor: The user, for kinds that target users; else "".
        since: When the activity was done. None: unknown.
        until: When it ends by itself. None: never.
        parts: For a window: the beginnings of the parts that report the post.
        target: The id, for kinds that do not target users, unless it is the post's own; else "".
        overruled_by: The kind that keeps the post in spite of this reason; else "".
        list: The list whose activity it is. "": the viewer's.
        in_text: Where the target stands first in the post's text. None: it is an id on the post,
            or the kind has no text.
    """

    kind: str
    effect: str
    direction: str
    certainty: str
    actor: str = ""
    since: Optional[datetime] = None
    until: Optional[datetime] = None
    parts: Sequence[str] = ()
    target: str = ""
    overruled_by: str = ""
    list: str = ""
    in_text: Optional[TextRange] = None


@dataclass(frozen=True)
class Page:
    """The page of the viewer's activities in the ledger.

    Attributes:
        number: Its number.
        sequence: Its version, which rises with every change.
        keys: The number of keys on it.
        bytes: Its length in bytes.
        false_positive_rate: The rate of false positives per key, 0 to 1.
    """

    number: int
    sequence: int
    keys: int
    bytes: int
    false_positive_rate: float


@dataclass(frozen=True)
class Explanation:
    """Why a feed drops or keeps a post.

    Attributes:
        dropped: Whether a feed drops the post.
        reasons: Everything that the filter reports, kinds that drop first.
        page: The page that was read.
        degraded: The kinds that could not be checked.
    """

    dropped: bool
    reasons: List[Reason]
    page: Page
    degraded: List[Degraded]


@dataclass(frozen=True)
class DroppedViewer:
    """A viewer who must not get a new post, with the first reason.

    Attributes:
        viewer: The id of the viewer.
        kind: The kind that drops the post for the viewer.
        actor: The author or actor, for kinds that target users. Otherwise "".
        target: The id, for kinds that do not target users. "": the post's own.
    """

    viewer: str
    kind: str
    actor: str
    target: str = ""


@dataclass(frozen=True)
class Fanout:
    """The viewers who must not get a new post. All others may.

    Attributes:
        dropped: The viewers, in the order of the request.
        degraded: The kinds that keep posts and could not be confirmed.
    """

    dropped: List[DroppedViewer]
    degraded: List[Degraded]


@dataclass(frozen=True)
class Activity:
    """One activity of a batch, a stream or an export.

    Attributes:
        user: The id of the user.
        kind: The name of the kind, such as "block".
        target: The id of the target, such as a user or a post.
        op: ADD or REMOVE.
        since: When it was done, to the microsecond. None: now. Only with ADD. A window keeps
            the activity from that time. If the window would already have forgotten it,
            nothing changes.
        until: When it ends by itself, to the microsecond. None: never. Only with ADD.
    """

    user: str
    kind: str
    target: str
    op: str = ADD
    since: Optional[datetime] = None
    until: Optional[datetime] = None


@dataclass(frozen=True)
class Result:
    """The outcome of one activity.

    Attributes:
        changed: Whether anything changed.
        error: Why it failed. None: it succeeded.
    """

    changed: bool
    error: Optional[Error] = None


@dataclass(frozen=True)
class Item:
    """One activity of a list.

    Attributes:
        target: The id of the target, such as a user or a post. "" in incoming lists.
        since: When it was recorded.
        until: When it ends by itself. None: never.
        user: In incoming lists: the id of the user who has it.
    """

    target: str
    since: datetime
    until: Optional[datetime] = None
    user: str = ""


@dataclass(frozen=True)
class Preview:
    """What recording some activities would change.

    Attributes:
        new: The number of distinct targets that are not recorded yet.
        present: The number of distinct targets that are already recorded.
        total: The number of the user's activities of the kind afterwards.
        limit: The maximum number for a user. None: no limit.
        over: Whether the limit would refuse some new activities.
    """

    new: int
    present: int
    total: int
    limit: Optional[int]
    over: bool


@dataclass(frozen=True)
class Kind:
    """A kind of activities.

    Attributes:
        name: Its name, such as "block".
        plural: Its second name in requests, such as "blocks".
        target: "user", "post" or the facet of the posts that it looks at.
        effect: "drop", "annotate" or "keep".
        two_way: Whether it also affects the target's feed.
        ledger: Whether the ledger keeps it. If not, it has a window.
        limit: The maximum number for a user. None: no limit.
        window_seconds: The minimum time that an activity is kept. None: the kind has no window.
        parts: The number of parts of the window. None: the kind has no window.
        most: The maximum number of keys in the window of a user. None: 10,000.
        roles: The roles of users on a post in which it looks at them. None: all.
        over: The kinds that it overrules. None: it keeps nothing.
        fanout: True: it is checked at fan-out, although it is one-way.
        fold: How ids of the target are made alike, such as "case". None: they are not.
        rollup: Which ids it covers besides its own, such as "domain". None: no others.
        text: True: its targets are phrases, which are found in the texts of posts.
    """

    name: str
    plural: str
    target: str
    effect: str
    two_way: bool
    ledger: bool
    limit: Optional[int]
    window_seconds: Optional[int] = None
    parts: Optional[int] = None
    most: Optional[int] = None
    roles: Optional[Tuple[str, ...]] = None
    over: Optional[Tuple[str, ...]] = None
    fanout: Optional[bool] = None
    fold: Optional[str] = None
    rollup: Optional[str] = None
    text: Optional[bool] = None


@dataclass(frozen=True)
class Down:
    """A dependency of the service that is down.

    Attributes:
        dependency: "ledger", "pages" or "service".
        reason: Why, for people.
    """

    dependency: str
    reason: str


@dataclass(frozen=True)
class Readiness:
    """Whether the service can answer feeds.

    Attributes:
        status: "ready", "degraded" (one dependency is down) or "unavailable".
        down: The dependencies that are down.
    """

    status: str
    down: List[Down]

    @property
    def answers(self) -> bool:
        """Whether the service can answer feeds."""
        return self.status in ("ready", "degraded")
