"""Values that calls take and return. Times are aware datetimes; those of answers are in UTC."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Dict, FrozenSet, Generic, List, Optional, Sequence, TypeVar

from ._errors import Error

# Plurals of the built-in kinds, for calls about one kind. Client.kinds returns those of others.
BLOCKS = "blocks"
HIDES = "hides"
LIKES = "likes"
SEEN = "seen"

# Ops of activities.
ADD = "add"
REMOVE = "remove"


@dataclass
class Post:
    """A candidate for a feed. A subclass may carry more: Client.filter returns the same objects.

    Attributes:
        id: The post's id: 1 to 256 bytes of UTF-8 without control characters, as all ids.
        author: The author's id, "" if unknown. Required if a checked kind targets users.
        actors: Up to 100 other users on the post, such as those who reposted it, or are quoted
            or mentioned.
    """

    id: str
    author: str = ""
    actors: Sequence[str] = ()


P = TypeVar("P", bound=Post)


@dataclass(frozen=True)
class Dropped(Generic[P]):
    """A post that is left out, with the first reason found.

    Attributes:
        post: The post, the same object as in the request.
        index: Its index in the request.
        kind: The kind that dropped it.
        actor: The author or actor that caused the drop, for kinds that target users; else "".
        unconfirmed: For exact feeds: the kind has a window, so nothing can confirm the reason.
    """

    post: P
    index: int
    kind: str
    actor: str = ""
    unconfirmed: bool = False


@dataclass(frozen=True)
class Degraded:
    """A kind that could not be checked.

    Attributes:
        kind: The name of the kind.
        reason: Why, in words for people.
    """

    kind: str
    reason: str


@dataclass(frozen=True)
class Feed(Generic[P]):
    """The posts that a viewer sees, and those that are dropped.

    Attributes:
        kept: The posts that the viewer sees, in the order of the request.
        dropped: The posts that are left out, in the order of the request.
        annotated: For each kind of `annotate`, the ids of the kept posts that it annotates.
        next: With a limit: the index of the first candidate that was not checked. Request the
            rest with `posts[next:]`. None: all were checked.
        degraded: The kinds that could not be checked. If they include one such as "block", treat
            the feed as unanswered: it may contain posts that the viewer must not see.
    """

    kept: List[P]
    dropped: List[Dropped[P]]
    annotated: Dict[str, FrozenSet[str]] = field(default_factory=dict)
    next: Optional[int] = None
    degraded: List[Degraded] = field(default_factory=list)


@dataclass(frozen=True)
class Reason:
    """Something that the filter reports on a post.

    Attributes:
        kind: The name of the kind.
        effect: "drop" or "annotate".
        direction: Whose activity it is: "by_viewer" or "by_actor".
        certainty: "certain": the ledger has it. "false": it is a false positive. "unconfirmed":
            the kind has a window, so nothing can confirm it.
        actor: The user, for kinds that target users; else "".
        since: Since when. None: unknown.
        until: When it ends by itself. None: never.
        parts: For a window: the beginnings of the parts that report it.
    """

    kind: str
    effect: str
    direction: str
    certainty: str
    actor: str = ""
    since: Optional[datetime] = None
    until: Optional[datetime] = None
    parts: Sequence[str] = ()


@dataclass(frozen=True)
class Page:
    """The page that holds the viewer's activities of the kinds in the ledger.

    Attributes:
        number: Its number.
        sequence: Rises with every change of the page.
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
    """What a feed does with a post, and why.

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
class Activity:
    """One activity of a batch, a stream or an export.

    Attributes:
        user: The user who does it.
        kind: The name of the kind, such as "block".
        target: The user or post that it is about.
        op: ADD or REMOVE.
        since: When it was done, to the microsecond. None: now. Only with ADD. A window
            keeps the activity from then on; one that would be forgotten already
            changes nothing.
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
        error: Why it failed. None: it did not.
    """

    changed: bool
    error: Optional[Error] = None


@dataclass(frozen=True)
class Item:
    """One activity of a list.

    Attributes:
        target: The user or post that it is about.
        since: When it was recorded.
        until: When it ends by itself. None: never.
    """

    target: str
    since: datetime
    until: Optional[datetime] = None


@dataclass(frozen=True)
class Preview:
    """The result that recording some activities would have.

    Attributes:
        new: The number of distinct targets that are not recorded yet.
        present: The number of distinct targets that are.
        total: The number of the user's activities of the kind afterwards.
        limit: The largest number that a user may have. None: no limit.
        over: Whether the limit would refuse some of the new ones.
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
        name: Its name in batches and feeds, such as "block".
        plural: Its name in calls about one kind, such as "blocks".
        target: "user" or "post".
        effect: "drop" or "annotate".
        two_way: Whether it affects the target's feed, too.
        ledger: Whether the ledger keeps it. If not, it has a window.
        limit: The largest number that a user may have. None: no limit.
        window_seconds: How long an activity is kept at least. None: the kind has no window.
        parts: The number of parts of the window. None: the kind has no window.
        most: The largest number that the window of a user keeps. None: 10,000.
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


@dataclass(frozen=True)
class Down:
    """A dependency that the service cannot reach.

    Attributes:
        dependency: "ledger", "pages" or "service".
        reason: Why, in words for people.
    """

    dependency: str
    reason: str


@dataclass(frozen=True)
class Readiness:
    """Whether feeds can be answered.

    Attributes:
        status: "ready", "degraded" (one dependency is down) or "unavailable".
        down: The dependencies that cannot be reached.
    """

    status: str
    down: List[Down]

    @property
    def answers(self) -> bool:
        """Whether feeds can be answered."""
        return self.status in ("ready", "degraded")
