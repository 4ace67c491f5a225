"""The types of the package agree with the schema and the OpenAPI document."""

import dataclasses
from inspect import ismodule
from typing import Any, Dict, Set, Type

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

import feedfilter
from feedfilter import (
    AccessDeniedError,
    Error,
    InvalidRequestError,
    LimitReachedError,
    NoLedgerError,
    OverloadedError,
    UnavailableError,
)
from feedfilter import _errors as errors
from feedfilter.v1 import activity_pb2, feed_pb2

from .agreement import FILES, Agreement
from .conftest import setting


def test_generated_code_matches_the_schema() -> None:
    """The Go test writes the schema of the service."""
    with open(setting("FEEDFILTER_SCHEMA"), "rb") as file:
        schema = FileDescriptorSet.FromString(file.read())
    of_service = {file.name: comparable(file) for file in schema.file}
    here = {}
    for generated in FILES:
        file = FileDescriptorProto()
        generated.CopyToProto(file)
        here[file.name] = comparable(file)
    assert here == of_service


def comparable(file: FileDescriptorProto) -> FileDescriptorProto:
    """Return a file without JSON names, which follow from the other names."""
    for message in file.message_type:
        for of in (message, *message.nested_type):
            for field in of.field:
                field.ClearField("json_name")
    return file


def names(of: Any) -> Set[str]:
    return {field.name for field in dataclasses.fields(of)}


def needed(of: Any) -> Set[str]:
    """Return the fields that the package requires of an answer."""
    return {f.name for f in dataclasses.fields(of) if "Optional" not in str(f.type)}


@pytest.mark.parametrize(
    "schema, of",
    [
        ("ExportLine", feedfilter.Activity),
        ("Activity", feedfilter.Activity),
        ("Preview", feedfilter.Preview),
        ("Kinds.kinds", feedfilter.Kind),
        ("Readiness", feedfilter.Readiness),
        ("Readiness.down", feedfilter.Down),
        ("Degraded", feedfilter.Degraded),
        ("Post", feedfilter.Post),
        ("Item", feedfilter.Item),
        ("Explanation", feedfilter.Explanation),
        ("Explanation.reasons", feedfilter.Reason),
        ("Explanation.reasons.in_text", feedfilter.TextRange),
        ("Explanation.page", feedfilter.Page),
    ],
)
def test_types_of_the_document(agreement: Agreement, schema: str, of: Any) -> None:
    name, *members = schema.split(".")
    found = agreement.schema(name)
    for member in members:
        found = found["properties"][member]
        found = found.get("items", found)
    assert names(of) == set(found["properties"])
    if of in (feedfilter.Preview, feedfilter.Kind, feedfilter.Down):  # read from JSON
        nullable = {
            n for n, p in found["properties"].items() if p.get("type") == ["integer", "null"]
        }
        assert needed(of) == set(found["required"]) - nullable


@pytest.mark.parametrize(
    "message, of",
    [
        (feed_pb2.Post, feedfilter.Post),
        (feed_pb2.Degraded, feedfilter.Degraded),
        (feed_pb2.Reason, feedfilter.Reason),
        (feed_pb2.TextRange, feedfilter.TextRange),
        (feed_pb2.Page, feedfilter.Page),
        (feed_pb2.ExplainResponse, feedfilter.Explanation),
        (activity_pb2.Activity, feedfilter.Activity),
        (activity_pb2.Item, feedfilter.Item),
        (activity_pb2.Result, feedfilter.Result),
    ],
)
def test_types_of_the_schema(message: Any, of: Any) -> None:
    fields = {field.name for field in message.DESCRIPTOR.fields}
    assert names(of) == fields - {"actor_roles"}  # an Actor has its role


def test_dropped_and_feed() -> None:
    dropped = {field.name for field in feed_pb2.Dropped.DESCRIPTOR.fields}
    assert names(feedfilter.Dropped) == dropped | {"post"}
    feed = {field.name for field in feed_pb2.FilterResponse.DESCRIPTOR.fields}
    assert names(feedfilter.Feed) == feed


# The class of each code of the document. Every code needs a class here.
CLASSES: Dict[str, Type[Error]] = {
    "unauthenticated": AccessDeniedError,
    "forbidden": AccessDeniedError,
    "cross_origin": AccessDeniedError,
    "limit_reached": LimitReachedError,
    "no_ledger": NoLedgerError,
    "overloaded": OverloadedError,
    "rate_limited": OverloadedError,
    "unavailable": UnavailableError,
    "audit_unavailable": UnavailableError,
    "internal": UnavailableError,
    "timeout": UnavailableError,
    "deadline_exceeded": UnavailableError,
    "not_yet": UnavailableError,
    "followed": Error,
    "stuck": Error,
    "misdirected": Error,
}

INVALID = """
    duplicate_key incomplete_row invalid_cursor invalid_id invalid_position invalid_row
    invalid_type malformed_json malformed_message malformed_query method_not_allowed missing_field
    no_activity not_followed not_found out_of_range repeated_parameter self_block snapshot_needed
    too_large too_many_ids too_many_pages unexpected_body unknown_event unknown_facet unknown_field
    unknown_kind unknown_op unknown_parameter unreadable_body unsupported_media_type unsupported_op
    wrong_effect
"""


def test_classes_of_codes(agreement: Agreement) -> None:
    code = agreement.schema("Error")["properties"]["error"]["properties"]["code"]
    classes = {**CLASSES, **dict.fromkeys(INVALID.split(), InvalidRequestError)}
    assert sorted(classes) == sorted(code["enum"])
    for name, meaning in code["x-enumDescriptions"].items():
        assert errors.class_of(int(meaning[:3]), name) is classes[name], name
        if name not in ("timeout", "deadline_exceeded", "not_yet"):  # only of whole requests
            assert errors.class_of(0, name) is classes[name], name


def test_attributes_of_errors(agreement: Agreement) -> None:
    error = agreement.schema("Error")["properties"]["error"]["properties"]
    assert set(error) <= set(vars(Error("why")))


def test_exported_names() -> None:
    public = {n for n, v in vars(feedfilter).items() if not n.startswith("_") and not ismodule(v)}
    assert set(feedfilter.__all__) == public | {"__version__"}
