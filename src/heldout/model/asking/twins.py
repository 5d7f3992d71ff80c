"""A run's twins: how they were made, which items have one, and in which nothing changed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout.benchmark import Benchmark, Example, read_benchmark, same
from heldout.errors import InputError
from heldout.image import Digests
from heldout.model.asking.variants import Variant, expand, is_twin
from heldout.store import Run, inside, read_document

TWIN_SETS = "twins.json"
PUBLISHED_TWINS = "twin/publish.json"  # written by heldout twin
UNFILTERED = "unfiltered"
EXACT = "scene"  # redrawn from its description: right by construction


def twin_origin(twins: Benchmark) -> dict[str, Any]:
    """``unjudged``: how many of them were not judged; twins made elsewhere do not say."""
    records = [_provenance(example) for example in twins]
    unjudged = sum(
        record.get("filter") == UNFILTERED and _renderer(record) != EXACT
        for record in records
        if record
    )
    return {"items": len(records), "unjudged": unjudged}


def _provenance(example: Example) -> Mapping[str, Any]:
    record: Any = example.metadata.get("twin")
    if isinstance(record, str):
        try:
            record = json.loads(record)
        except ValueError:
            return {}
    if isinstance(record, Mapping):
        return record
    beginning = "twin."
    return {
        key.removeprefix(beginning): value
        for key, value in example.metadata.items()
        if key.startswith(beginning)
    }


def _renderer(provenance: Mapping[str, Any]) -> str:
    renderer = provenance.get("renderer", provenance.get("renderer.name"))
    return str(renderer.get("name")) if isinstance(renderer, Mapping) else str(renderer)


def read_twins(
    variants: Sequence[Variant], benchmark: Benchmark, run: Run | str | Path | None = None
) -> dict[str, Benchmark]:
    """Twins by variant; a variant that names no benchmark uses the twins that ``run`` holds."""
    ids = {example.id for example in benchmark}
    twins = {}
    for variant in variants:
        if not is_twin(variant.name):
            continue
        source = variant.source or _published_twins(variant, run)
        twins[variant.name] = read_benchmark(source)
        if not any(example.id in ids for example in twins[variant.name]):
            others = ", ".join(example.id for example in twins[variant.name].examples[:3])
            raise InputError(
                f"variants: {variant.name}={source}: no item has the id of an item of "
                f"{benchmark.name}. Twins are paired by id; these are like {others}"
            )
    return twins


def _published_twins(variant: Variant, run: Run | str | Path | None) -> Path:
    folder = run.path if isinstance(run, Run) else Path(run) if run is not None else None
    if folder is None or not (folder / PUBLISHED_TWINS).exists():
        raise InputError(
            f"variants: {variant.name}: this run holds no twins; name them with {variant.name}=BENCH"
        )
    return inside(folder, str(read_document(folder / PUBLISHED_TWINS)["ask_with"]))


# Which items have a twin, and in which of them nothing changed. A twin with the same picture, question and
# options as its original is not a twin: only the key was changed, and the best model is wrong most often.


def note_twins(
    run: Run, benchmark: Benchmark, twins: Mapping[str, Benchmark], *, renewed: bool = False
) -> None:
    """Call inside run.writing(). Sets that were noted under other names stay. ``renewed``: whoever calls it records
    all models anew where a set of twins changed."""
    if not twins:
        return
    if not renewed:
        _refuse_others(run, twins)
    path = run.path / TWIN_SETS
    kept = run.read_json(TWIN_SETS)["twins"] if path.exists() else {}
    for name, twin in twins.items():
        shown = expand(
            benchmark,
            benchmark.examples,
            [Variant(name, source=str(twin.source))],
            twins={name: twin},
        )
        unchanged = unchanged_twins(benchmark, twin)
        kept[name] = {
            "items": [
                question.benchmark_id
                for question in shown.questions
                if question.benchmark_id not in unchanged
            ],
            "unchanged": sorted(unchanged),
        }
        record = {"unchanged": len(unchanged), "fingerprint": twin.fingerprint}
        run.update("twins", {name: {**twin_origin(twin), **record}})
    run.write_json(TWIN_SETS, {"schema_version": 1, "twins": kept})


def _refuse_others(run: Run, twins: Mapping[str, Benchmark]) -> None:
    """Models are compared on the same twins: two sets of one name would make a clean model drop."""
    noted = run.manifest().get("twins", {})
    for name, twin in twins.items():
        known = noted.get(name, {}).get("fingerprint")
        if known not in (None, twin.fingerprint) and _recorded_on(run, name):
            raise InputError(
                f"variants: {name}={twin.source or twin.name}: {run.path} holds answers to other twins of that name "
                f"or their scores, and models are compared on the same ones. Call these {name}-NAME=…, or use "
                f"another run folder"
            )


def _recorded_on(run: Run, variant: str) -> bool:
    tables = [name for name in ("answers", "twin_scores") if run.table_path(name).exists()]
    return any((run.frame(name)["variant"] == variant).any() for name in tables)


def unchanged_twins(benchmark: Benchmark, twins: Benchmark) -> frozenset[str]:
    """Items whose twin has the same pictures and words; a picture that cannot be read is not compared."""
    known = {example.id: example for example in benchmark}
    return frozenset(
        twin.id
        for twin in twins
        if (example := known.get(twin.id)) is not None
        and _words(twin) == _words(example)
        and _same_pictures(benchmark, example, twins, twin)
    )


def _words(example: Example) -> tuple[str, list[str]]:
    return same(example.question or ""), sorted(same(option) for option in example.options)


def _same_pictures(benchmark: Benchmark, example: Example, twins: Benchmark, twin: Example) -> bool:
    if not example.images or len(example.images) != len(twin.images):
        return False
    for first, second in zip(example.images, twin.images, strict=True):
        digest, other = benchmark.digests[first], twins.digests[second]
        if not (isinstance(digest, Digests) and isinstance(other, Digests)):
            return False
        if digest.bytes != other.bytes and digest.pixels != other.pixels:
            return False
    return True
