"""Skipped tests are counted in one line, and CI refuses those that are not listed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from skips import not_allowed, read_allowed, summary

TESTS = Path(__file__).parent
SUITE = """
import pytest

def test_a() -> None:
    pytest.skip("no such device")

@pytest.mark.skipif(True, reason="no such device")
def test_b() -> None: ...

def test_c() -> None: ...
"""
MODULE = (
    "import pytest\npytest.importorskip('there_is_no_such_module')\ndef test_d() -> None: ...\n"
)
CONFTEST = """
from skips import SkipSummary

def pytest_configure(config):
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SkipSummary())
"""


def _run(folder: Path, *arguments: str, mode: str) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_some.py").write_text(SUITE)
    (folder / "test_module.py").write_text(MODULE)
    (folder / "pytest.ini").write_text("[pytest]\n")
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *arguments],
        cwd=folder,
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(TESTS), "HELDOUT_SKIPS": mode},
    )


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_skip_that_is_not_listed_fails_ci_and_only_ci(tmp_path: Path, workers: str) -> None:
    strict = _run(tmp_path, "-n", workers, mode="strict")
    assert strict.returncode == 1, strict.stdout
    assert "skipped: 3 tests (2: no such device; 1: could not import" in strict.stdout
    assert "not listed in tests/allowed_skips.txt: test_some.py::test_a | no such" in strict.stdout
    assert "test_module.py | could not import" in strict.stdout
    if workers == "0":
        assert _run(tmp_path, "-n", workers, mode="").returncode == 0


def test_a_listed_skip_is_allowed_for_its_reason_only() -> None:
    allowed = [("tests/a.py", "no browser")]
    skips = [("tests/a.py::test_x", "no browser here"), ("tests/a.py::test_y", "tired")]
    assert not_allowed(skips, allowed) == [("tests/a.py::test_y", "tired")]
    assert summary([]) == "skipped: 0 tests"


def test_the_list_is_well_formed(tmp_path: Path) -> None:
    assert read_allowed()
    path = tmp_path / "list.txt"
    path.write_text("tests/a.py no browser\n")
    with pytest.raises(ValueError, match="line 1"):
        read_allowed(path)
