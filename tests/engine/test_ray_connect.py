"""How RayEngine joins a cluster, leaves it, and what it says when there is none."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time

import engine_tasks
import pytest

from heldout.engine import RayEngine
from heldout.engine.ray_engine import connect, import_ray
from heldout.errors import InputError
from ray_nodes import RayCluster, free_port

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def client_server(ray_connection: RayCluster) -> str:
    wait_for(ray_connection.client_port)
    return f"ray://127.0.0.1:{ray_connection.client_port}"


def wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.2)
    pytest.fail("the Ray client server did not start")


@pytest.mark.ray
def test_the_same_work_through_a_client_address(client_server: str) -> None:
    code = (
        "import sys\n"
        "from heldout.engine import open_engine\n"
        "with open_engine(sys.argv[1]) as engine:\n"
        "    outcomes = list(engine.map(lambda n: 6 // n, [0, 1, 2, 3], ordered=True))\n"
        "print([o.value for o in outcomes], outcomes[0].error)\n"
    )
    done = run([sys.executable, "-c", code, client_server])
    assert done.stderr == ""
    assert done.stdout == "[None, 6, 3, 2] ZeroDivisionError: integer division or modulo by zero\n"


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=90)


@pytest.mark.parametrize(("failures", "connected"), [(3, True), (4, False)])
def test_a_client_server_that_dies_at_birth_is_asked_again(
    failures: int, connected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = import_ray()
    born: list[int] = []

    def init(**_: object) -> None:
        born.append(len(born))
        if len(born) <= failures:
            raise ConnectionAbortedError("RuntimeError: Starting Ray client server failed.")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr("heldout.engine.ray_engine._check_reachable", lambda _: None)
    monkeypatch.setattr("heldout.engine.ray_engine.time.sleep", lambda _: None)
    if connected:
        assert connect("ray://127.0.0.1:10001", None, None)
    else:
        with pytest.raises(InputError, match="cluster lets this"):
            connect("ray://127.0.0.1:10001", None, None)
    assert len(born) == 4


@pytest.mark.ray
def test_a_connection_that_was_there_is_left_as_it_was(ray_connection: RayCluster) -> None:
    with RayEngine() as engine:
        assert [o.value for o in engine.map(engine_tasks.square, [3])] == [9]
    assert import_ray().is_initialized()
    with pytest.raises(InputError, match="already connected"):
        RayEngine("127.0.0.1:1")


@pytest.mark.ray
def test_a_cluster_started_for_a_run_ends_with_it_and_says_nothing() -> None:
    code = (
        "from heldout.engine import open_engine\n"
        "import psutil, sys\n"
        "with open_engine('ray', workers=1) as engine:\n"
        "    assert [o.value for o in engine.map(lambda n: n + 1, [1])] == [2]\n"
        "    assert psutil.Process().children()\n"
        "assert not psutil.Process().children(recursive=True), psutil.Process().children()\n"
    )
    done = run([sys.executable, "-c", code])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_address_where_nobody_answers_is_an_input_error() -> None:
    address = f"127.0.0.1:{free_port()}"
    for form in (address, f"ray://{address}"):
        with pytest.raises(InputError, match="cluster answers at"):
            RayEngine(form)
    for form in ("nonsense", "host:port", "ray://"):
        with pytest.raises(InputError, match="not the address"):
            RayEngine(form)
