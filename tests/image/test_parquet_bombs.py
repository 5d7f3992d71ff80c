"""Parquet files of a kilobyte whose cells share their bytes: decoded a few megabytes at a time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.benchmark import read_benchmark
from heldout.corpus import open_corpus
from heldout.image import BoundedParquet, ImageError, ParquetCell
from heldout.store import Dropped

MEGABYTE = b"\0" * (1 << 20)
ROWS = 100
LIMIT = 24 << 20  # bytes of Arrow at a time; all cells are 100 MB or more


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bomb") / "bomb.parquet"
    cells = [{"bytes": MEGABYTE, "path": "a.png"}] * ROWS
    columns = {
        "image": pa.array(cells),
        "images": pa.array([[cells[0]] * 3] * ROWS),
        "caption": ["x" * (1 << 19)] * ROWS,
        "number": list(range(ROWS)),
    }
    pq.write_table(pa.table(columns), path, compression="zstd")
    assert path.stat().st_size < 100_000
    return path


@pytest.mark.parametrize("column", ["image", "images", "caption"])
def test_cells_that_share_bytes_are_read_a_few_at_a_time(bomb: Path, column: str) -> None:
    most = rows = 0
    pool = pa.default_memory_pool()
    before = pool.bytes_allocated()
    with BoundedParquet(bomb) as file:
        for batch in file.batches(0, [column, "number"], 1024):
            assert batch.nbytes < LIMIT
            assert batch.schema.field(column).type == file.schema_arrow.field(column).type
            assert batch.column("number").to_pylist() == [*range(rows, rows + batch.num_rows)]
            rows += batch.num_rows
            most = max(most, pool.bytes_allocated() - before)
    assert rows == ROWS
    assert most < 2 * LIMIT


def test_both_readers_decode_within_bounds(bomb: Path) -> None:
    pool = pa.default_memory_pool()
    before, most, seen = pool.bytes_allocated(), 0, 0
    corpus = open_corpus(str(bomb), mapping={"image": "image", "text": "caption"})
    for shard in corpus.shards():
        for item in corpus.read(shard):
            seen += not isinstance(item, Dropped)
            most = max(most, pool.bytes_allocated() - before)
    assert seen >= ROWS
    assert most < 2 * LIMIT
    benchmark = read_benchmark(bomb, mapping={"question": "caption", "answer": "number"})
    assert len(benchmark) == ROWS
    before = pool.bytes_allocated()
    assert benchmark.examples[7].images[0].read() == MEGABYTE
    assert pool.bytes_allocated() - before < LIMIT


def test_cells_stored_as_what_differs_are_read_one_by_one_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "prefixes.parquet"
    cells = [MEGABYTE + bytes([n % 251]) for n in range(700)]
    pq.write_table(
        pa.table({"image": cells}),
        path,
        compression="zstd",
        use_dictionary=False,
        column_encoding={"image": "DELTA_BYTE_ARRAY"},
    )
    with BoundedParquet(path) as file:
        batches = file.batches(0, ["image"], 1024)
        assert max(batch.num_rows for batch, _ in zip(batches, range(5), strict=False)) < 5
    with pytest.raises(ImageError, match="may take"):
        ParquetCell(str(path), 0, 3, "image").read()
