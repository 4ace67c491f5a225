"""Fixtures: services, and a proxy that closes connections."""

import itertools
import json
import os
import secrets
import socket
import threading
from typing import Callable, Iterator, List
from urllib.parse import urlsplit

import httpx
import pytest

from feedfilter import Client

from .agreement import Agreement, AsyncChecked, Checked


def setting(name: str) -> str:
    """Return a setting from the Go test that starts the services."""
    value = os.environ.get(name)
    if not value:
        pytest.skip(f"{name} is not set: go test ./integration -run TestPythonClient sets it")
    return value


@pytest.fixture(scope="session")
def url() -> str:
    """Return the URL of a service without tokens."""
    return setting("FEEDFILTER_URL")


@pytest.fixture(scope="session")
def socket_url() -> str:
    """Return the same service on a Unix socket."""
    return "unix:" + setting("FEEDFILTER_SOCKET")


@pytest.fixture(scope="session")
def guarded() -> str:
    """Return the URL of a service that requires a token."""
    return setting("FEEDFILTER_GUARDED_URL")


@pytest.fixture(scope="session")
def token() -> str:
    """Return a token of that service, with only the scope feed:read."""
    return setting("FEEDFILTER_READ_TOKEN")


@pytest.fixture(scope="session")
def agreement(url: str) -> Agreement:
    """Return the descriptions of the API."""
    return Agreement(json.loads(httpx.get(url + "/openapi.json", timeout=60).content))


@pytest.fixture
def client(url: str, agreement: Agreement) -> Iterator[Client]:
    """Yield a client whose calls are checked against the descriptions."""
    checked = Checked(agreement, httpx.HTTPTransport())
    with Client(url, transport=checked, max_attempts=1) as c:
        yield c


@pytest.fixture
def unchecked(url: str) -> Iterator[Client]:
    """Yield a client for requests that the descriptions forbid."""
    with Client(url, max_attempts=1) as c:
        yield c


@pytest.fixture
def async_transport(agreement: Agreement) -> AsyncChecked:
    """Return a transport for an AsyncClient whose calls are checked."""
    return AsyncChecked(agreement, httpx.AsyncHTTPTransport())


_run = secrets.token_hex(3)
_numbers = itertools.count()


@pytest.fixture
def uid() -> Callable[[str], str]:
    """Return a function that makes ids that no other test or run uses."""
    number = next(_numbers)
    return lambda name: f"py-{_run}-{number}-{name}"


class Proxy:
    """Forwards connections to a service, and closes some of them.

    The first `cut` connections are closed when the first bytes of a request have arrived.
    """

    def __init__(self, to: str, cut: int = 0) -> None:
        target = urlsplit(to)
        self._to = (target.hostname or "", target.port or 80)
        self._cut = cut
        self._silent = False
        self.connections = 0
        self._open: List[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            if self.connections <= self._cut:
                near.recv(1)
                near.close()
                continue
            far = socket.create_connection(self._to)
            self._open += [near, far]
            for pair in ((near, far), (far, near)):
                thread = threading.Thread(target=self._copy, args=pair)
                self._threads.append(thread)
                thread.start()

    def _copy(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while True:
                part = source.recv(1 << 16)
                if not part:
                    break
                if not self._silent:
                    sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def silence(self) -> None:
        """Forward nothing from now on, on any connection."""
        self._silent = True

    def break_connections(self) -> None:
        """Close the open connections."""
        for connection in self._open:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            connection.close()
        self._open.clear()

    def close(self) -> None:
        """Stop the proxy."""
        try:
            self._listener.shutdown(socket.SHUT_RDWR)  # ends accept on Linux
        except OSError:  # elsewhere, close ends it
            pass
        self._listener.close()
        self._threads[0].join()
        self.break_connections()
        for thread in self._threads[1:]:
            thread.join()


@pytest.fixture
def proxy() -> Iterator[Callable[..., Proxy]]:
    """Return a function that starts a proxy. The proxy stops at the end of the test."""
    proxies: List[Proxy] = []

    def start(to: str, cut: int = 0) -> Proxy:
        proxies.append(Proxy(to, cut))
        return proxies[-1]

    yield start
    for p in proxies:
        p.close()


class Mute:
    """A server that accepts a connection and never answers."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        """Stop the server."""
        self._listener.close()


@pytest.fixture
def mute() -> Iterator[Mute]:
    """Yield a server that never answers."""
    server = Mute()
    yield server
    server.close()
