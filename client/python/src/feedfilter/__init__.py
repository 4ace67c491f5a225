"""A client of the feedfilter service, which filters feeds and records what users do.

    from feedfilter import BLOCK, Client, Post

    with Client("http://127.0.0.1:8080") as client:
        client.record("1", BLOCK, "2")
        feed = client.filter("1", [Post("p8", author="2"), Post("p9", author="3")])
        print([post.id for post in feed.kept])

Client is for threads, AsyncClient for asyncio.

Retries: the client retries a call that is answered 408, 429, 502, 503 or 504, or that has no
complete answer, within its timeout. A 400 without an error code counts as no answer.
Before each retry it waits a random time of up to 0.1 s, 0.2 s and so on to 3 s. If the answer has
a Retry-After, the client waits that long instead, and up to 0.1 s more. A Retry-After of more than
30 s ends the retries. A budget of ten retries, which regains a tenth with each successful call,
keeps clients from overloading the service further. A feed with record_seen is retried only if it
had no effect: see Client.filter.

When the filter cannot answer, a call raises UnavailableError. A renderer then chooses, for each
feed, the lesser harm: for blocks, show only what needs no check; for kinds that matter for comfort
alone, such as seen, show the candidates unfiltered. The same choice exists in an answer:
Feed.degraded names kinds that could not be checked.
"""

from ._aio import AsyncClient
from ._client import Client
from ._core import request_id, token_file
from ._errors import (
    AccessDeniedError,
    DeadlineExceededError,
    Error,
    InvalidRequestError,
    LimitReachedError,
    NoLedgerError,
    OverloadedError,
    UnavailableError,
    UnexpectedAnswerError,
)
from ._types import (
    ADD,
    BLOCK,
    BLOCKS,
    HIDE,
    HIDES,
    LIKE,
    LIKES,
    REMOVE,
    SEEN,
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
    Page,
    Post,
    Preview,
    Readiness,
    Reason,
    Result,
    TextRange,
)
from ._version import __version__

__all__ = [
    "ADD",
    "BLOCK",
    "BLOCKS",
    "HIDE",
    "HIDES",
    "LIKE",
    "LIKES",
    "REMOVE",
    "SEEN",
    "AccessDeniedError",
    "Activity",
    "Actor",
    "AsyncClient",
    "Client",
    "DeadlineExceededError",
    "Degraded",
    "Down",
    "Dropped",
    "Error",
    "DroppedViewer",
    "Explanation",
    "Fanout",
    "Feed",
    "InvalidRequestError",
    "Item",
    "Kind",
    "LimitReachedError",
    "NoLedgerError",
    "OverloadedError",
    "Page",
    "Post",
    "Preview",
    "Readiness",
    "Reason",
    "Result",
    "TextRange",
    "UnavailableError",
    "UnexpectedAnswerError",
    "__version__",
    "request_id",
    "token_file",
]
