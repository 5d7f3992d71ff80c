"""Parquet: chosen rows under the same schema, metadata and compression, group by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.benchmark.writers.base import Part
from heldout.errors import InputError


class ParquetWriter:
    name = "parquet"

    def units(self, path: Path) -> Mapping[int, int]:
        return {}

    def write(self, parts: Sequence[Part], target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with pq.ParquetFile(parts[0].path) as first:
            schema = first.schema_arrow
            compression = _compression(first)
        with pq.ParquetWriter(target, schema, compression=compression) as out:
            for part in parts:
                _write_part(part, schema, out)


def _write_part(part: Part, schema: pa.Schema, out: pq.ParquetWriter) -> None:
    with pq.ParquetFile(part.path) as file:
        if not file.schema_arrow.equals(schema):
            raise InputError(
                f"{part.path} has other columns than the first file of the split it would join: "
                f"expected {', '.join(schema.names)}, found {', '.join(file.schema_arrow.names)}, "
                f"or the same with other types"
            )
        before = 0
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            wanted = [row for row in range(rows) if before + row + 1 in part.rows]
            before += rows
            if wanted:  # a damaged group has none, and is not read again
                table = file.read_row_group(group, use_threads=False).take(wanted)
                out.write_table(table.replace_schema_metadata(schema.metadata), len(wanted))


def _compression(file: pq.ParquetFile) -> str:
    if not file.num_row_groups or not file.metadata.num_columns:
        return "snappy"
    used = str(file.metadata.row_group(0).column(0).compression).lower()
    return "none" if used == "uncompressed" else used
