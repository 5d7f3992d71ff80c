"""The benchmarks that items must not overlap: opened under distinct names, and refused if no image can be read.

A plan opens them, too, so this module loads no encoders.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from heldout.benchmark import Benchmark, parse_source, read_benchmark
from heldout.errors import InputError, counted
from heldout.image import ImageError
from heldout.synth.settings import SynthSettings

_SPLIT = re.compile("test|train|val|valid|validation|dev|data|benchmark|questions|items|rows")


def open_benchmarks(
    settings: SynthSettings, benchmarks: Mapping[str, Benchmark]
) -> list[Benchmark]:
    """Those of ``against``, each under a name of its own: two files may both be called test.jsonl.
    ``benchmarks``: those that are open already."""
    opened: list[Benchmark] = []
    for spec in dict.fromkeys(settings.against):
        benchmark = benchmarks.get(spec)
        if benchmark is None:
            benchmark = _named(read_benchmark(spec), spec)
        if any(other.name == benchmark.name for other in opened):
            name = f"{benchmark.name} ({spec})"
            benchmark = dataclasses.replace(benchmark, name=name)
        opened.append(benchmark)
    return opened


def _named(benchmark: Benchmark, spec: str) -> Benchmark:
    """A file that is named after its split is named with its folder: "test" alone is not unique."""
    path = parse_source(spec).path
    if path.is_file() and _SPLIT.fullmatch(path.stem.lower()) and path.absolute().parent.name:
        folder_and_name = f"{path.absolute().parent.name}/{benchmark.name}"
        return dataclasses.replace(benchmark, name=folder_and_name)
    return benchmark


def refuse_unreadable(benchmark: Benchmark) -> None:
    """Refuse a benchmark of which no image can be read: it would be compared by words alone."""
    problems: dict[str, ImageError] = {}
    for image in (image for example in benchmark for image in example.images):
        if image.name not in problems:
            try:
                image.open()
            except ImageError as error:
                problems[image.name] = error
            else:
                return
    if problems:
        problem = next(iter(problems.values()))
        number = counted(len(problems), "image", "images")
        raise InputError(
            f"{benchmark.name}: none of its {number} can be read, so that copies of them would not be "
            f"found; the first, {first_problem(problems)} ({problem.detail}). Put the images where its rows "
            f"name them, or give their folder: images: FOLDER of the benchmark in an audit file"
        )


def first_problem(problems: Mapping[str, ImageError]) -> str:
    name, error = next(iter(problems.items()))
    return f"{name}: {error.reason}"
