"""Servers for tests: S3, Google's and Azure's stores (each a process of its own), a proxy that injects faults, and
a web server with ranges."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import http.client
import http.server
import json
import os
import random
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SLOW_DOWN = (
    b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code>'
    b"<Message>Please reduce your request rate.</Message></Error>"
)
KEY, SECRET = "AKIATESTONLYHELDOUT1", "test-only-secret-access-key-0123456789"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def running(command: list[str], port: int, log: Path) -> Iterator[str]:
    """The address of a server that runs in a process of its own."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(20)


def s3_server(log: Path) -> contextlib.AbstractContextManager[str]:
    """moto's server."""
    port = free_port()
    program = "from moto.server import main; main()"
    command = [sys.executable, "-c", program, "-H", "127.0.0.1", "-p", str(port)]
    return running(command, port, log)


def google_server(log: Path) -> contextlib.AbstractContextManager[str]:
    """The package gcp-storage-emulator."""
    port = free_port()
    command = [sys.executable, "-m", "gcp_storage_emulator", "start", "--in-memory"]
    return running([*command, "--host=127.0.0.1", f"--port={port}"], port, log)


def azure_server(log: Path, program: str) -> contextlib.AbstractContextManager[str]:
    """Azurite, a package for node: ``program`` is its azurite-blob."""
    port = free_port()
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    command = [program, "--blobHost", "127.0.0.1", "--blobPort", str(port), *options]
    return running(command, port, log)


class FaultyProxy(http.server.ThreadingHTTPServer):
    """Forwards to ``target``. Of the requests that read, a share fails: throttled, or reset in mid-body.

    ``plan`` may decide instead: it gets method and path and says "throttle", "reset", "refuse" or "".
    """

    daemon_threads = True

    def __init__(self, target: str, share: float = 0.0, seed: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Forward)
        self.target = target.removeprefix("http://")
        self.share = share
        self.random = random.Random(seed)
        self.plan: Any = None
        self.faults: Counter[str] = Counter()
        self.requests: list[tuple[str, str, str | None]] = []  # method, path, range
        self.sent = 0  # bytes of bodies
        self.lock = threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def fault(self, method: str, path: str) -> str:
        with self.lock:
            if self.plan is not None:
                kind = str(self.plan(method, path))
            elif method in ("GET", "HEAD") and self.random.random() < self.share:
                kind = self.random.choice(("throttle", "reset"))
            else:
                kind = ""
            self.faults[kind] += 1
            return kind

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away; that is no news."""


class _Forward(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FaultyProxy

    def _forward(self) -> None:
        proxy = self.server
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with proxy.lock:
            proxy.requests.append((self.command, self.path, self.headers.get("range")))
        kind = proxy.fault(self.command, self.path)
        if kind in ("throttle", "refuse"):
            status = 503 if kind == "throttle" else 403
            data = (
                SLOW_DOWN if kind == "throttle" else SLOW_DOWN.replace(b"SlowDown", b"ExpiredToken")
            )
            self.send_response(status)
            self.send_header("content-type", "application/xml")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)
            return
        upstream = http.client.HTTPConnection(proxy.target, timeout=60)
        headers = {
            name: value for name, value in self.headers.items() if name.lower() != "connection"
        }
        upstream.request(self.command, self.path, body, headers)
        reply = upstream.getresponse()
        data = reply.read()
        upstream.close()
        self.send_response_only(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                self.send_header(name, value)
        length = reply.getheader("content-length") if self.command == "HEAD" else str(len(data))
        self.send_header("content-length", length or "0")
        self.end_headers()
        if kind == "reset":
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            linger = struct.pack("ii", 1, 0)  # close sends a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
            self.close_connection = True
            return
        if self.command != "HEAD":
            self.wfile.write(data)
            with proxy.lock:
                proxy.sent += len(data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _forward  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@contextlib.contextmanager
def serving(server: Any) -> Iterator[Any]:
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class RangeHandler(http.server.SimpleHTTPRequestHandler):
    """The standard library's server of files, with ranges, ETags, and a login or a signature if asked."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._answer(send=True)

    def do_HEAD(self) -> None:
        self._answer(send=False)

    def _answer(self, *, send: bool) -> None:
        server: Any = self.server
        server.seen.append((self.path, self.headers.get("range")))
        address = urllib.parse.urlsplit(self.path)
        if server.redirect and address.path == "/moved":
            return self._reply(302, b"", send, location=server.redirect)
        if server.signature and server.signature not in address.query:
            return self._reply(403, b"", send)
        if server.login and self.headers.get("authorization") != server.login:
            return self._reply(401, b"", send)
        path = Path(self.translate_path(address.path))
        if path.is_dir():
            if not address.path.endswith("/"):
                query = f"?{address.query}" if address.query else ""
                return self._reply(301, b"", send, location=f"{address.path}/{query}")
            names = [f"{p.name}/" if p.is_dir() else p.name for p in sorted(path.iterdir())]
            links = "".join(f'<a href="{urllib.parse.quote(n)}">{n}</a>' for n in ["../", *names])
            return self._reply(200, f"<html>{links}".encode(), send, content_type="text/html")
        if not path.is_file():
            return self._reply(404, b"", send)
        data, facts = path.read_bytes(), path.stat()
        etag = f'"{facts.st_mtime_ns:x}-{facts.st_size:x}"'
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range") or "")
        if wanted is None or not server.ranges:
            return self._reply(200, data, send, etag=etag)
        first, last = int(wanted[1]), min(int(wanted[2]), len(data) - 1)
        span = f"bytes {first}-{last}/{len(data)}"
        return self._reply(206, data[first : last + 1], send, etag=etag, content_range=span)

    def _reply(self, status: int, data: bytes, send: bool, **headers: str) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if send:
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


