"""Scan corpora for a benchmark's images, shard by shard, into a run folder that survives a kill."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.parquet as pq

from heldout.benchmark import Benchmark
from heldout.benchmark.example import canonical_metadata
from heldout.corpus import Corpus, Shard, corpus_fingerprint
from heldout.engine import Engine, progress
from heldout.errors import InputError
from heldout.image import Digests, ImageRef
from heldout.overlap.exact import STAGE, ExactIndex, build_index, scan_shard
from heldout.overlap.thumbnails import thumbnail
from heldout.store import Dropped, Run, ShardResult, Stage, dropped_table, make_table

METHODS = ("bytes", "pixels")


@dataclass
class Scanned:
    """What became of one corpus. ``failed`` shards have no result; running again tries them anew."""

    corpus: str
    source: str
    reader: str
    shards: int
    reused: int
    counts: dict[str, int] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def scan(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    *,
    quiet: bool = False,
) -> list[Scanned]:
    """Write the tables items, matches, thumbnails and dropped of ``run``. Call inside run.writing()."""
    names = [corpus.name for corpus in corpora]
    if len(set(names)) < len(names):
        raise InputError(f"two corpora have the same name: {', '.join(names)}; name them name=path")
    index, unusable = build_index(benchmark)
    run.claim_input("benchmark", benchmark.name, _identity(benchmark))
    run.write_table("items", items_table(benchmark))
    scanned, stages = [], []
    for corpus in corpora:
        stage = run.stage(f"{STAGE}/{_folder(corpus.name)}", {
            "benchmark": benchmark.fingerprint, "methods": METHODS,
        })  # fmt: skip
        scanned.append(_scan_corpus(index, corpus, stage, engine, quiet))
        stages.append(stage)
    _collect(run, benchmark, stages, [*benchmark.dropped, *unusable], scanned)
    for corpus, result in zip(corpora, scanned, strict=True):
        identity = {"fingerprint": corpus_fingerprint(corpus), "source": corpus.source}
        run.update("inputs", {f"corpus:{corpus.name}": {**identity, "reader": corpus.reader}})
        run.update("stages", {f"{STAGE}:{corpus.name}": vars(result)})
    return scanned


def _scan_corpus(
    index: ExactIndex, corpus: Corpus, stage: Stage, engine: Engine, quiet: bool
) -> Scanned:
    result = Scanned(corpus.name, corpus.source, corpus.reader, 0, 0)
    title = f"scanning {corpus.name}"
    with progress(title, corpus.count_shards(), "shards", disabled=quiet) as step:

        def to_do() -> Iterator[Shard]:
            for shard in corpus.shards():
                result.shards += 1
                if stage.plan(shard.index, shard.key):
                    yield shard
                else:
                    result.reused += 1
                    step()

        for outcome in engine.map(functools.partial(scan_shard, index, corpus), to_do()):
            shard, found = outcome.task, outcome.value
            if found is None:
                result.failed[shard.id] = outcome.error or "no result"
                step()
                continue
            stage.save(shard.index, shard.key, found)
            step(items=found.counts["items"])
    if result.shards == 0:
        raise InputError(f"{corpus.source}: nothing to read was found in this corpus")
    result.counts = stage.counts()
    return result


def _collect(
    run: Run,
    benchmark: Benchmark,
    stages: list[Stage],
    dropped: list[Dropped],
    scanned: list[Scanned],
) -> None:
    """Join the shards' tables, add the benchmark's side of every match, drop what is stale."""
    failed = [
        Dropped("corpus", shard, "shard failed", error)
        for result in scanned
        for shard, error in result.failed.items()
    ]
    # The benchmark's own tables are one more, first shard, so that one merge joins everything.
    own = Stage(run.path / "stages" / "benchmark", {"fingerprint": benchmark.fingerprint})
    matched = _matched_digests(stages)
    own_tables = {
        "dropped": dropped_table([*dropped, *failed]),
        "thumbnails": make_table("thumbnails", _benchmark_thumbnails(benchmark, matched)),
    }
    own.plan(0, key := f"{len(matched)} {len(failed)} {_hash(sorted(matched))}")
    own.save(0, key, ShardResult(own_tables))
    for name, unique in (("matches", None), ("dropped", None), ("thumbnails", "digest")):
        Stage.merge_all([own, *stages], name, run.table_path(name), unique=unique)
    for stage in [own, *stages]:
        stage.sweep()


def _matched_digests(stages: list[Stage]) -> set[str]:
    """Byte digests of the benchmark images that occur in any match."""
    found: set[str] = set()
    for stage in stages:
        for path in stage.parts("matches"):
            for evidence in pq.read_table(path, columns=["evidence"]).column(0).to_pylist():
                found.add(json.loads(evidence)["benchmark_image"])
    return found


def _benchmark_thumbnails(benchmark: Benchmark, wanted: set[str]) -> Iterator[dict[str, Any]]:
    for ref, found in benchmark.digests.items():
        if isinstance(found, Digests) and found.bytes in wanted:
            wanted = wanted - {found.bytes}
            yield thumbnail(found.bytes, ref.open())


def items_table(benchmark: Benchmark) -> Any:
    def digests(refs: Sequence[ImageRef]) -> list[str]:
        """Pixel digests; empty where a picture is unreadable or flat and cannot be compared."""
        found = (benchmark.digests[ref] for ref in refs)
        return [d.pixels if isinstance(d, Digests) and not d.blank else "" for d in found]

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


def _identity(benchmark: Benchmark) -> dict[str, Any]:
    return {
        "fingerprint": benchmark.fingerprint,
        "source": benchmark.source,
        "reader": benchmark.reader,
        "split": benchmark.split,
        "items": len(benchmark),
    }


def _folder(name: str) -> str:
    """A corpus name as a folder name; different names stay different."""
    safe = re.sub(r"[^A-Za-z0-9._-]", "_", name).lstrip(".")[:80]
    return safe if safe == name else f"{safe}-{_hash([name])[:8]}"


def _hash(values: list[str]) -> str:
    return hashlib.sha256("\n".join(values).encode()).hexdigest()
