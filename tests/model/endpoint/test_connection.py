"""What a server may do to a connection: drip, flood, redirect, unpack to gigabytes, hang up."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hostile_server import Behaviour, Hostile, reply, serving

from heldout.errors import InputError
from heldout.model.endpoint import Backoff, Connection, EndpointError
from heldout.model.endpoint import _client as client
from heldout.model.endpoint.connection import RefusedError, ServerWatch, TimedOutError

KEY = "sk-hostile-5521"
TWICE = Backoff(attempts=2, first_seconds=0.001)
ONCE = Backoff(attempts=1)
BOMB = gzip.compress(b" " * 2**26)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


def connect(server: Hostile, **changed: Any) -> Connection:
    settings = {"api_key": KEY, "timeout": 20.0, "backoff": TWICE, **changed}
    return Connection(server.url, **settings)


def drip_body(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)
    peer.sendall(HEAD + b"Content-Length: 100000\r\n\r\n")
    server.drip(peer, b" ")


def drip_chunks(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)
    peer.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    server.drip(peer, b"1\r\n \r\n")


def drip_headers(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)
    peer.sendall(HEAD)
    server.drip(peer, b"X: y\r\n")


def drip_status(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)
    server.drip(peer, b"HTTP/1.1 200 " + b"O" * 1000)


def silent(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)
    server.stopping.wait()


def deaf(server: Hostile, peer: socket.socket) -> None:
    """Does not even read what it is sent."""
    server.stopping.wait()


def provisional(server: Hostile, peer: socket.socket) -> None:
    """ "Continue", for ever: an answer that is none."""
    server.read(peer)
    while not server.stopping.wait(0.02):
        peer.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


@pytest.mark.parametrize(
    "behave", [drip_body, drip_chunks, drip_headers, drip_status, silent, deaf, provisional]
)
def test_the_deadline_is_over_the_whole_request(behave: Behaviour) -> None:
    """Each sends often enough to please a timeout that starts anew with every byte."""
    with serving(behave) as server:
        body = {"text": "x" * (8 * 2**20 if behave is deaf else 10)}
        with pytest.raises(TimedOutError, match=r"within 1 s.*timeout") as slow:
            connect(server, timeout=1.0, backoff=ONCE).post("/chat/completions", body)
        assert server.connections == 1
        came = "answer came within" in str(slow.value)
        assert came == (behave in (drip_body, drip_chunks))


def test_a_complaint_is_understood_though_it_never_ends() -> None:
    def complain(server: Hostile, peer: socket.socket) -> None:
        server.read(peer)
        peer.sendall(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 90000\r\n\r\n")
        server.drip(peer, b"no ")

    with (
        serving(complain) as server,
        pytest.raises(EndpointError, match="refuses the key"),
    ):
        connect(server, timeout=1.0).get("/models")


@pytest.mark.parametrize(
    ("status", "key", "expected"),
    [
        ("401 Unauthorized", None, r"asks for a key \(status 401\).*the setting api_key_env"),
        ("401 Unauthorized", "wrong", r"refuses the key that was given \(status 401: expired\)"),
        ("403 Forbidden", "wrong", "allowed to use this model"),
        ("429 Too Many Requests", "right", "Ask more slowly with the setting requests_per_second"),
    ],
)
def test_a_refusal_says_what_to_do(status: str, key: str | None, expected: str) -> None:
    def refuse(server: Hostile, peer: socket.socket) -> None:
        server.read(peer)
        body = b'{"error": {"message": "expired"}}'
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        peer.sendall(head.encode() + body)

    with serving(refuse) as server, pytest.raises(EndpointError, match=expected) as refused:
        connect(server, api_key=key, backoff=ONCE).get("/models")
    assert "wrong" not in str(refused.value)  # the key itself is never printed


def test_endless_headers_are_cut_by_their_size() -> None:
    def flood(server: Hostile, peer: socket.socket) -> None:
        server.read(peer)
        peer.sendall(HEAD)
        while not server.stopping.is_set():
            peer.sendall(b"X-More: " + b"y" * 1000 + b"\r\n")

    with serving(flood) as server, pytest.raises(EndpointError, match="did not answer"):
        connect(server).get("/models")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(client, "LARGEST_RESPONSE", 2**20)
    return 2**20


def flood_body(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)
    peer.sendall(HEAD + b"\r\n")  # until the connection is closed
    while not server.stopping.is_set():
        peer.sendall(b" " * 65536)


def flood_chunks(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)
    peer.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    while not server.stopping.is_set():
        peer.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")


def bomb(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)
    peer.sendall(reply(BOMB, "Content-Encoding: gzip"))


def flood_behind_gzip(server: Hostile, peer: socket.socket) -> None:
    """A whole gzip stream, and then bytes that unpack to nothing."""
    server.read(peer)
    peer.sendall(HEAD + b"Content-Encoding: gzip\r\n\r\n" + gzip.compress(b"{}"))
    while not server.stopping.is_set():
        peer.sendall(b" " * 65536)


@pytest.mark.parametrize("behave", [flood_body, flood_chunks, bomb, flood_behind_gzip])
def test_an_answer_is_cut_at_the_cap_packed_or_not(behave: Behaviour, small: int) -> None:
    with serving(behave) as server:
        with pytest.raises(RefusedError, match=f"larger than {small:,} bytes") as refused:
            connect(server).get("/models")
        assert refused.value.status == 0
        assert server.connections == 1  # the next attempt would be as large


def test_an_answer_of_millions_of_lists_is_not_read() -> None:
    def send(server: Hostile, peer: socket.socket) -> None:
        server.read(peer)
        body = gzip.compress(b"[" + b"[]," * 4_000_000 + b"[]]", 1)
        peer.sendall(reply(body, "Content-Encoding: gzip"))

    with serving(send) as server, pytest.raises(RefusedError, match="more than 4,000,000 values"):
        connect(server).get("/models")


def test_a_bomb_is_never_unpacked_beyond_the_cap(small: int) -> None:
    import tracemalloc

    with serving(bomb) as server:
        connection = connect(server)
        with pytest.raises(RefusedError):
            connection.get("/models")
        tracemalloc.start()
        with pytest.raises(RefusedError):
            connection.get("/models")
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert most < 4 * small  # it would unpack to 64 times as much


@pytest.mark.parametrize(
    "size", [client._PIECE - 2, client._PIECE - 1, client._PIECE, 3 * client._PIECE + 1]
)
def test_a_packed_answer_is_whole_in_whatever_pieces_it_is_unpacked(size: int) -> None:
    def send(server: Hostile, peer: socket.socket) -> None:
        server.read(peer)
        peer.sendall(reply(gzip.compress(b" " * size + b"{}"), "Content-Encoding: gzip"))

    with serving(send) as server:
        assert connect(server).get("/models") == {}


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "deflate", "zstd", "nonsense"])
def test_packing_that_was_not_asked_for_is_refused(encoding: str) -> None:
    def send(server: Hostile, peer: socket.socket) -> None:
        server.read(peer)
        peer.sendall(reply(gzip.compress(gzip.compress(b"{}")), f"Content-Encoding: {encoding}"))

    with serving(send) as server, pytest.raises(RefusedError, match="not asked for"):
        connect(server).get("/models")


@pytest.mark.parametrize("cut", [0, 9])
def test_gzip_is_read_whole_or_tried_again(cut: int) -> None:
    packed = gzip.compress(json.dumps({"data": list(range(1000))}).encode())
    packed = packed[: len(packed) - cut]

    def send(server: Hostile, peer: socket.socket) -> None:
        while server.read(peer):
            peer.sendall(reply(packed, "Content-Encoding: gzip"))

    with serving(send) as server:
        if not cut:
            assert connect(server).get("/models") == {"data": list(range(1000))}
            return
        with pytest.raises(EndpointError, match="cut short"):
            connect(server).get("/models")
        assert len(server.requests) == 2


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else() -> None:
    def listen(server: Hostile, peer: socket.socket) -> None:
        server.read(peer)
        peer.sendall(reply(b"{}"))

    with serving(listen) as elsewhere:

        def redirect(server: Hostile, peer: socket.socket) -> None:
            head = server.read(peer)
            to = elsewhere.url if b"/away" in head else server.url
            peer.sendall(reply(b"", f"Location: {to}", status="307 Moved"))

        with serving(redirect) as server:
            for path in ("/away", "/loop"):
                with pytest.raises(EndpointError, match="redirects elsewhere"):
                    connect(server).post(path, {})
            assert len(server.requests) == 2
        assert elsewhere.connections == 0


def test_connections_are_kept_open_and_shared_by_threads() -> None:
    def answer(server: Hostile, peer: socket.socket) -> None:
        while server.read(peer):
            peer.sendall(reply(b'{"fine": true}', "Set-Cookie: track=me; Path=/"))

    with serving(answer) as server:
        connection = connect(server)
        with ThreadPoolExecutor(4) as pool:
            given = list(pool.map(lambda n: connection.post("/x", n), range(100)))
        assert given == [{"fine": True}] * 100
        # Not exactly four: on a busy machine a connection may look idle for too long and be opened again.
        assert 1 <= server.connections <= 10
        assert len(server.requests) == 100
        assert not any(b"track=me" in head for head in server.requests)


def reset(server: Hostile, peer: socket.socket) -> None:
    if server.read(peer):
        linger = struct.pack("ii", 1, 0)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)  # close() sends a reset


def hang_up(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)


def half(server: Hostile, peer: socket.socket) -> None:
    server.read(peer)
    peer.sendall(reply(b'{"fine": true}')[:-3])


@pytest.mark.parametrize("fault", [reset, hang_up, half])
def test_what_is_cut_or_reset_is_tried_again(fault: Behaviour) -> None:
    def behave(server: Hostile, peer: socket.socket) -> None:
        if server.connections == 1:
            return fault(server, peer)
        server.read(peer)
        return peer.sendall(reply(b'{"fine": true}'))

    with serving(behave) as server:
        assert connect(server).post("/x", {}) == {"fine": True}
        assert server.connections == 2


def test_a_connection_that_the_server_closed_meanwhile_is_opened_again() -> None:
    closed = threading.Event()

    def once(server: Hostile, peer: socket.socket) -> None:
        server.read(peer)
        peer.sendall(reply(b"{}"))
        peer.close()
        closed.set()

    with serving(once) as server:
        connection = connect(server)
        for _ in range(3):
            connection.get("/models")
            closed.wait(10)
            closed.clear()
        assert server.connections == len(server.requests) == 3


@pytest.mark.parametrize("status", ["429 Busy", "503 Busy"])
def test_a_server_that_is_busy_is_asked_again_when_it_wishes(
    status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []

    def busy(server: Hostile, peer: socket.socket) -> None:
        while server.read(peer):
            wish = ["7", "Fri, 31 Dec 9999 23:59:59 GMT"][len(server.requests) - 1]
            peer.sendall(reply(b'{"error": "busy"}', f"Retry-After: {wish}", status=status))

    with serving(busy) as server:
        connection = connect(server)
        monkeypatch.setattr(connection.stopped, "wait", waits.append)
        with pytest.raises((EndpointError, RefusedError), match="busy"):
            connection.get("/models")
        assert len(server.requests) == 2
    assert waits == [7.0]


def nobody() -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        return int(closed.getsockname()[1])


def test_a_refused_connection_says_so() -> None:
    with pytest.raises(EndpointError, match=r"Connection refused.*running\?"):
        Connection(f"http://127.0.0.1:{nobody()}", backoff=ONCE).get("/models")


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hostile]:
    def answer(server: Hostile, peer: socket.socket) -> None:
        server.read(peer)
        peer.sendall(reply(b'{"by": "proxy"}'))

    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with serving(answer) as server:
        monkeypatch.setenv("http_proxy", f"http://me:pass@127.0.0.1:{server.port}")
        yield server


def test_proxies_are_taken_from_the_environment(
    proxy: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Connection("http://models.example/v1", backoff=ONCE).get("/models") == {"by": "proxy"}
    assert proxy.requests[0].startswith(b"GET http://models.example/v1/models ")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    with pytest.raises(EndpointError, match="Connection refused"):
        Connection(f"http://127.0.0.1:{nobody()}", backoff=ONCE).get("/models")
    assert len(proxy.requests) == 1


def test_a_proxy_that_cannot_be_used_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "gopher://me:pass@127.0.0.1:9")
    with pytest.raises(InputError, match="HTTP_PROXY") as refused:
        Connection("http://models.example/v1", backoff=ONCE).get("/models")
    assert "pass" not in str(refused.value)


def test_certificates_are_verified(tmp_path: Path) -> None:
    certificate = Path(__file__).parent / "self_signed.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)

    def answer(server: Hostile, peer: socket.socket) -> None:
        with context.wrap_socket(peer, server_side=True) as secured:
            server.read(secured)

    with serving(answer) as server:
        url = f"https://127.0.0.1:{server.port}"
        with pytest.raises(EndpointError, match="certificate"):
            Connection(url, api_key=KEY, backoff=TWICE).get("/models")
        assert server.connections == 1  # asking again would not help
        assert server.requests == []


def test_a_server_without_tls_is_recognised() -> None:
    def answer(server: Hostile, peer: socket.socket) -> None:
        peer.recv(1)
        peer.sendall(reply(b"{}", status="400 Bad Request"))

    with serving(answer) as server:
        with pytest.raises(EndpointError, match="http:// instead of https://"):
            Connection(f"https://127.0.0.1:{server.port}", backoff=TWICE).get("/models")
        assert server.connections == 1


@pytest.mark.parametrize(
    "path", ["", "/", "/v1", "/v1/", "/v1/chat/completions", "/v1/models/", "/models"]
)
def test_an_address_may_name_a_route(path: str) -> None:
    assert Connection(f"http://host:8000{path}").url == "http://host:8000/v1"
    assert Connection(f"http://host/proxy{path}").url == "http://host/proxy/v1"


@pytest.mark.parametrize("key", ["with\nnewline", "schlüssel-123", "tab\tkey-123"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(InputError, match="printable ASCII") as refused:
        Connection("http://localhost:8000", api_key=key)
    assert key not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://me:hush-hush@host/v1",
        "http://hush-hush@host/v1",
        "https://host/v1?api_key=hush-hush",
        "https://host/v1#hush-hush",
        "ftp://me:hush-hush@host/v1",
        "me:hush-hush@host/v1",
        "host/v1?api_key=hush-hush",
        "http://me:hush-hush@host:port/v1",
        "http://me:hush-hush@[::1/v1",
    ],
)
def test_complaints_about_an_address_repeat_no_secret(url: str) -> None:
    with pytest.raises(InputError) as refused:
        Connection(url)
    assert "hush" not in str(refused.value)


def test_a_server_that_answers_again_is_alive_and_one_that_does_not_ends_the_work() -> None:
    connection = Connection("http://localhost:1/v1", backoff=ONCE)
    failure = RefusedError(500, "out of memory")
    probes: list[int] = []
    watch = ServerWatch()
    for _ in range(12):  # probed after five failures, and after five more
        watch.refused(connection, failure, lambda _: probes.append(1))
    assert len(probes) == 2
    watch.succeeded()
    for _ in range(20):  # too long for the model: the item's fault
        watch.refused(connection, failure, None, counts=False)
    with pytest.raises(EndpointError, match="in a row"):
        for _ in range(5):
            watch.refused(connection, failure, lambda c: c.get("/models"))
    with pytest.raises(EndpointError, match="in a row"):  # gone for all threads
        watch.refused(connection, failure, lambda _: None)


def test_certificates_are_read_once_for_each_place_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    read = []

    def context() -> ssl.SSLContext:
        read.append(len(read))
        return ssl.create_default_context()

    monkeypatch.setattr("httpx.create_ssl_context", context)
    client._trusted.cache_clear()
    for folder, times in ((None, 1), (None, 1), (tmp_path, 2)):
        if folder is not None:
            monkeypatch.setenv("SSL_CERT_DIR", str(folder))
        client._new_client()
        assert len(read) == times
    client._trusted.cache_clear()
