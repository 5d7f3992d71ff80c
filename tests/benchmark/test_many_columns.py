"""Tables of very many columns take time in proportion to them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.readers.delimited import _unique
from heldout.corpus import open_corpus


def _csv(path: Path, row: dict[str, str]) -> None:
    path.write_text(",".join(row) + "\n" + ",".join(row.values()) + "\n")


def _jsonl(path: Path, row: dict[str, str]) -> None:
    path.write_text(json.dumps(row) + "\n")


def _parquet(path: Path, row: dict[str, str]) -> None:
    pq.write_table(pa.Table.from_pylist([row]), path)


def _steps(path: Path) -> int:
    """Lines of our own that run while a file is read twice: as a benchmark and as a corpus."""
    count = 0

    def each(frame: object, event: str, _: object) -> object:
        nonlocal count
        count += event == "line"
        return each

    sys.settrace(each)  # type: ignore[arg-type]
    try:
        assert len(read_benchmark(path)) == 1
        corpus = open_corpus(str(path))
        assert len([item for shard in corpus.shards() for item in corpus.read(shard)]) == 1
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize(
    ("kind", "write"), [("csv", _csv), ("jsonl", _jsonl), ("parquet", _parquet)]
)
def test_steps_grow_with_the_columns(
    tmp_path: Path, kind: str, write: Callable[[Path, dict[str, str]], None]
) -> None:
    steps = []
    for count in (200, 800):
        path = tmp_path / f"{count}.{kind}"
        write(path, {"question": "Is it?", "answer": "yes", **{f"c{n}": "v" for n in range(count)}})
        steps.append(_steps(path))
    assert steps[1] < 5 * steps[0]


def test_a_hundred_thousand_names_are_told_apart_in_less_than_minutes() -> None:
    names = [f"c{number}" for number in range(100_000)]
    start = time.process_time()
    assert _unique([*names, *names[:2]])[-3:] == ["c99999", "c0#100001", "c1#100002"]
    assert time.process_time() - start < 20  # it takes a tenth of a second, or minutes


def test_repeated_and_empty_names_of_columns_stay_apart(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("question,answer,,question,\nIs it?,yes,a,b,c\n")
    (example,) = read_benchmark(tmp_path / "a.csv")
    assert example.question == "Is it?"
