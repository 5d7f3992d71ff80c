"""No way into heldout runs what lies in the folder one stands in."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from heldout.scenes import write_benchmark, write_corpus
from lying_modules import installed_command, lying_modules

ROOT = Path(__file__).parents[1]
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
GATE = "--against crawl --encoder none --workers 2 --quiet"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    written = write_benchmark(folder / "bench", images=4)
    write_corpus(folder / "crawl", written, items=30, shard_size=10)
    return folder


def _run(
    command: str, folder: Path, tmp_path: Path, **more: str
) -> subprocess.CompletedProcess[str]:
    programs = installed_command(tmp_path / "bin").parent
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"} | more
    words = shlex.split(command)
    return subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "command",
    [
        f"heldout overlap bench/test.jsonl {GATE} --out run",
        f"{sys.executable} -m heldout check bench/test.jsonl --quiet",
        f"{sys.executable} -mheldout check bench/test.jsonl --quiet",
        *(
            f"{hook['entry']} bench/test.jsonl --quiet"
            for hook in HOOKS
            if "check" in hook["entry"]
        ),
        *(
            f"{hook['entry']} bench/test.jsonl {GATE} --out run"
            for hook in HOOKS
            if "gate" in hook["entry"]
        ),
    ],
)
def test_a_command_runs_nothing_that_lies_beside_the_data(
    command: str, data: Path, tmp_path: Path
) -> None:
    with lying_modules(data):
        done = _run(command, data, tmp_path)
        assert done.returncode in (0, 1) and "Traceback" not in done.stderr, done.stderr
        assert "--out" not in command or (data / "run/report.html").exists()


def test_a_plug_in_beside_the_data_is_found_on_the_path_alone(data: Path, tmp_path: Path) -> None:
    """Installed in a folder of the user's, as `pip install --target` leaves it: a reader by entry point."""
    facts = data / "mine-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[heldout.readers]\nmine = my_reader:Reader\n")
    ran = tmp_path / "ran"
    (data / "my_reader.py").write_text(f"open({str(ran)!r}, 'w').close()\nclass Reader: pass\n")
    command = f"{sys.executable} -m heldout check bench/test.jsonl --quiet"
    assert _run(command, data, tmp_path / "first").returncode == 0
    assert not ran.exists()
    path = os.pathsep.join(filter(None, (".", os.environ.get("PYTHONPATH"))))
    _run(command, data, tmp_path / "second", PYTHONPATH=path)
    assert ran.exists()
