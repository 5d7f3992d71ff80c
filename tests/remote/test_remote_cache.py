"""The cache folder: whole copies, bounded, the ones used longest ago go first, shared by processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from heldout.remote import located, path, use_cache

MEGABYTE = 1_000_000


def copies(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.copy"), key=lambda copy: copy.stat().st_mtime)


@pytest.fixture
def files(web) -> list[str]:
    """Addresses of five files of a megabyte."""
    for number in range(5):
        (web.folder / f"{number}.bin").write_bytes(bytes([number]) * MEGABYTE)
    return [f"{web.address}/{number}.bin" for number in range(5)]


def read(address: str) -> bytes:
    with located(address).open("rb") as file:
        return file.read()


def test_a_copy_is_read_instead_of_the_store(files: list[str], web, tmp_path: Path) -> None:
    use_cache(tmp_path / "copies", 1)
    assert read(files[1]) == bytes([1]) * MEGABYTE
    web.seen.clear()
    assert read(files[1]) == bytes([1]) * MEGABYTE
    assert not web.seen


def test_nothing_is_copied_unless_asked(files: list[str], tmp_path: Path) -> None:
    before = {place for place in tmp_path.rglob("*") if place.suffix != ".lock"}
    read(files[0])
    assert {place for place in tmp_path.rglob("*") if place.suffix != ".lock"} == before


def test_it_stays_within_its_bound_and_what_was_used_last_stays(
    files: list[str], tmp_path: Path
) -> None:
    folder = tmp_path / "copies"
    use_cache(folder, 0.0035)  # three and a half megabytes
    for second, number in enumerate((0, 1, 2, 0, 3)):
        assert read(files[number]) == bytes([number]) * MEGABYTE
        newest = copies(folder)[-1]
        os.utime(newest, (1_000_000 + second,) * 2)  # the order of use, whatever the clock's grain
    assert sum(copy.stat().st_size for copy in folder.iterdir()) <= 3.5 * MEGABYTE
    assert {copy.read_bytes()[0] for copy in copies(folder)} == {0, 2, 3}


def test_a_file_larger_than_the_cache_is_read_by_ranges(files: list[str], tmp_path: Path) -> None:
    use_cache(tmp_path / "copies", 0.0005)
    assert read(files[4]) == bytes([4]) * MEGABYTE
    assert not copies(tmp_path / "copies")


def test_a_changed_file_has_a_copy_of_its_own(files: list[str], web, tmp_path: Path) -> None:
    use_cache(tmp_path / "copies", 1)
    read(files[0])
    (web.folder / "0.bin").write_bytes(b"new")
    path.forget()
    assert read(files[0]) == b"new"


def test_an_unfinished_copy_is_continued(
    files: list[str], web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heldout.remote import path

    monkeypatch.setattr(path, "BLOCK", 300_000)
    folder = tmp_path / "copies"
    use_cache(folder, 1)
    read(files[2])
    (copy,) = copies(folder)
    copy.with_suffix(".part").write_bytes(copy.read_bytes()[:600_000])
    copy.unlink()
    web.seen.clear()
    assert read(files[2]) == bytes([2]) * MEGABYTE
    starts = [int(span.removeprefix("bytes=").partition("-")[0]) for _, span in web.seen if span]
    assert min(starts) == 600_000


PROGRAM = """
import sys
from heldout.remote import located, use_cache
use_cache(sys.argv[1], 0.0025)
for turn in range(3):
    for address in sys.argv[2:]:
        number = int(address.rpartition("/")[2].partition(".")[0])
        with located(address).open("rb") as file:
            assert file.read() == bytes([number]) * 1_000_000, address
"""


def test_processes_share_a_small_cache(files: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    orders = (files, files[::-1], files[2:] + files[:2])
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), *order],
            stderr=subprocess.PIPE,
            text=True,
        )
        for order in orders
    ]
    for process in running:
        _, errors = process.communicate(timeout=300)
        assert process.returncode == 0, errors
    assert sum(copy.stat().st_size for copy in copies(folder)) <= 2.5 * MEGABYTE + 3 * MEGABYTE
