"""Scripts whose calls are not under ``if __name__ == "__main__"``: nothing runs twice, no folder is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from heldout.scenes import write_benchmark, write_corpus

ROOT = Path(__file__).resolve().parents[2]
SEARCH = """
import heldout
print("the script runs")
made = heldout.overlap("bench/test.jsonl", ["crawl"], exact=True, text=False, workers=2, quiet=True)
print("found", len(made.matches) > 0)
"""
OWN_FUNCTION = """
from heldout.engine import LocalEngine
from heldout.store import Run

def double(number):
    return 2 * number

def main():
    Run.create("run")
    with LocalEngine(2) as engine:
        print([outcome.value for outcome in engine.map(double, range(4), ordered=True)])
"""


def _run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    return subprocess.run(
        [sys.executable, "script.py"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_unguarded_script_runs_once_and_makes_one_run(tmp_path: Path) -> None:
    write_corpus(
        tmp_path / "crawl",
        write_benchmark(tmp_path / "bench", images=6),
        items=34,
        shard_size=17,
    )
    done = _run(tmp_path, SEARCH)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["the script runs", "found True"]
    assert "the script runs" not in done.stderr  # where workers print
    assert len(list((tmp_path / "heldout-runs").iterdir())) == 1


def test_what_a_guarded_script_defines_is_loaded_by_workers(tmp_path: Path) -> None:
    done = _run(tmp_path, OWN_FUNCTION + '\nif __name__ == "__main__":\n    main()\n')
    assert done.stdout == "[0, 2, 4, 6]\n", done.stderr


def test_an_unguarded_script_that_defines_the_work_is_told_of_the_guard(
    tmp_path: Path,
) -> None:
    done = _run(tmp_path, OWN_FUNCTION + "\nmain()\n")
    assert done.returncode != 0
    assert 'if __name__ == "__main__":' in done.stderr
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["run"]
