"""LocalEngine: workers that die, are interrupted, or lose their parent."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import engine_tasks
import psutil
import pytest

from heldout.engine import LocalEngine
from heldout.engine.engine import CORES, THREAD_VARIABLES
from heldout.errors import InputError


def test_each_way_a_worker_can_die_is_blamed_on_its_task_alone() -> None:
    tasks = [("", n) for n in range(20)]
    for position, how in ((3, "kill"), (4, "exit"), (11, "segfault")):
        tasks[position] = (how, position)
    with LocalEngine(3) as engine:
        outcomes = list(engine.map(engine_tasks.die, tasks, ordered=True))
    assert [o.index for o in outcomes if not o.ok] == [3, 4, 11]
    assert [o.value for o in outcomes if o.ok] == [n for n in range(20) if n not in (3, 4, 11)]
    assert "worker died 3 times" in (outcomes[3].error or "")
    assert "SIGKILL" in (outcomes[3].error or "")
    assert "exit code 7" in (outcomes[4].error or "")
    assert "SIGSEGV" in (outcomes[11].error or "")


def test_a_task_whose_worker_died_once_gets_its_value(tmp_path: Path) -> None:
    tasks = [(str(tmp_path / "died") if n == 2 else "", n) for n in range(8)]
    with LocalEngine(2) as engine:
        outcomes = list(engine.map(engine_tasks.die_once, tasks, ordered=True))
    assert (tmp_path / "died").exists()
    assert [o.value for o in outcomes] == list(range(8))


def test_a_suspect_runs_alone(tmp_path: Path) -> None:
    with LocalEngine(3) as engine:
        outcomes = list(engine.map(engine_tasks.hungry, [(str(tmp_path), n) for n in range(8)]))
    assert [o.error for o in outcomes if not o.ok] == []
    assert sorted(o.value or 0 for o in outcomes) == list(range(8))


def test_processes_are_kept_between_maps_and_gone_after_close() -> None:
    with LocalEngine(2) as engine:
        first = {o.value for o in engine.map(engine_tasks.pid, range(10))}
        second = {o.value for o in engine.map(engine_tasks.pid, range(10))}
        assert second <= first
        assert os.getpid() not in first
    assert not multiprocessing.active_children()
    assert not any(psutil.pid_exists(pid) for pid in first if pid)


def test_one_worker_runs_here_and_only_when_asked() -> None:
    seen: list[int] = []
    outcomes = LocalEngine(1).map(seen.append, [1, 2, 3])
    assert seen == []
    next(outcomes)
    assert seen == [1]


def test_few_tasks_start_few_processes() -> None:
    with LocalEngine(8) as engine:
        list(engine.map(engine_tasks.square, [1]))
        assert len(multiprocessing.active_children()) == 1


def test_closing_the_engine_ends_workers_that_are_busy() -> None:
    engine = LocalEngine(2)
    outcomes = engine.map(engine_tasks.sleep_unless_first, range(10))
    next(outcomes)
    engine.close()
    assert not multiprocessing.active_children()


def _threads(workers: int) -> dict[str, int]:
    with LocalEngine(workers) as engine:
        (outcome,) = engine.map(engine_tasks.threads, [0])
    assert outcome.error is None
    assert outcome.value is not None
    return dict(outcome.value)


def test_every_library_in_a_worker_keeps_to_its_share_of_the_cores(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    counted = _threads(1000)
    started = counted.pop("running")
    assert set(counted.values()) == {1}, counted
    assert started <= 14  # 8 or 9; libraries start some that only wait, whatever their share
    assert not [name for name in THREAD_VARIABLES if name in os.environ]


def test_the_number_of_threads_that_the_user_sets_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENCV_FOR_THREADS_NUM", "23")
    monkeypatch.setenv("POLARS_MAX_THREADS", "3")
    monkeypatch.setenv(CORES, "1")
    counted = _threads(2)
    assert (counted["opencv"], counted["polars"], counted["heldout"]) == (23, 3, 1)
    assert counted["running"] > 23  # what a worker on a machine with 23 cores would start
    assert os.environ[CORES] == "1"
    assert LocalEngine().workers == 1


def test_workers_ignore_interrupts_and_leave_standard_output_alone(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with LocalEngine(2) as engine:
        assert [o.value for o in engine.map(engine_tasks.interrupt_self, [5])] == [5]
        assert [o.value for o in engine.map(engine_tasks.talk, [6])] == [6]
    assert capfd.readouterr().out == ""


def test_a_function_the_workers_cannot_load_is_refused() -> None:
    code = (
        "from heldout.engine import LocalEngine\n"
        "def here(task): return task\n"
        "list(LocalEngine(2).map(here, [1, 2, 3]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "InputError: the function" in done.stderr


@pytest.mark.parametrize("workers", [0, -1])
def test_a_count_of_workers_that_makes_no_sense_is_refused(workers: int) -> None:
    with pytest.raises(InputError, match=r"expected 1 or more"):
        LocalEngine(workers)


def interrupt_group(parent: psutil.Process) -> None:
    os.killpg(parent.pid, signal.SIGINT)  # as a terminal does on Ctrl-C


@pytest.mark.parametrize("end", [interrupt_group, psutil.Process.kill], ids=["interrupt", "kill"])
def test_no_worker_outlives_its_parent(
    tmp_path: Path, worker_environment: dict[str, str], end: Callable[[psutil.Process], None]
) -> None:
    # The parent forks once its workers run: that child keeps the pipes to them open, so that
    # they cannot tell by a closed pipe that the parent is gone.
    code = (
        "import engine_tasks, os, sys, time\n"
        "from heldout.engine import LocalEngine\n"
        "def tasks():\n"
        "    for n in range(9):\n"
        "        if n == 2 and os.fork() == 0:\n"
        "            time.sleep(60)\n"
        "            os._exit(0)\n"
        "        yield sys.argv[1], n\n"
        "with LocalEngine(2) as engine:\n"
        "    list(engine.map(engine_tasks.report_and_sleep, tasks()))\n"
    )
    errors = tmp_path / "errors"
    folder = tmp_path / "workers"
    folder.mkdir()
    command = [sys.executable, "-c", code, str(folder)]
    with (
        errors.open("w") as log,
        subprocess.Popen(
            command, env=worker_environment, stderr=log, start_new_session=True
        ) as parent,
    ):
        wait_until(lambda: len(list(folder.iterdir())) == 2)
        family = psutil.Process(parent.pid).children(recursive=True)
        started = {int(file.name) for file in folder.iterdir()}
        workers = [process for process in family if process.pid in started]
        end(psutil.Process(parent.pid))
        parent.wait(timeout=30)
    _, alive = psutil.wait_procs(workers, timeout=15)
    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    assert len(workers) == 2
    assert not alive
    assert "worker_main" not in errors.read_text()  # no worker adds a traceback of its own


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline, "the workers did not start"
        time.sleep(0.05)
