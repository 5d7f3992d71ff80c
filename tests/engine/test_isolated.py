"""Workers find modules where the program that starts them does, and not in the folder one stands in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from heldout.engine import _isolated
from heldout.errors import InputError
from lying_modules import lying_modules
from ray_nodes import RayCluster

# What a task imports: of the standard library, of a package, and one that is nowhere but beside the data.
SCRIPT = """
import os, pkgutil, sys
from heldout.engine import open_engine

if __name__ == "__main__":
    with open_engine(sys.argv[1], 2) as engine:
        outcomes = engine.map(pkgutil.resolve_name, [name + ":__name__" for name in sys.argv[2:]], ordered=True)
        print(*[outcome.value if outcome.ok else outcome.error for outcome in outcomes])
"""


def _run(
    script: Path, engine: str, *modules: str, folder: Path, path: str = ""
) -> subprocess.CompletedProcess[str]:
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(SCRIPT)
    known = os.environ.get("PYTHONPATH", "")
    return subprocess.run(
        [sys.executable, str(script), engine, *modules],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, (path, known)))},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(
    params=["local", *(pytest.param(e, marks=pytest.mark.ray) for e in ("ray", "nodes", "client"))]
)
def engine(request: pytest.FixtureRequest) -> str:
    """Local processes, a cluster for this run, a cluster that is there, and one behind a client's server."""
    if request.param not in ("nodes", "client"):
        return str(request.param)
    nodes: RayCluster = request.getfixturevalue("ray_connection")
    client = f"ray://127.0.0.1:{nodes.client_port}"
    return f"ray:{nodes.address}" if request.param == "nodes" else client


def test_no_worker_runs_what_lies_in_the_working_directory(engine: str, tmp_path: Path) -> None:
    beside = tmp_path / "data"
    beside.mkdir()
    (beside / "beside_the_data.py").write_text("")
    with lying_modules(beside):
        done = _run(
            tmp_path / "bin/run.py", engine, "wave", "yaml", "beside_the_data", folder=beside
        )
        assert (
            done.stdout == "wave yaml ModuleNotFoundError: No module named 'beside_the_data'\n"
        ), done.stderr


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.ray)])
@pytest.mark.parametrize("found", ["beside the script", "on PYTHONPATH"])
def test_workers_find_what_the_program_finds(engine: str, found: str, tmp_path: Path) -> None:
    (tmp_path / "my_plug_in.py").write_text("")
    script = tmp_path / ("run.py" if found == "beside the script" else "bin/run.py")
    path = "." if found == "on PYTHONPATH" else ""
    done = _run(script, engine, "my_plug_in", folder=tmp_path, path=path)
    assert done.stdout == "my_plug_in\n", done.stderr


def test_a_python_that_takes_no_variables_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(ignores: bool, safe: bool) -> None:
        flags = SimpleNamespace(ignore_environment=ignores, safe_path=safe)
        monkeypatch.setattr(_isolated, "sys", SimpleNamespace(flags=flags))
        with _isolated.isolated():
            assert os.environ["PYTHONSAFEPATH"] == "1"

    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)
    with pytest.raises(InputError, match="-P or -I"):
        started(True, False)
    started(False, False)
    started(True, True)
    assert "PYTHONSAFEPATH" not in os.environ
