"""An S3 server that writes down its requests, and what they are in each step of a run.

python -m tests.support.counting HOST PORT [BUCKET...]

It prints a line of JSON for each request, once that is answered. A step ends where its manifest is written; so what is
deleted after that counts for the next one.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from io import BytesIO
from typing import Any
from urllib.parse import parse_qs, unquote

KINDS = ("GET", "range", "PUT", "DELETE", "LIST", "HEAD")
"""Reading all of an object, reading a part, writing, deleting one or many, listing, asking whether there is one."""
MANIFEST = r"manifests/\d+\.json"


@dataclass(frozen=True)
class Request:
    """One request that was answered."""

    kind: str
    """One of `KINDS`, or the method."""
    key: str
    """Of the object, or what is listed begins with; with the bucket."""
    client: str
    """Its address."""
    received: int
    """Bytes of data that came with it."""
    sent: int
    """Bytes of data that went back."""
    status: int


@dataclass
class Traffic:
    """The requests of a step."""

    requests: Counter[str] = field(default_factory=Counter)
    """Number of each kind."""
    written: int = 0
    """Bytes."""
    read: int = 0
    """Bytes, without lists of names."""
    clients: Counter[str] = field(default_factory=Counter)
    """Requests of each host, by its address."""

    def add(self, request: Request) -> None:
        """Count a request."""
        self.requests[request.kind] += 1
        self.clients[request.client] += 1
        self.written += request.received if request.kind == "PUT" else 0
        self.read += request.sent if request.kind in ("GET", "range") else 0


def requests_of(lines: Iterable[str]) -> Iterator[Request]:
    """Yield what a server has written down; other lines are left out."""
    for line in lines:
        if line.startswith('{"kind"'):
            yield Request(**json.loads(line))


def steps_of(requests: Iterable[Request], store: str) -> list[Traffic]:
    """Return the requests of each step of a run, from its beginning; `store` is its bucket and folder."""
    steps = [Traffic()]
    for request in requests:
        if request.key.rstrip("/") != store and not request.key.startswith(f"{store}/"):
            continue
        steps[-1].add(request)
        if (
            request.kind == "PUT"
            and request.status == 200
            and re.fullmatch(f"{re.escape(store)}/{MANIFEST}", request.key)
        ):
            steps.append(Traffic())
    return steps


class Counting:
    """Passes requests on to an application, and prints what they were."""

    def __init__(self, application: Any) -> None:
        self._application = application

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        """Answer a request."""
        status, sent = [""], 0
        kind, key = kind_of(environ)

        def begin(text: str, headers: Sequence[tuple[str, str]], *rest: Any) -> Any:
            status[0] = text
            return start_response(text, headers, *rest)

        for data in self._application(environ, begin):
            sent += len(data)
            yield data
        received = int(environ.get("HTTP_X_AMZ_DECODED_CONTENT_LENGTH") or environ.get("CONTENT_LENGTH") or 0)
        answered = Request(kind, key, environ["REMOTE_ADDR"], received, sent, int(status[0][:3]))
        os.write(sys.stdout.fileno(), f"{json.dumps(asdict(answered))}\n".encode())  # whole, whatever threads do


def kind_of(environ: dict[str, Any]) -> tuple[str, str]:
    """Return what a request is, and what it is about: where several objects are deleted, the first of them."""
    method, path = environ["REQUEST_METHOD"], unquote(environ["PATH_INFO"]).strip("/")
    query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
    if method == "GET" and ("/" not in path or "list-type" in query):
        return "LIST", f"{path}/{query.get('prefix', [''])[0]}".rstrip("/")
    if method == "POST" and "delete" in query:
        body = environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))
        environ["wsgi.input"] = BytesIO(body)
        return "DELETE", f"{path}/{body.partition(b'<Key>')[2].partition(b'</Key>')[0].decode()}"
    if method == "GET" and environ.get("HTTP_RANGE", "bytes=0-") != "bytes=0-":
        return "range", path
    return method, path


def main() -> None:
    """Serve until the process is killed; buckets that are named exist from the beginning."""
    from moto.moto_server import werkzeug_app as moto  # noqa: PLC0415
    from werkzeug.serving import run_simple  # noqa: PLC0415
    from werkzeug.test import Client  # noqa: PLC0415

    application = moto.DomainDispatcherApplication(moto.create_backend_app)
    host, port, *buckets = sys.argv[1:]
    for bucket in buckets:
        Client(application).put(f"/{bucket}", base_url=f"http://{host}:{port}")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = Counting(application)
    run_simple(host, int(port), server, threaded=True, request_handler=moto.MotoRequestHandler)


if __name__ == "__main__":
    main()