def web_server(folder: Path) -> Any:
    handler = functools.partial(RangeHandler, directory=str(folder))
    server: Any = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    server.seen, server.ranges = [], True
    server.signature = server.login = server.redirect = ""
    server.address = f"http://127.0.0.1:{server.server_address[1]}"
    return server


def s3_client(address: str) -> Any:
    import boto3

    return boto3.client(
        "s3",
        endpoint_url=address,
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
        region_name="us-east-1",
    )


def upload(client: Any, bucket: str, folder: Path, prefix: str = "") -> int:
    """All files below a folder as objects; how many."""
    names = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    for path in names:
        client.put_object(
            Bucket=bucket, Key=prefix + path.relative_to(folder).as_posix(), Body=path.read_bytes()
        )
    return len(names)


class Google:
    """What a test needs of a store of Google's."""

    scheme, key = "gs", ""
    secrets = ()  # what in the environment holds the key

    def __init__(self, address: str) -> None:
        self._address = address
        self.environment = {"STORAGE_EMULATOR_HOST": address}

    def create(self, bucket: str) -> None:
        self._post("/storage/v1/b", json.dumps({"name": bucket}).encode())

    def put(self, bucket: str, key: str, data: bytes) -> None:
        query = urllib.parse.urlencode({"uploadType": "media", "name": key})
        self._post(f"/upload/storage/v1/b/{bucket}/o?{query}", data)

    def _post(self, path: str, data: bytes) -> None:
        request = urllib.request.Request(f"{self._address}{path}", data)
        request.add_header("content-type", "application/json" if "?" not in path else "image/png")
        urllib.request.urlopen(request).close()


class Azure:
    """What a test needs of a store of Azure's. Account and key are those that Azurite's documentation gives."""

    scheme = "az"
    secrets = ("AZURE_STORAGE_CONNECTION_STRING",)
    key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

    def __init__(self, address: str) -> None:
        from azure.storage.blob import BlobServiceClient

        name = "devstoreaccount1"
        connection = (
            f"DefaultEndpointsProtocol=http;AccountName={name};AccountKey={self.key};"
            f"BlobEndpoint={address}/{name};"
        )
        self.environment = {"AZURE_STORAGE_CONNECTION_STRING": connection}
        self._client = BlobServiceClient.from_connection_string(connection)

    def create(self, bucket: str) -> None:
        self._client.create_container(bucket)

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self._client.get_blob_client(bucket, key).upload_blob(data, overwrite=True)


class Amazon:
    """What a test needs of a store that speaks S3."""

    scheme, key = "s3", SECRET
    secrets = ("AWS_SECRET_ACCESS_KEY",)

    def __init__(self, address: str) -> None:
        self.environment = s3_environment(address)
        self._client = s3_client(address)

    def create(self, bucket: str) -> None:
        self._client.create_bucket(Bucket=bucket)

    def put(self, bucket: str, key: str, data: bytes) -> None:
        self._client.put_object(Bucket=bucket, Key=key, Body=data)


def fill(store: Any, bucket: str, folder: Path, prefix: str = "") -> None:
    """All files below a folder as objects of a new bucket."""
    store.create(bucket)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            store.put(bucket, prefix + path.relative_to(folder).as_posix(), path.read_bytes())


def s3_environment(address: str) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "HELDOUT_REMOTE": os.environ.get("HELDOUT_REMOTE", ""),
    }


class HubHandler(RangeHandler):
    """The routes of the Hugging Face hub that HfFileSystem uses, over a folder with one commit's files."""

    def _answer(self, *, send: bool) -> None:
        server: Any = self.server
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        server.seen.append((path, self.headers.get("range")))
        name = f"/api/datasets/{server.dataset}"
        if path in (name, f"{name}/revision/main", f"{name}/revision/{server.commit}"):
            record = {"id": server.dataset, "sha": server.commit, "private": False, "tags": []}
            return self._json({**record, "downloads": 0, "likes": 0, "siblings": []}, send)
        if path.startswith(f"{name}/tree/{server.commit}"):
            below = path.removeprefix(f"{name}/tree/{server.commit}").strip("/")
            folder = Path(self.directory) / below
            if not folder.is_dir():
                return self._missing("EntryNotFound", send)
            return self._json([self._entry(child) for child in sorted(folder.iterdir())], send)
        if path.startswith(f"/datasets/{server.dataset}/resolve/{server.commit}/"):
            self.path = path.removeprefix(f"/datasets/{server.dataset}/resolve/{server.commit}")
            return super()._answer(send=send)
        return self._missing("RepoNotFound", send)

    def _entry(self, path: Path) -> dict[str, Any]:
        place = path.relative_to(self.directory).as_posix()
        oid = hashlib.sha1(place.encode()).hexdigest()
        if path.is_dir():
            return {"type": "directory", "oid": oid, "size": 0, "path": place}
        data = path.read_bytes()
        return {
            "type": "file",
            "oid": hashlib.sha1(data).hexdigest(),
            "size": len(data),
            "path": place,
        }

    def _json(self, value: Any, send: bool) -> None:
        self._reply(200, json.dumps(value).encode(), send, content_type="application/json")

    def _missing(self, code: str, send: bool) -> None:
        self._reply(404, b"{}", send, x_error_code=code, content_type="application/json")


def hub_server(folder: Path, dataset: str, commit: str) -> Any:
    server: Any = web_server(folder)
    server.RequestHandlerClass = functools.partial(HubHandler, directory=str(folder))
    server.dataset, server.commit = dataset, commit
    return server
