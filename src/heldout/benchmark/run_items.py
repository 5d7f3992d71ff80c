"""A benchmark's side of a run folder: which benchmark it is about, and its items as a table."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout.benchmark.benchmark import Benchmark, canonical_metadata
from heldout.benchmark.read import default_name
from heldout.errors import InputError
from heldout.image import Digests, ImageError, ImageRef, byte_digest
from heldout.remote import RemoteError, located
from heldout.settings import Settings
from heldout.store import Run, dropped_table, make_table, open_run, python_command

DRAWN = "scenes.jsonl"  # beside the table of a rendered benchmark: what its pictures show
BYTES_ONLY = "bytes:"  # prefix of the key of a picture that cannot be decoded


def is_unread(key: str) -> bool:
    """Whether a picture of this key could not be compared with others, but for its bytes."""
    return not key or key.startswith(BYTES_ONLY)


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
    """Record this benchmark and its items in the run, whichever command comes first."""
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
    """True if heldout rendered the pictures: then a file beside the table describes them."""
    path = located(source.partition("#")[0])
    with contextlib.suppress(RemoteError):  # the folder above may be closed to us
        return any((folder / DRAWN).is_file() for folder in (path, path.parent))
    return False


def picture_key(benchmark: Benchmark, ref: ImageRef) -> str:
    """The key by which a picture is matched: its pixels; its bytes if it cannot be decoded; "" if it cannot be
    read."""
    digest = benchmark.digests[ref]
    if isinstance(digest, Digests):
        return "" if digest.blank else digest.pixels
    try:
        data = ref.read()
    except ImageError:
        return ""
    return BYTES_ONLY + byte_digest(data) if data else ""


def open_verb_run(
    verb: str,
    benchmark: Benchmark,
    settings: Settings,
    run: Run | str | Path | None,
    *,
    seed: int,
    command: Sequence[str] | None = None,
    **inputs: Any,
) -> Run:
    """The run that ``heldout.VERB(benchmark, …)`` writes to; it records the call.

    Args:
        verb: Name of the function.
        benchmark: Recorded as its source, or as the call that reads it as it was read.
        settings: Those that are not defaults are recorded.
        run: A run, its folder, or None for a new folder.
        seed: Seed of a new run.
        command: What is recorded in place of the call.
        **inputs: Further arguments of the call; those that are empty are not recorded.
    """

    def call(folder: Path) -> Sequence[str]:
        arguments = {name: value for name, value in inputs.items() if value}
        if seed and "seed" not in type(settings).model_fields:
            arguments["seed"] = seed
        return command or _verb_call(verb, benchmark, settings, {**arguments, "run": str(folder)})

    opened = open_run(run, verb, benchmark.name, command=call, seed=seed)
    _refuse_another_reading(opened, benchmark)
    return opened


def _refuse_another_reading(run: Run, benchmark: Benchmark) -> None:
    """An InputError where the run read the same benchmark with other settings, before its pictures are read."""
    known = run.manifest()["inputs"].get("benchmark") or {}
    before, now = known.get("settings", {}), dict(benchmark.settings)
    if known.get("source") != benchmark.source or before == now:
        return
    for name in sorted({*before, *now}):
        if before.get(name) != now.get(name):
            shown = (_shown(each.get(name)) for each in (before, now))
            raise InputError(
                f"{run.path} read {benchmark.name} with another {name}: {' then, now '.join(shown)}. Start a "
                f"new run in another folder, or give the command as before"
            )


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    return str(value) if value else "none"


def _verb_call(
    verb: str, benchmark: Benchmark, settings: Settings, inputs: Mapping[str, Any]
) -> list[str]:
    arguments = dict(benchmark.settings)
    if benchmark.source and benchmark.name != default_name(
        benchmark.source, arguments.get("preset")
    ):
        arguments["name"] = benchmark.name
    reading = "".join(f", {name}={value!r}" for name, value in arguments.items())
    source = repr(benchmark.source) if benchmark.source else "benchmark"  # made in Python
    reading = reading if benchmark.source else ""
    return python_command(
        verb,
        f"heldout.read_benchmark({source}{reading})" if reading else source,
        **inputs,
        **settings.model_dump(mode="json", exclude_defaults=True),
    )
