"""What is protected: Example, Benchmark, one reader per format, presets, lint."""

from typing import TYPE_CHECKING

from heldout.lazy import load_on_first_use

if TYPE_CHECKING:
    from heldout.benchmark.benchmark import (
        RELEASED,
        Benchmark,
        Example,
        canonical_metadata,
        canonical_text,
        canonical_value,
        normal,
    )
    from heldout.benchmark.check import check
    from heldout.benchmark.check.problem import CheckReport, CheckSettings, script_of
    from heldout.benchmark.fields import FIELDS, FROM_ONE, FieldMap, also_right
    from heldout.benchmark.frames import is_frame
    from heldout.benchmark.grading.choice import (
        LONGEST,
        OUTCOMES,
        CutError,
        Grade,
        letter,
        read_whole,
        same,
        without_thoughts,
    )
    from heldout.benchmark.grading.grade import grade
    from heldout.benchmark.hub import hub_name
    from heldout.benchmark.image_finder import ImageFinder
    from heldout.benchmark.locate import locate, refuse_special, unreadable
    from heldout.benchmark.presets import find_preset
    from heldout.benchmark.read import at_commit, read_benchmark, read_examples
    from heldout.benchmark.readers import find_reader
    from heldout.benchmark.readers.base import FileRow, head
    from heldout.benchmark.readers.delimited import DelimitedReader, DelimitedTable
    from heldout.benchmark.readers.json_rows import (
        JsonLinesReader,
        JsonReader,
        bounded_lines,
        json_line,
        load_object,
        too_deep,
    )
    from heldout.benchmark.readers.parquet import ColumnKinds, ParquetReader, data_parts
    from heldout.benchmark.run_items import (
        BYTES_ONLY,
        DRAWN,
        benchmark_identity,
        is_unread,
        items_table,
        open_verb_run,
        picture_key,
        prepare_run,
    )
    from heldout.benchmark.source import (
        ALIASES,
        BenchmarkSource,
        images_folder,
        parse_source,
        split_of,
    )
    from heldout.benchmark.writers import find_writer
    from heldout.benchmark.writers.base import (
        DataTable,
        FilePart,
        Opened,
        copy_pictures,
        open_tables,
    )
    from heldout.benchmark.writers.json_rows import entries_without

__all__ = [
    "ALIASES",
    "BYTES_ONLY",
    "DRAWN",
    "FIELDS",
    "FROM_ONE",
    "LONGEST",
    "OUTCOMES",
    "RELEASED",
    "Benchmark",
    "BenchmarkSource",
    "CheckReport",
    "CheckSettings",
    "ColumnKinds",
    "CutError",
    "DataTable",
    "DelimitedReader",
    "DelimitedTable",
    "Example",
    "FieldMap",
    "FilePart",
    "FileRow",
    "Grade",
    "ImageFinder",
    "JsonLinesReader",
    "JsonReader",
    "Opened",
    "ParquetReader",
    "also_right",
    "at_commit",
    "benchmark_identity",
    "bounded_lines",
    "canonical_metadata",
    "canonical_text",
    "canonical_value",
    "check",
    "copy_pictures",
    "data_parts",
    "entries_without",
    "find_preset",
    "find_reader",
    "find_writer",
    "grade",
    "head",
    "hub_name",
    "images_folder",
    "is_frame",
    "is_unread",
    "items_table",
    "json_line",
    "letter",
    "load_object",
    "locate",
    "normal",
    "open_tables",
    "open_verb_run",
    "parse_source",
    "picture_key",
    "prepare_run",
    "read_benchmark",
    "read_examples",
    "read_whole",
    "refuse_special",
    "same",
    "script_of",
    "split_of",
    "too_deep",
    "unreadable",
    "without_thoughts",
]

__getattr__ = load_on_first_use(__name__, __file__)
