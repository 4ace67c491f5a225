from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

ANSWER_DROPPED: Answer
ANSWER_KEPT: Answer
ANSWER_UNSPECIFIED: Answer
DESCRIPTOR: _descriptor.FileDescriptor

class Annotated(_message.Message):
    __slots__ = ["kind", "posts"]
    KIND_FIELD_NUMBER: _ClassVar[int]
    POSTS_FIELD_NUMBER: _ClassVar[int]
    kind: str
    posts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, kind: _Optional[str] = ..., posts: _Optional[_Iterable[int]] = ...) -> None: ...

class Degraded(_message.Message):
    __slots__ = ["kind", "reason"]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    kind: str
    reason: str
    def __init__(self, kind: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class Dropped(_message.Message):
    __slots__ = ["actor", "index", "kind", "list", "target", "unconfirmed"]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    UNCONFIRMED_FIELD_NUMBER: _ClassVar[int]
    actor: str
    index: int
    kind: str
    list: str
    target: str
    unconfirmed: bool
    def __init__(self, index: _Optional[int] = ..., kind: _Optional[str] = ..., actor: _Optional[str] = ..., unconfirmed: bool = ..., target: _Optional[str] = ..., list: _Optional[str] = ...) -> None: ...

class DroppedViewer(_message.Message):
    __slots__ = ["actor", "index", "kind", "target"]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    actor: str
    index: int
    kind: str
    target: str
    def __init__(self, index: _Optional[int] = ..., kind: _Optional[str] = ..., actor: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ["after", "lists", "post", "viewer", "within"]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LISTS_FIELD_NUMBER: _ClassVar[int]
    POST_FIELD_NUMBER: _ClassVar[int]
    VIEWER_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    after: str
    lists: _containers.RepeatedScalarFieldContainer[str]
    post: Post
    viewer: str
    within: str
    def __init__(self, viewer: _Optional[str] = ..., post: _Optional[_Union[Post, _Mapping]] = ..., lists: _Optional[_Iterable[str]] = ..., after: _Optional[str] = ..., within: _Optional[str] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ["degraded", "dropped", "page", "reasons"]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    REASONS_FIELD_NUMBER: _ClassVar[int]
    degraded: _containers.RepeatedCompositeFieldContainer[Degraded]
    dropped: bool
    page: Page
    reasons: _containers.RepeatedCompositeFieldContainer[Reason]
    def __init__(self, dropped: bool = ..., reasons: _Optional[_Iterable[_Union[Reason, _Mapping]]] = ..., page: _Optional[_Union[Page, _Mapping]] = ..., degraded: _Optional[_Iterable[_Union[Degraded, _Mapping]]] = ...) -> None: ...

class Facet(_message.Message):
    __slots__ = ["ids", "name", "posts"]
    IDS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    POSTS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    name: str
    posts: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., ids: _Optional[_Iterable[str]] = ..., posts: _Optional[_Iterable[int]] = ...) -> None: ...

class FanoutRequest(_message.Message):
    __slots__ = ["actor_roles", "actors", "after", "author", "exact", "facets", "kinds", "post", "related", "text", "viewers", "within"]
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ROLES_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    FACETS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    POST_FIELD_NUMBER: _ClassVar[int]
    RELATED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VIEWERS_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    actor_roles: _containers.RepeatedScalarFieldContainer[str]
    actors: _containers.RepeatedScalarFieldContainer[str]
    after: str
    author: str
    exact: bool
    facets: _containers.RepeatedCompositeFieldContainer[Facet]
    kinds: KindNames
    post: str
    related: _containers.RepeatedScalarFieldContainer[str]
    text: str
    viewers: _containers.RepeatedScalarFieldContainer[str]
    within: str
    def __init__(self, author: _Optional[str] = ..., actors: _Optional[_Iterable[str]] = ..., actor_roles: _Optional[_Iterable[str]] = ..., viewers: _Optional[_Iterable[str]] = ..., kinds: _Optional[_Union[KindNames, _Mapping]] = ..., exact: bool = ..., post: _Optional[str] = ..., related: _Optional[_Iterable[str]] = ..., facets: _Optional[_Iterable[_Union[Facet, _Mapping]]] = ..., after: _Optional[str] = ..., within: _Optional[str] = ..., text: _Optional[str] = ...) -> None: ...

class FanoutResponse(_message.Message):
    __slots__ = ["degraded", "dropped"]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    degraded: _containers.RepeatedCompositeFieldContainer[Degraded]
    dropped: _containers.RepeatedCompositeFieldContainer[DroppedViewer]
    def __init__(self, dropped: _Optional[_Iterable[_Union[DroppedViewer, _Mapping]]] = ..., degraded: _Optional[_Iterable[_Union[Degraded, _Mapping]]] = ...) -> None: ...

class FilterRequest(_message.Message):
    __slots__ = ["actor_posts", "actor_roles", "actors", "after", "annotate", "answer", "authors", "exact", "facets", "kinds", "limit", "lists", "posts", "record_seen", "related", "related_posts", "texts", "viewer", "within"]
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_POSTS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ROLES_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    ANNOTATE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    AUTHORS_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    FACETS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    LISTS_FIELD_NUMBER: _ClassVar[int]
    POSTS_FIELD_NUMBER: _ClassVar[int]
    RECORD_SEEN_FIELD_NUMBER: _ClassVar[int]
    RELATED_FIELD_NUMBER: _ClassVar[int]
    RELATED_POSTS_FIELD_NUMBER: _ClassVar[int]
    TEXTS_FIELD_NUMBER: _ClassVar[int]
    VIEWER_FIELD_NUMBER: _ClassVar[int]
    WITHIN_FIELD_NUMBER: _ClassVar[int]
    actor_posts: _containers.RepeatedScalarFieldContainer[int]
    actor_roles: _containers.RepeatedScalarFieldContainer[str]
    actors: _containers.RepeatedScalarFieldContainer[str]
    after: str
    annotate: _containers.RepeatedScalarFieldContainer[str]
    answer: Answer
    authors: _containers.RepeatedScalarFieldContainer[str]
    exact: bool
    facets: _containers.RepeatedCompositeFieldContainer[Facet]
    kinds: KindNames
    limit: int
    lists: _containers.RepeatedScalarFieldContainer[str]
    posts: _containers.RepeatedScalarFieldContainer[str]
    record_seen: bool
    related: _containers.RepeatedScalarFieldContainer[str]
    related_posts: _containers.RepeatedScalarFieldContainer[int]
    texts: _containers.RepeatedScalarFieldContainer[str]
    viewer: str
    within: str
    def __init__(self, viewer: _Optional[str] = ..., posts: _Optional[_Iterable[str]] = ..., authors: _Optional[_Iterable[str]] = ..., actors: _Optional[_Iterable[str]] = ..., actor_posts: _Optional[_Iterable[int]] = ..., kinds: _Optional[_Union[KindNames, _Mapping]] = ..., annotate: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., record_seen: bool = ..., exact: bool = ..., answer: _Optional[_Union[Answer, str]] = ..., facets: _Optional[_Iterable[_Union[Facet, _Mapping]]] = ..., actor_roles: _Optional[_Iterable[str]] = ..., related: _Optional[_Iterable[str]] = ..., related_posts: _Optional[_Iterable[int]] = ..., lists: _Optional[_Iterable[str]] = ..., after: _Optional[str] = ..., within: _Optional[str] = ..., texts: _Optional[_Iterable[str]] = ...) -> None: ...

class FilterResponse(_message.Message):
    __slots__ = ["annotated", "degraded", "dropped", "kept", "next"]
    ANNOTATED_FIELD_NUMBER: _ClassVar[int]
    DEGRADED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    annotated: _containers.RepeatedCompositeFieldContainer[Annotated]
    degraded: _containers.RepeatedCompositeFieldContainer[Degraded]
    dropped: _containers.RepeatedCompositeFieldContainer[Dropped]
    kept: _containers.RepeatedScalarFieldContainer[int]
    next: int
    def __init__(self, kept: _Optional[_Iterable[int]] = ..., dropped: _Optional[_Iterable[_Union[Dropped, _Mapping]]] = ..., annotated: _Optional[_Iterable[_Union[Annotated, _Mapping]]] = ..., next: _Optional[int] = ..., degraded: _Optional[_Iterable[_Union[Degraded, _Mapping]]] = ...) -> None: ...

class KindNames(_message.Message):
    __slots__ = ["names"]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...

class Page(_message.Message):
    __slots__ = ["bytes", "false_positive_rate", "keys", "number", "sequence"]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    FALSE_POSITIVE_RATE_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    bytes: int
    false_positive_rate: float
    keys: int
    number: int
    sequence: int
    def __init__(self, number: _Optional[int] = ..., sequence: _Optional[int] = ..., keys: _Optional[int] = ..., bytes: _Optional[int] = ..., false_positive_rate: _Optional[float] = ...) -> None: ...

class Post(_message.Message):
    __slots__ = ["actor_roles", "actors", "author", "facets", "id", "related", "text"]
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    ACTOR_ROLES_FIELD_NUMBER: _ClassVar[int]
    AUTHOR_FIELD_NUMBER: _ClassVar[int]
    FACETS_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    RELATED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    actor_roles: _containers.RepeatedScalarFieldContainer[str]
    actors: _containers.RepeatedScalarFieldContainer[str]
    author: str
    facets: _containers.RepeatedCompositeFieldContainer[Facet]
    id: str
    related: _containers.RepeatedScalarFieldContainer[str]
    text: str
    def __init__(self, id: _Optional[str] = ..., author: _Optional[str] = ..., actors: _Optional[_Iterable[str]] = ..., facets: _Optional[_Iterable[_Union[Facet, _Mapping]]] = ..., actor_roles: _Optional[_Iterable[str]] = ..., related: _Optional[_Iterable[str]] = ..., text: _Optional[str] = ...) -> None: ...

class Reason(_message.Message):
    __slots__ = ["actor", "certainty", "direction", "effect", "in_text", "kind", "list", "overruled_by", "parts", "since", "target", "until"]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    CERTAINTY_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    IN_TEXT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    OVERRULED_BY_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    actor: str
    certainty: str
    direction: str
    effect: str
    in_text: TextRange
    kind: str
    list: str
    overruled_by: str
    parts: _containers.RepeatedScalarFieldContainer[str]
    since: _timestamp_pb2.Timestamp
    target: str
    until: _timestamp_pb2.Timestamp
    def __init__(self, kind: _Optional[str] = ..., effect: _Optional[str] = ..., actor: _Optional[str] = ..., direction: _Optional[str] = ..., certainty: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., parts: _Optional[_Iterable[str]] = ..., target: _Optional[str] = ..., overruled_by: _Optional[str] = ..., list: _Optional[str] = ..., in_text: _Optional[_Union[TextRange, _Mapping]] = ...) -> None: ...

class TextRange(_message.Message):
    __slots__ = ["end", "start"]
    END_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    end: int
    start: int
    def __init__(self, start: _Optional[int] = ..., end: _Optional[int] = ...) -> None: ...

class Answer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
