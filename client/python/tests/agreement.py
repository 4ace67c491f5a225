"""Checks requests and answers against the schema and the OpenAPI document."""

import json
import re
from typing import Any, AsyncIterator, Dict, Iterator, List, Optional, Tuple
from urllib.parse import parse_qsl, unquote

import httpx
import jsonschema
from google.protobuf.message import Message

from feedfilter.v1 import activity_pb2, error_pb2, feed_pb2

MODULES = (activity_pb2, error_pb2, feed_pb2)
FILES = [module.DESCRIPTOR for module in MODULES]
MESSAGES = {
    file.message_types_by_name[name].full_name: getattr(module, name)
    for module, file in zip(MODULES, FILES)
    for name in file.message_types_by_name
}


class Agreement:
    """The two descriptions of the API, and the calls that were checked."""

    def __init__(self, document: Dict[str, Any]) -> None:
        self.document = document
        self.seen: List[str] = []  # operations and procedures
        self._validators: Dict[int, Any] = {}  # by schemas of the document
        self.procedures = {
            f"/{service.full_name}/{method.name}": method
            for file in FILES
            for service in file.services_by_name.values()
            for method in service.methods
        }

    def check(self, method: str, path: bytes, headers: httpx.Headers, body: bytes) -> "Exchange":
        """Check a request, and return the expected answer."""
        target, _, query = path.decode("ascii").partition("?")
        if target in self.procedures:
            return self._procedure(target, method, headers, body)
        template, operation, values = self._operation(target, method)
        self.seen.append(operation["operationId"])
        given = {**values, **dict(parse_qsl(query, keep_blank_values=True))}
        for parameter in operation.get("parameters", []):
            name = parameter["name"]
            if name in given:
                value: Any = given.pop(name)
                if parameter["schema"].get("type") == "integer":
                    value = int(value)
                self.validate(value, parameter["schema"])
            else:
                assert not parameter.get("required"), f"{template}: {name} is missing"
        assert not given, f"{template}: unknown parameters {given}"
        wanted = operation.get("requestBody")
        if wanted is None:
            assert not body, f"{template}: unexpected body"
        else:
            self._content(wanted["content"], headers, body)
        return Exchange(self, operation["responses"], None)

    def _procedure(
        self, target: str, method: str, headers: httpx.Headers, body: bytes
    ) -> "Exchange":
        assert method == "POST"
        assert headers["content-type"] == "application/proto"
        assert headers["connect-protocol-version"] == "1"
        assert re.fullmatch("[1-9][0-9]{0,9}", headers["connect-timeout-ms"])
        self.seen.append(target)
        procedure = self.procedures[target]
        known(procedure.input_type, body)
        return Exchange(self, None, procedure.output_type)

    def _operation(self, target: str, method: str) -> Tuple[str, Dict[str, Any], Dict[str, str]]:
        parts = target.split("/")
        found = []
        for template, operations in self.document["paths"].items():
            names = template.split("/")
            if len(names) != len(parts) or method.lower() not in operations:
                continue
            if all(n.startswith("{") or n == p for n, p in zip(names, parts)):
                fixed = sum(not n.startswith("{") for n in names)
                values = {
                    n[1:-1]: unquote(p, errors="strict")
                    for n, p in zip(names, parts)
                    if n.startswith("{")
                }
                found.append((fixed, template, operations[method.lower()], values))
        assert found, f"{method} {target} is not in the document"
        return max(found, key=lambda f: f[0])[1:]

    def _content(self, content: Dict[str, Any], headers: httpx.Headers, body: bytes) -> None:
        kind = headers["content-type"].partition(";")[0]
        assert kind in content, f"{kind} is not one of {list(content)}"
        schema = content[kind]["schema"]
        lines = body.splitlines() if kind == "application/x-ndjson" else [body]
        for line in lines:
            self.validate(json.loads(line), schema)

    def validate(self, value: Any, schema: Dict[str, Any]) -> None:
        """Check a value against a schema of the document."""
        if id(schema) not in self._validators:
            whole = {**schema, "components": self.document["components"]}
            self._validators[id(schema)] = jsonschema.Draft202012Validator(whole)
        self._validators[id(schema)].validate(value)

    def schema(self, name: str) -> Dict[str, Any]:
        """Return a schema of the document."""
        found: Dict[str, Any] = self.document["components"]["schemas"][name]
        return found


class Exchange:
    """A request whose answer has not been checked yet."""

    def __init__(
        self, agreement: Agreement, responses: Optional[Dict[str, Any]], output: Any
    ) -> None:
        self.agreement = agreement
        self.responses = responses
        self.output = output

    def answered(self, status: int, headers: httpx.Headers, body: bytes) -> None:
        """Check the answer."""
        if self.responses is not None:
            assert str(status) in self.responses, f"{status} is not in the document"
            self.agreement._content(self.responses[str(status)]["content"], headers, body)
        elif status == 200:
            known(self.output, body)
        else:
            assert headers["content-type"] == "application/json"
            details = json.loads(body)["details"]
            assert [d["type"] for d in details] == ["feedfilter.v1.ErrorDetail"]


def known(descriptor: Any, body: bytes) -> None:
    """Check that the bytes have no fields that the message type lacks."""
    message: Message = MESSAGES[descriptor.full_name]()
    message.ParseFromString(body)
    length = message.ByteSize()
    message.DiscardUnknownFields()
    assert message.ByteSize() == length, f"{descriptor.full_name}: unknown fields"


class Checked(httpx.BaseTransport):
    """Forwards requests, and checks them."""

    def __init__(self, agreement: Agreement, through: httpx.BaseTransport) -> None:
        self.agreement = agreement
        self.through = through

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Make the request, and check it."""
        exchange = self.agreement.check(
            request.method, request.url.raw_path, request.headers, request.read()
        )
        response = self.through.handle_request(request)
        assert isinstance(response.stream, httpx.SyncByteStream)
        response.stream = Kept(response, response.stream, exchange)
        return response

    def close(self) -> None:
        """Close the connections."""
        self.through.close()


class Kept(httpx.SyncByteStream):
    """Collects the parts of an answer, and checks them at its end."""

    def __init__(
        self, response: httpx.Response, stream: httpx.SyncByteStream, exchange: Exchange
    ) -> None:
        self.response = response
        self.stream = stream
        self.exchange = exchange

    def __iter__(self) -> Iterator[bytes]:
        body = b""
        for part in self.stream:
            body += part
            yield part
        self.exchange.answered(self.response.status_code, self.response.headers, body)

    def close(self) -> None:
        """Close the answer."""
        self.stream.close()


class AsyncChecked(httpx.AsyncBaseTransport):
    """Like Checked, for asyncio."""

    def __init__(self, agreement: Agreement, through: httpx.AsyncBaseTransport) -> None:
        self.agreement = agreement
        self.through = through

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Make the request, and check it."""
        exchange = self.agreement.check(
            request.method, request.url.raw_path, request.headers, await request.aread()
        )
        response = await self.through.handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = AsyncKept(response, response.stream, exchange)
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self.through.aclose()


class AsyncKept(httpx.AsyncByteStream):
    """Like Kept, for asyncio."""

    def __init__(
        self, response: httpx.Response, stream: httpx.AsyncByteStream, exchange: Exchange
    ) -> None:
        self.response = response
        self.stream = stream
        self.exchange = exchange

    async def __aiter__(self) -> AsyncIterator[bytes]:
        body = b""
        async for part in self.stream:
            body += part
            yield part
        self.exchange.answered(self.response.status_code, self.response.headers, body)

    async def aclose(self) -> None:
        """Close the answer."""
        await self.stream.aclose()
