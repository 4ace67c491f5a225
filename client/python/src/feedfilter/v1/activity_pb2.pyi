from feedfilter.v1 import error_pb2 as _error_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor
OP_ADD: Op
OP_REMOVE: Op
OP_UNSPECIFIED: Op

class Activity(_message.Message):
    __slots__ = ["kind", "op", "since", "target", "until", "user"]
    KIND_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    kind: str
    op: Op
    since: _timestamp_pb2.Timestamp
    target: str
    until: _timestamp_pb2.Timestamp
    user: str
    def __init__(self, user: _Optional[str] = ..., kind: _Optional[str] = ..., target: _Optional[str] = ..., op: _Optional[_Union[Op, str]] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class CountRequest(_message.Message):
    __slots__ = ["user"]
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...

class CountResponse(_message.Message):
    __slots__ = ["counts"]
    class CountsEntry(_message.Message):
        __slots__ = ["key", "value"]
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.ScalarMap[str, int]
    def __init__(self, counts: _Optional[_Mapping[str, int]] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ["since", "target", "until", "user"]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    since: _timestamp_pb2.Timestamp
    target: str
    until: _timestamp_pb2.Timestamp
    user: str
    def __init__(self, target: _Optional[str] = ..., since: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., user: _Optional[str] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ["cursor", "incoming", "limit", "plural", "target", "user"]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    INCOMING_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PLURAL_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    cursor: str
    incoming: bool
    limit: int
    plural: str
    target: str
    user: str
    def __init__(self, user: _Optional[str] = ..., plural: _Optional[str] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ..., target: _Optional[str] = ..., incoming: bool = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ["items", "next"]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Item]
    next: str
    def __init__(self, items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ..., next: _Optional[str] = ...) -> None: ...

class RecordBatchRequest(_message.Message):
    __slots__ = ["activities"]
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    activities: _containers.RepeatedCompositeFieldContainer[Activity]
    def __init__(self, activities: _Optional[_Iterable[_Union[Activity, _Mapping]]] = ...) -> None: ...

class RecordBatchResponse(_message.Message):
    __slots__ = ["results"]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class RecordPostsRequest(_message.Message):
    __slots__ = ["plural", "posts", "user"]
    PLURAL_FIELD_NUMBER: _ClassVar[int]
    POSTS_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    plural: str
    posts: _containers.RepeatedScalarFieldContainer[str]
    user: str
    def __init__(self, user: _Optional[str] = ..., plural: _Optional[str] = ..., posts: _Optional[_Iterable[str]] = ...) -> None: ...

class RecordPostsResponse(_message.Message):
    __slots__ = ["recorded"]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    recorded: int
    def __init__(self, recorded: _Optional[int] = ...) -> None: ...

class RecordRequest(_message.Message):
    __slots__ = ["op", "plural", "target", "until", "user"]
    OP_FIELD_NUMBER: _ClassVar[int]
    PLURAL_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    op: Op
    plural: str
    target: str
    until: _timestamp_pb2.Timestamp
    user: str
    def __init__(self, user: _Optional[str] = ..., plural: _Optional[str] = ..., target: _Optional[str] = ..., op: _Optional[_Union[Op, str]] = ..., until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RecordResponse(_message.Message):
    __slots__ = ["changed"]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    def __init__(self, changed: bool = ...) -> None: ...

class RecordStreamRequest(_message.Message):
    __slots__ = ["activities"]
    ACTIVITIES_FIELD_NUMBER: _ClassVar[int]
    activities: _containers.RepeatedCompositeFieldContainer[Activity]
    def __init__(self, activities: _Optional[_Iterable[_Union[Activity, _Mapping]]] = ...) -> None: ...

class RecordStreamResponse(_message.Message):
    __slots__ = ["results"]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ["changed", "error"]
    CHANGED_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    changed: bool
    error: _error_pb2.ErrorDetail
    def __init__(self, changed: bool = ..., error: _Optional[_Union[_error_pb2.ErrorDetail, _Mapping]] = ...) -> None: ...

class Op(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = []
