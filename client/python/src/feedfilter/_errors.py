"""Errors of calls."""

from typing import Type

# Statuses after which a retry may get another answer.
_RETRYABLE = frozenset((408, 429, 502, 503, 504))

_INVALID = frozenset((400, 404, 405, 413, 415, 422))

# Codes that decide the class of an error: an activity of a batch has no status.
_UNAVAILABLE_CODES = frozenset(("unavailable", "audit_unavailable", "internal"))
_OVERLOADED_CODES = frozenset(("overloaded", "rate_limited"))
_DENIED_CODES = frozenset(("unauthenticated", "forbidden", "cross_origin"))
_NEUTRAL_CODES = frozenset(("followed", "stuck", "misdirected", "timeout"))


class Error(Exception):
    """An error of a call. The subclass tells what the caller can do about it.

    Attributes:
        status: The HTTP status. 0: no answer, or one activity of a batch or a stream.
        code: The service's code, such as "invalid_id"; its /docs lists all. "": no code.
        message: The error, for people.
        field: The place in the request, such as "posts[3].author". "": none.
        limit: With the code "limit_reached": the limit. 0: none.
        retry_after: Seconds to wait before a retry. 0: the service did not say.
        request_id: The id of the request in the service's log. "": unknown.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int = 0,
        code: str = "",
        field: str = "",
        limit: int = 0,
        retry_after: float = 0.0,
        request_id: str = "",
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.code = code
        self.field = field
        self.limit = limit
        self.retry_after = retry_after
        self.request_id = request_id

    def __str__(self) -> str:
        status = str(self.status) + " " if self.status else ""
        return status + ": ".join(part for part in (self.code, self.field, self.message) if part)


class UnavailableError(Error):
    """The call has no answer that tells whether it took effect.

    It may have, unless the error is an OverloadedError, or the code is "audit_unavailable" or
    "not_yet".
    """


class OverloadedError(UnavailableError):
    """The service is overloaded, or the caller exceeds its rate. The call had no effect."""


class DeadlineExceededError(UnavailableError, TimeoutError):
    """The call did not end within its timeout. A write may or may not have taken effect."""


class InvalidRequestError(Error, ValueError):
    """The request can never succeed unchanged. It had no effect."""


class AccessDeniedError(Error):
    """The token is missing, wrong, or does not allow the call, which had no effect."""


class LimitReachedError(Error):
    """The user has reached the `limit` of the kind. The call had no effect."""


class NoLedgerError(Error):
    """The call needs a ledger, and the service has none. The call had no effect."""


class UnexpectedAnswerError(Error):
    """The answer is not from a feedfilter service, or this version does not understand it."""


def retryable(status: int, code: str) -> bool:
    """Return whether a retry after an answer may get another one.

    The service itself never answers 400 without a code. Its HTTP server does, without a look at
    the request, if an overloaded process reads only a part of the header in time.
    """
    return status in _RETRYABLE or (status == 400 and not code)


def class_of(status: int, code: str) -> Type[Error]:
    """Return the class of an error that the service answers."""
    if status == 429 or code in _OVERLOADED_CODES:
        return OverloadedError
    if retryable(status, code) or status == 500 or code in _UNAVAILABLE_CODES:
        return UnavailableError
    if status in (401, 403) or code in _DENIED_CODES:
        return AccessDeniedError
    if code == "limit_reached":
        return LimitReachedError
    if code == "no_ledger":
        return NoLedgerError
    if status in _INVALID or (status == 0 and code not in _NEUTRAL_CODES):
        return InvalidRequestError
    return Error
