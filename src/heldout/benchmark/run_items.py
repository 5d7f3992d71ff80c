"""A benchmark's side of a run folder: which benchmark it is about, and its items as a table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heldout.benchmark.benchmark import Benchmark, canonical_metadata
from heldout.benchmark.read import default_name
from heldout.image import Digests, ImageError, ImageRef, byte_digest
from heldout.settings import Settings
from heldout.store import Run, dropped_table, make_table, python_command

DRAWN = "scenes.jsonl"  # beside the table of a rendered benchmark: what its pictures show
BYTES_ONLY = "bytes:"  # the key of a picture that nobody can decode


def items_table(benchmark: Benchmark) -> Any:
    def digests(refs: Sequence[ImageRef]) -> list[str]:
        return [picture_key(benchmark, ref) for ref in refs]

    return make_table(
        "items",
        (
            {
                "benchmark_id": example.id,
                "position": position,
                "cluster": cluster,
                "question": example.question,
                "options": list(example.options),
                "answer": example.answer,
                "image_names": [ref.name for ref in example.images],
                "image_digests": digests(example.images),
                "metadata": json.dumps(canonical_metadata(example.metadata), ensure_ascii=False),
            }
            for position, (example, cluster) in enumerate(
                zip(benchmark, benchmark.clusters, strict=True)
            )
        ),
    )


def prepare_run(benchmark: Benchmark, run: Run) -> None:
    """The run is about this benchmark, and holds its items, whichever command came first."""
    run.claim_benchmark(benchmark_identity(benchmark))
    if not run.table_path("items").exists():
        run.write_table("items", items_table(benchmark))
    if not run.table_path("dropped").exists():
        run.write_table("dropped", dropped_table(benchmark.dropped))


def benchmark_identity(benchmark: Benchmark) -> dict[str, Any]:
    return {
        "name": benchmark.name,
        "fingerprint": benchmark.fingerprint,
        "source": benchmark.source,
        "reader": benchmark.reader,
        "split": benchmark.split,
        "items": len(benchmark),
        "settings": dict(benchmark.settings),
        "rendered": _is_rendered(benchmark.source),
    }


def _is_rendered(source: str) -> bool:
    """True if heldout drew the pictures, and left beside the table what it drew."""
    path = Path(source.partition("#")[0])
    return any((folder / DRAWN).is_file() for folder in (path, path.parent))


def picture_key(benchmark: Benchmark, ref: ImageRef) -> str:
    """What a picture is matched by: its pixels; its bytes if nobody can decode it; "" if nothing."""
    digest = benchmark.digests[ref]
    if isinstance(digest, Digests):
        return "" if digest.blank else digest.pixels
    try:
        data = ref.read()
    except ImageError:
        return ""
    return BYTES_ONLY + byte_digest(data) if data else ""


def verb_call(verb: str, benchmark: Benchmark, settings: Settings, **inputs: Any) -> list[str]:
    """The command that a run records for ``heldout.VERB(benchmark, …)``.

    Args:
        verb: Name of the function.
        benchmark: Written as its source, or as the call that reads it as it was read.
        settings: Those that are not defaults are written.
        **inputs: Further arguments.
    """
    reading_settings = dict(benchmark.settings)
    if benchmark.source and benchmark.name != default_name(
        benchmark.source, reading_settings.get("preset")
    ):
        reading_settings["name"] = benchmark.name
    reading = "".join(f", {name}={value!r}" for name, value in reading_settings.items())
    source = repr(benchmark.source) if benchmark.source else "benchmark"  # made in Python
    reading = reading if benchmark.source else ""
    return python_command(
        verb,
        f"heldout.read_benchmark({source}{reading})" if reading else source,
        **inputs,
        **settings.model_dump(mode="json", exclude_defaults=True),
    )
