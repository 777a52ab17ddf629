"""A proxy before an HTTP server that delays, cuts and loses what passes through it.

with proxy(server_port) as between:
between.weather = Weather(chance, often=0.05)
requests.get(f"http://127.0.0.1:{between.port}/")
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPResponse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from time import sleep
from typing import Any

from tests.support.weather import Weather, calm

SECONDS = 60  # for the server to answer, on a busy machine
LONGEST_DELAY = 0.1  # seconds
KEPT_TO_ITSELF = frozenset({"connection", "keep-alive", "transfer-encoding", "expect", "date", "server"})

ERRORS = {
    500: b"<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>",
    503: b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>",
}
FAULTS = ("delayed", "refused", "lost", "torn", "silent", "deaf", 500, 503)


@dataclass
class Proxy:
    """Between clients and a server."""

    server: str
    server_port: int
    port: int
    weather: Weather = field(default_factory=calm)
    faults: tuple[str | int, ...] = FAULTS
    ended: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def next_fault(self) -> str | int | None:
        """What happens to the next request."""
        with self._lock:
            return self.weather.chance.choice(self.faults) if self.weather.strikes() else None

    def delay(self) -> float:
        """How long a delayed request waits."""
        with self._lock:
            return self.weather.chance.uniform(0, LONGEST_DELAY)


class _Handler(BaseHTTPRequestHandler):
    """Passes requests on, or does not."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1  # an answer leaves in one piece
    proxy: Proxy

    def handle_one_request(self) -> None:
        with suppress(ConnectionError, TimeoutError):
            super().handle_one_request()
            return
        self.close_connection = True

    def handle_expect_100(self) -> bool:
        """Leave it to `pass_on` whether to take what the client offers."""
        return True

    def pass_on(self) -> None:
        """Answer a request as the weather allows."""
        fault = self.proxy.next_fault()
        if fault == "deaf":
            self._stay_silent()
            self._reset()
            return
        if self.headers.get("Expect"):
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self.wfile.flush()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if isinstance(fault, int):
            self._answer(fault, {"Content-Type": "application/xml"}, ERRORS[fault] if self.command != "HEAD" else b"")
            return
        if fault == "silent":
            self._stay_silent()
        elif fault == "delayed":
            sleep(self.proxy.delay())
        if fault in ("refused", "silent"):
            self._reset()
            return
        status, headers, data = self._ask_server(body)
        if fault == "lost":
            self._reset()
        elif fault == "torn":
            self._answer(status, headers, data[: len(data) // 2], length=len(data))
            self._reset()
        else:
            self._answer(status, headers, data)

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on  # noqa: N815 - names of http.server

    def _ask_server(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """Have the server answer."""
        headers = {name: value for name, value in self.headers.items() if name.lower() not in KEPT_TO_ITSELF}
        with closing(HTTPConnection(self.proxy.server, self.proxy.server_port, timeout=SECONDS)) as server:
            server.request(self.command, self.path, body, headers)
            response: HTTPResponse = server.getresponse()
            data = response.read()
            found = {name: value for name, value in response.getheaders() if name.lower() not in KEPT_TO_ITSELF}
        return response.status, found, data

    def _answer(self, status: int, headers: dict[str, str], data: bytes, length: int | None = None) -> None:
        """Send an answer, or the beginning of a longer one."""
        self.send_response(status)
        sizes = {} if self.command == "HEAD" else {"Content-Length": str(len(data) if length is None else length)}
        given = {name: value for name, value in headers.items() if self.command == "HEAD" or name != "Content-Length"}
        for name, value in (given | sizes).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def _stay_silent(self) -> None:
        """Wait until the client has given up."""
        self.connection.settimeout(0.05)
        while not self.proxy.ended.is_set():
            with suppress(TimeoutError):
                if not self.connection.recv(1):
                    return

    def _reset(self) -> None:
        """End the connection as a crash does."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def finish(self) -> None:
        with suppress(OSError, ValueError):
            super().finish()

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextmanager
def proxy(port: int, server: str = "127.0.0.1", host: str = "127.0.0.1") -> Iterator[Proxy]:
    """Run a proxy during the block."""
    handler = type("Handler", (_Handler,), {})
    with ThreadingHTTPServer((host, 0), handler) as listener:
        handler.proxy = made = Proxy(server, port, listener.server_port)  # type: ignore[attr-defined]
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield made
        finally:
            made.ended.set()
            listener.shutdown()
            thread.join()
