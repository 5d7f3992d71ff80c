"""Bodies as a raw socket sends them to the real server: counted as received, cut, and never waited for."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from heldout.review import server
from heldout.store.judgements import history

TOKEN = "the-token-of-this-test"
PATH = "/api/cards/0/judgement"
SAID = json.dumps({"verdict": "unrelated", "note": "sent in chunks"}).encode()
CHUNKED = "Transfer-Encoding: chunked"


@pytest.fixture
def port(serving: Callable[..., str], run: Path) -> int:
    address = urlsplit(serving(run))
    assert address.port is not None and address.query == f"token={TOKEN}"
    return address.port


def post(
    port: int, parts: Iterable[bytes], *headers: str, token: str = TOKEN, half: bool = False
) -> tuple[int, bytes]:
    """Status and body of the answer, which comes even if not all parts could be sent. ``half``: the client
    says that nothing follows; otherwise it stays, and the server has to end the connection."""
    lines = [
        f"POST {PATH} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        f"X-Heldout-Token: {token}",
        "Content-Type: application/json",
        *headers,
    ]
    with socket.create_connection(("127.0.0.1", port), timeout=60) as sender:
        try:
            sender.sendall("\r\n".join([*lines, "", ""]).encode())
            for part in parts:
                sender.sendall(part)
            if half:
                sender.shutdown(socket.SHUT_WR)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it has heard enough
        answer = b""
        try:
            while b"\r\n\r\n" not in answer or not _whole(answer):
                if not (data := sender.recv(65536)):
                    break
                answer += data
        except ConnectionResetError:
            pass  # after its answer, with our bytes unread
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


def _whole(answer: bytes) -> bool:
    head, _, body = answer.partition(b"\r\n\r\n")
    lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
    return bool(lengths) and len(body) >= int(lengths[0].split(b":")[1])


def chunks(data: bytes, size: int) -> list[bytes]:
    cut = [data[at : at + size] for at in range(0, len(data), size)]
    return [b"%x\r\n%s\r\n" % (len(part), part) for part in cut] + [b"0\r\n\r\n"]


def endless(size: int, most: int = 64 * 2**20) -> Iterable[bytes]:
    """Chunks without an end; only a server that hangs up ends them before ``most`` bytes."""
    sent = 0
    while sent < most:
        yield b"%x\r\n%s\r\n" % (size, b" " * size)
        sent += size
    raise AssertionError(f"the server took {most:,} bytes")


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_judgement_may_come_in_chunks(port: int, run: Path, size: int) -> None:
    status, body = post(port, chunks(SAID, size), CHUNKED)
    assert status == 200, body
    assert [one.note for one in history(run)] == ["sent in chunks"]


@pytest.mark.parametrize("size", [1, 100, 16_384, 100_000])
def test_chunks_are_counted_as_they_arrive_and_cut_at_the_cap(
    port: int, run: Path, size: int
) -> None:
    padded = json.dumps({"verdict": "unrelated", "padding": "x" * server.BODY}).encode()
    assert post(port, chunks(padded, size), CHUNKED)[0] == 413
    assert list(history(run)) == []


def test_the_cap_is_the_last_byte_that_is_taken(port: int, run: Path) -> None:
    short = json.dumps({"verdict": "unrelated"}).encode()
    fits = short + b" " * (server.BODY - len(short))
    assert post(port, chunks(fits, 4096), CHUNKED)[0] == 200
    assert post(port, chunks(fits + b" ", 4096), CHUNKED)[0] == 413
    assert len(list(history(run))) == 1


def test_an_announced_length_does_not_hide_the_chunks(port: int, run: Path) -> None:
    padded = json.dumps({"verdict": "unrelated", "padding": "x" * server.BODY}).encode()
    status, _ = post(port, chunks(padded, 4096), CHUNKED, "Content-Length: 10")
    assert status in (400, 413)
    assert list(history(run)) == []


@pytest.mark.parametrize("size", [10, 65_536])
def test_a_body_without_an_end_is_hung_up_on(port: int, run: Path, size: int) -> None:
    assert post(port, endless(size), CHUNKED)[0] == 413
    assert post(port, endless(size), CHUNKED, token="wrong")[0] == 403
    assert list(history(run)) == []


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Content-Length: -5", 400),
        ("Content-Length: five", 400),
        ("Content-Length: 65537", 413),
        ("Content-Length: 99999999999999999999", 413),
        ("X-Nothing: to see", 422),  # no length is no body, and no judgement
    ],
)
def test_lengths_that_are_none_are_refused(port: int, run: Path, header: str, status: int) -> None:
    assert post(port, [SAID], header)[0] == status
    assert list(history(run)) == []


@pytest.mark.parametrize("header", ["Content-Length: 60000", CHUNKED])
def test_a_body_that_does_not_come_is_not_waited_for(
    port: int, run: Path, header: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BODY_SECONDS", 0.2)
    assert post(port, [b"1\r\n{\r\n"], header)[0] == 408
    assert list(history(run)) == []


def test_a_body_that_is_cut_short_is_no_judgement(port: int, run: Path) -> None:
    with socket.create_connection(("127.0.0.1", port)) as sender:
        head = f"POST {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-Heldout-Token: {TOKEN}\r\n"
        more = f"Content-Type: application/json\r\nContent-Length: {len(SAID) + 1}\r\n\r\n"
        sender.sendall((head + more).encode() + SAID)
    assert post(port, [SAID], f"Content-Length: {len(SAID)}")[0] == 200  # and it still answers
    assert len(list(history(run))) == 1


@pytest.mark.parametrize(
    "said",
    [
        rb'{"verdict": "unsure", "note": "\ud800"}',
        rb'{"verdict": "unsure", "note": "half \udc9f of a smile"}',
        rb'{"verdict": "\ud800"}',
        rb'{"verdict": "unsure", "ratings": {"\ud800": 1}}',
        rb'"\ud800"',
        rb'["\ud800"]',
        rb'{"\ud800',
        b'{"verdict": "unsure", "note": "\xff"}',
    ],
)
def test_half_of_a_character_is_refused_with_a_reason(port: int, run: Path, said: bytes) -> None:
    status, body = post(port, [said], f"Content-Length: {len(said)}")
    assert status in (400, 422) if b"\xff" in said else status == 422, body
    assert json.loads(body)
    assert list(history(run)) == []


def test_a_whole_surrogate_pair_is_a_character(port: int, run: Path) -> None:
    said = rb'{"verdict": "unsure", "note": "\ud83d\ude00"}'
    assert post(port, [said], f"Content-Length: {len(said)}")[0] == 200
    assert [one.note for one in history(run)] == ["\N{GRINNING FACE}"]


def test_a_deeply_nested_body_is_refused(port: int, run: Path) -> None:
    said = b'{"verdict": "unsure", "note": ' + b"[" * 50_000
    assert post(port, [said], f"Content-Length: {len(said)}")[0] in (400, 422)
    assert list(history(run)) == []


def test_a_body_that_is_nested_too_deeply_gets_a_sentence(port: int) -> None:
    nested = b"[" * 30_000
    status, body = post(port, [nested], f"Content-Length: {len(nested)}")
    assert status == 422, body
    assert "nested too deeply" in json.loads(body)["message"]
    status, body = post(port, [SAID], f"Content-Length: {len(SAID)}")
    assert status == 200, body
