"""Fixtures of the tests of remote files: a real S3 server behind a proxy that can fail, clean state."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parent))

import servers

from heldout.remote import VARIABLE, _transfer, listing, path, stores


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of an S3 server in a process of its own."""
    with servers.s3_server(tmp_path_factory.mktemp("s3") / "log") as address:
        yield address


@pytest.fixture(scope="session")
def google(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of Google's interface in a process of its own."""
    pytest.importorskip("gcp_storage_emulator", reason="needs the package gcp-storage-emulator")
    with servers.google_server(tmp_path_factory.mktemp("google") / "log") as address:
        yield address


@pytest.fixture(params=["s3", "gs"])
def store(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each kind of object store that has a server here."""
    server, kind = {"s3": ("s3", servers.Amazon), "gs": ("google", servers.Google)}[request.param]
    opened = kind(request.getfixturevalue(server))
    for name, value in opened.environment.items():
        monkeypatch.setenv(name, value)
    return opened


@pytest.fixture
def bucket_name(request: pytest.FixtureRequest) -> str:
    return f"bucket-{abs(hash(request.node.nodeid)):x}"[:40]


@pytest.fixture
def bucket(s3: str, bucket_name: str) -> str:
    """A new bucket."""
    servers.s3_client(s3).create_bucket(Bucket=bucket_name)
    return bucket_name


@pytest.fixture
def proxy(s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.FaultyProxy]:
    """A proxy before the S3 server, without faults until a test asks for them."""
    with servers.serving(servers.FaultyProxy(s3)) as proxy:
        for name, value in servers.s3_environment(proxy.address).items():
            monkeypatch.setenv(name, value)
        yield proxy


@pytest.fixture(autouse=True)
def _fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing known of stores, nothing cached, short waits."""
    monkeypatch.setenv("HELDOUT_CACHE", str(tmp_path / "machine-cache"))
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(_transfer, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(_transfer, "_lost", {})

    def forget() -> None:
        stores.renew_stores()
        path.forget()
        listing._close()

    forget()
    yield
    forget()


@pytest.fixture
def web(tmp_path: Path) -> Iterator[Any]:
    """A web server with ranges over ``tmp_path / "web"``."""
    folder = tmp_path / "web"
    folder.mkdir()
    with servers.serving(servers.web_server(folder)) as server:
        server.folder = folder
        yield server
