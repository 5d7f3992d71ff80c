"""Publish: the kept twins as a benchmark in the format of the input, and as VLMEvalKit's TSV."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout import __version__
from heldout.benchmark import Benchmark, Example, Opened, read_benchmark
from heldout.errors import InputError
from heldout.image import ImageError, byte_digest
from heldout.store import Run, inside, write_atomic, write_json
from heldout.twin._same_format import PublishedTwin, write_same_format, write_tsv
from heldout.twin.ledger import FILTER, PUBLISH, RENDER, digest, folder, read_stage, write_stage

PUBLISH_VERSION = 1
_UNFINISHED = ".publish."


def publish(
    run: Run, benchmark: Benchmark, reopen: Callable[[], Opened], *, seed: int
) -> dict[str, Any]:
    """``reopen`` finds the files of the benchmark; what is written is read back and checked."""
    twins = _kept(run, benchmark, seed)
    if not twins:
        raise InputError(
            f"no twin of {run.path} was kept, so there is nothing to publish: tables/dropped.parquet "
            f"says why, item by item"
        )
    name = f"{re.sub(r'[^A-Za-z0-9._-]+', '-', benchmark.name).strip('.-') or 'benchmark'}-twin.tsv"
    base = folder(run)
    for leftover in base.glob(f"{_UNFINISHED}*"):  # of a call that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_UNFINISHED, dir=base) as temporary:
        building = Path(temporary)
        dropped = write_tsv(list(twins.values()), building / "vlmevalkit" / name)
        left_out = {entry.id for entry in dropped}
        in_tsv = {key: twin for key, twin in twins.items() if key not in left_out}
        wrong = (
            _differences(in_tsv, read_benchmark(building / "vlmevalkit" / name)) if in_tsv else []
        )
        if wrong:
            raise InputError(f"the TSV of the twins does not read back as it was meant: {wrong[0]}")
        place, notes = _same_format(reopen, twins, building)
        # `heldout ask` reads a twin as it stands, without presets or --map.
        plain = place is not None and not _differences(twins, _plainly(building / place))
        write_stage(run, PUBLISH, [{"id": key} for key in twins], dropped)
        for part in ("vlmevalkit", "benchmark"):
            shutil.rmtree(base / part, ignore_errors=True)
            if (building / part).exists():
                (building / part).replace(base / part)
    tsv = (base / "vlmevalkit" / name).relative_to(run.path).as_posix()
    same = None if place is None else (base / place).relative_to(run.path).as_posix()
    record = {
        "publish_version": PUBLISH_VERSION,
        "heldout": __version__,
        "seed": seed,
        "items": len(twins),
        "filtered": next(iter(twins.values())).provenance["filter"],
        "benchmark": same,
        "vlmevalkit": tsv,
        "ask_with": same if plain else tsv,
        "notes": notes,
        "made_by": run.manifest().get("twin", {}),
    }
    lines = ({"id": key, **twin.provenance} for key, twin in twins.items())
    _write_provenance(base / "provenance.jsonl", list(lines))
    write_json(base / "publish.json", record)
    return record


def _same_format(
    reopen: Callable[[], Opened], twins: Mapping[str, PublishedTwin], building: Path
) -> tuple[Path | None, list[str]]:
    """The file's place below ``made``, or a note with the reason why there is none."""
    try:
        opened = reopen()
        place = write_same_format(opened, twins, building / "benchmark")
        wrong = _differences(twins, opened.reading.back(place))
    except InputError as error:
        shutil.rmtree(building / "benchmark", ignore_errors=True)
        return None, [f"only the TSV was written: {error}"]
    if wrong:
        shutil.rmtree(building / "benchmark", ignore_errors=True)
        return None, [
            f"only the TSV was written: in the benchmark's own format {len(wrong):,} twins do not read "
            f"back as they were meant, the first: {wrong[0]}"
        ]
    return place.relative_to(building), []


def _plainly(path: Path) -> Benchmark:
    """The published file read without a preset and without named columns."""
    try:
        return read_benchmark(path)
    except InputError:
        return Benchmark(path.name, ())


def _differences(twins: Mapping[str, PublishedTwin], written: Benchmark) -> list[str]:
    examples = {example.id: example for example in written}
    wrong = []
    for name, twin in twins.items():
        after, before = examples.get(name), twin.example
        if after is None:
            wrong.append(f"{name}: it is missing")
            continue
        texts = {
            "question": ((after.question or "").strip(), (before.question or "").strip()),
            "options": (after.options, before.options),
            "answer": (after.answer, twin.new_answer),
            "place of the answer": (after.answer_index, twin.new_index),
        }
        parts = [what for what, (now, meant) in texts.items() if now != meant]
        if _shown(after) != byte_digest(twin.picture.read_bytes()):
            parts.append("picture")
        if parts:
            wrong.append(f"{name}: {', '.join(parts)}")
    if len(written) > len(twins):
        wrong.append(f"{len(written):,} items are read, {len(twins):,} were written")
    return wrong


def _shown(example: Example) -> str:
    try:
        (picture,) = example.images
        return byte_digest(picture.read())
    except (ValueError, ImageError) as error:
        return str(error)


def _kept(run: Run, benchmark: Benchmark, seed: int) -> dict[str, PublishedTwin]:
    rendered = {row["id"]: row for row in read_stage(run, RENDER)}
    examples = {example.id: example for example in benchmark}
    how = run.manifest().get("twin", {})
    drawing = how.get("render", {})
    # The server's address is not published.
    settings = {k: v for k, v in drawing.get("settings", {}).items() if k != "endpoint"}
    twins = {}
    for judged in read_stage(run, FILTER):
        if not judged["kept"]:
            continue
        row = rendered[judged["id"]]
        picture = inside(run.path, row["picture"])
        record = {
            "old_answer": row["old_answer"],
            "new_answer": row["new_answer"],
            "seed": seed,
            "picture_seed": row["seed"],
            "picture_sha256": byte_digest(picture.read_bytes()),
            "renderer": {"name": row["renderer"], "settings": settings},
            "edges": {"low": row["low"], "high": row["high"]},
            "caption_sha256": digest(row["caption"]) if row["caption"] else None,
            "describer": how.get("describe"),
            "verifier": how.get("verifier") if judged["verifier"] else None,
            "verdict": judged["verifier"],
            "people": judged["people"],
            "filter": judged["policy"],
        }
        twins[row["id"]] = PublishedTwin(
            examples[row["id"]], row["new_answer"], row["new_index"], picture, record
        )
    return twins


def _write_provenance(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    write_atomic(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
