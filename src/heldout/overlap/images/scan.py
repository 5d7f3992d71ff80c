"""Scan corpora for a benchmark's images, shard by shard, into a run folder that survives a kill."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from heldout import __version__
from heldout.benchmark import Benchmark, benchmark_identity, items_table
from heldout.corpus import Corpus, Shard, corpus_fingerprint, reading_settings
from heldout.engine import (
    Engine,
    Kind,
    Outcome,
    ProgressStep,
    Work,
    map_salvaged,
    progress,
    work_together,
)
from heldout.errors import InputError
from heldout.image import PIXEL_DIGEST, Digests, ImageRef
from heldout.overlap.condensed import evidence_field
from heldout.overlap.images._pairs import (
    Candidate,
    PairsByShard,
    Row,
    StagedCandidates,
    VerifyTask,
    WithoutTemplates,
    candidate_rows,
    crowded,
    in_series,
    nearest_overall,
    nearest_so_far,
    verify_tasks,
)
from heldout.overlap.images._salvage import (
    PairSalvage,
    ShardSalvage,
    joined_results,
    lost_result,
)
from heldout.overlap.images.embedding_rows import pictures_of
from heldout.overlap.images.exact import (
    COUNTS,
    STAGE,
    ExactIndex,
    Place,
    build_index,
    lost_counts,
    scan_shard,
    thumbnail,
)
from heldout.overlap.images.hashes import RADII, HashIndex, build_hash_index
from heldout.overlap.images.near import NearSearch, NearSearcher, Neighbours
from heldout.overlap.images.register import RULES
from heldout.overlap.images.verify import NO_OPENCV, NO_PICTURE, can_register, verify_shard
from heldout.overlap.judgements import regrade
from heldout.overlap.relations import BY_DIGEST, COPIES
from heldout.overlap.settings import WHOLE, Part
from heldout.store import Dropped, Run, ShardResult, Stage, dropped_table, file_name, make_table

#: stages whose dropped rows a search writes anew: reading both sides, and its own
_RENEWED = ("read", "benchmark", "corpus", STAGE, "text", "judge", "calibration")


@dataclass(frozen=True)
class StagedCopies:
    """The copies that a stage found, by shard of the corpus; read when they are asked for."""

    stage: Stage
    tasks: Mapping[int, range] | None = (
        None  # of each shard; None: the stage has the corpus' shards
    )

    def rows(self, shard: int) -> Iterator[dict[str, Any]]:
        for index in [shard] if self.tasks is None else self.tasks.get(shard, ()):
            table = self.stage.part("matches", index)
            if table is not None:
                rows = table.select(["relation", "corpus_id", "benchmark_id", "evidence"])
                yield from (row for row in rows.to_pylist() if row["relation"] in COPIES)

    def pictures(self, shard: int) -> set[tuple[str, str]]:
        """(picture, corpus item)."""
        return {
            (json.loads(row["evidence"])["benchmark_pixels"], row["corpus_id"])
            for row in self.rows(shard)
        }


@dataclass
class CorpusScan:
    """What became of one corpus. ``failed`` shards have no result; running again tries them anew."""

    corpus: str
    source: str
    reader: str
    fingerprint: str = ""
    shards: int = 0
    reused: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    failed: dict[str, str] = field(default_factory=dict)
    hashes: bool = False  # perceptual hashes were compared, too
    encoder: str | None = None  # identity of the encoder whose neighbours were verified
    nearest: int = 0
    copies: list[StagedCopies] = field(default_factory=list, repr=False)

    def copies_in(self, shard: int) -> set[tuple[str, str]]:
        """(Corpus item, benchmark item) of the copies in one shard."""
        rows = (row for staged in self.copies for row in staged.rows(shard))
        return {(row["corpus_id"], row["benchmark_id"]) for row in rows}

    def record(self) -> dict[str, Any]:
        """What the manifest says."""
        return {name: value for name, value in vars(self).items() if name != "copies"}


def scan(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    *,
    near: NearSearch | None = None,
    hashes: bool = True,
    quiet: bool = False,
) -> list[CorpusScan]:
    """Write the tables items, matches, thumbnails and dropped of ``run``. Call inside run.writing().

    Without ``hashes`` only equal bytes and pixels are looked for, and few pictures are decoded.

    The tables and the manifest speak of exactly these corpora; finished shards of others stay in
    the run folder for the day they are asked for again.
    """
    _check(corpora)
    shards = _ShardSearch.of(benchmark, run, engine, near, hashes, quiet)
    index, unusable, searcher = shards.index, shards.unusable, shards.searcher
    pictures = {key: (ref, index.by_key[key]) for key, ref in shards.pictures.items()}
    scanned, stages = [], []
    for corpus in corpora:
        folder, settings = file_name(corpus.name), stage_settings(benchmark, corpus)
        result, stage, match = shards.search(corpus)
        stages.append(stage)
        result.copies.append(StagedCopies(stage))
        hashed_pairs = WithoutTemplates.of(StagedCandidates(stage))
        nearest: list[Row] = []
        templates, series = frozenset[str](), frozenset[str]()
        if searcher is not None and match is not None:
            neighbours = nearest_so_far(candidate_rows(match.stage), searcher.near.nearest)
            aspects = searcher.encoder.aspects
            outstanding = {
                each.name: (each.outstanding, each.worth) for each in aspects if each.outstanding
            }
            nearest = nearest_overall(neighbours, searcher.near.nearest, outstanding)
            templates = crowded(neighbours)
            series = in_series(neighbours)
            result.encoder, result.nearest = searcher.encoder.identity, searcher.near.nearest
            result.counts |= match.counts
            result.failed |= match.failed
            lost = _lost_by_encoder(match.dropped, stage)
            result.counts["lost_items"] += len(lost)
            unusable += lost
            stages.append(match.stage)
        if hashes:
            every = near is None or near.named
            way = {**settings, "register": can_register(), "rules": RULES, "every": every}
            verified = run.stage(f"verified/{folder}", way)
            pairs = PairsByShard(nearest, hashed_pairs.kept, (hashed_pairs, templates), series)
            copies = _verify(pictures, corpus, pairs, verified, result, engine, quiet, every)
            stages.append(verified)
            passed_over = hashed_pairs.to_verify(copies.pictures, nearest)
            if passed_over is not None and any(passed_over):
                # What looked like a template is a picture that the corpus holds many times.
                again = run.stage(f"verified-series/{folder}", way)
                more = PairsByShard((), passed_over)
                _verify(pictures, corpus, more, again, result, engine, quiet, every)
                stages.append(again)
            unusable += _unverified(result)
        scanned.append(result)
    run.write_table("items", items_table(benchmark))
    _collect(run, benchmark, stages, [*benchmark.dropped, *unusable], scanned)
    run.update(
        "stages", {f"{STAGE}:{result.corpus}": result.record() for result in scanned}, replace=True
    )
    regrade(run, near.bounds if near is not None else None)
    return scanned


def scan_part(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    part: Part,
    *,
    near: NearSearch | None = None,
    hashes: bool = True,
    quiet: bool = False,
) -> list[CorpusScan]:
    """Compare the shards of one part, and no more: which pairs are worth verifying is known once all parts
    are. Call inside run.writing()."""
    _check(corpora)
    shards = _ShardSearch.of(benchmark, run, engine, near, hashes, quiet)
    scanned = []
    for corpus in corpora:
        result, stage, match = shards.search(corpus, part)
        result.failed |= match.failed if match is not None else {}
        for each in [stage, *([match.stage] if match is not None else [])]:
            each.sweep()
        scanned.append(result)
    return scanned


def _check(corpora: Sequence[Corpus]) -> None:
    """Mistakes that are cheap to see are not left for after the benchmark was embedded."""
    names = [corpus.name for corpus in corpora]
    if len(set(names)) < len(names):
        raise InputError(f"two corpora have the same name: {', '.join(names)}; name them name=path")
    for corpus in corpora:
        first = next(corpus.shards(), None)
        if first is None:
            raise InputError(f"{corpus.source}: nothing to read was found in this corpus")
        if corpus.reader == "table" and not Path(corpus.source).exists():
            next(
                corpus.read(first), None
            )  # a selection that no row has, a dataset that is not there


@dataclass
class _ShardSearch:
    """What is done shard by shard, each by itself: digests and hashes, and an encoder's neighbours."""

    benchmark: Benchmark
    run: Run
    engine: Engine
    quiet: bool
    index: ExactIndex
    unusable: list[Dropped]
    pictures: Mapping[str, ImageRef]
    hashed: HashIndex | None
    searcher: NearSearcher | None

    @classmethod
    def of(
        cls,
        benchmark: Benchmark,
        run: Run,
        engine: Engine,
        near: NearSearch | None,
        hashes: bool,
        quiet: bool,
    ) -> _ShardSearch:
        if near is not None and not hashes:
            raise InputError("exact: an encoder decodes every image; leave out the setting encoder")
        index, unusable = build_index(benchmark)
        run.claim_benchmark(benchmark_identity(benchmark))
        refs = pictures_of(benchmark)
        hashed = build_hash_index(refs) if hashes else None
        searcher = NearSearcher(near, benchmark, run, engine, quiet) if near is not None else None
        return cls(benchmark, run, engine, quiet, index, unusable, refs, hashed, searcher)

    def search(
        self, corpus: Corpus, part: Part = WHOLE
    ) -> tuple[CorpusScan, Stage, Neighbours | None]:
        """Compare and embed at the same time, because one needs cores and the other may need GPUs; then who is
        near."""
        searcher, settings = self.searcher, stage_settings(self.benchmark, corpus)
        folder = file_name(corpus.name)
        methods = [*BY_DIGEST, *(sorted(RADII.items()) if self.hashed is not None else ())]
        stage = self.run.stage(f"{STAGE}/{folder}", {**settings, "methods": methods})
        result = CorpusScan(corpus.name, corpus.source, corpus.reader, corpus_fingerprint(corpus))
        result.hashes = self.hashed is not None
        near = searcher is not None and searcher.takes(corpus)
        embedding = searcher.embedding(corpus, part) if searcher is not None and near else None
        embeds = embedding is not None and embedding.store is not None
        title = f"scanning{' and embedding' if embeds else ''} {corpus.name}"
        listed = part.count_shards(corpus)
        total = None if listed is None else listed * (2 if embeds else 1)
        before = functools.partial(scanned_before, result)
        with progress(title, total, "shards", disabled=self.quiet, note=before) as step:
            works: list[Work[Any, Any]] = [self._comparing(corpus, part, stage, result, step)]
            if embedding is not None:
                works += embedding.works(step)
            work_together(self.engine, works)
        result.counts |= stage.counts()
        if searcher is None or embedding is None:
            return result, stage, None
        return result, stage, searcher.search(corpus, folder, settings, embedding.finished())

    def _comparing(
        self, corpus: Corpus, part: Part, stage: Stage, result: CorpusScan, step: ProgressStep
    ) -> Work[Shard, ShardResult]:
        def to_do() -> Iterator[Shard]:
            for shard in part.shards(corpus):
                result.shards += 1
                if stage.plan(shard.index, shard.key):
                    yield shard
                else:
                    result.reused += 1
                    step()

        def keep(outcome: Outcome[Shard, ShardResult]) -> None:
            shard, value = outcome.task, outcome.value
            if value is None:
                result.failed[shard.id] = outcome.error or "no result"
                step()
            else:
                stage.save(shard.index, value)
                step(items=value.counts["items"])

        look = functools.partial(scan_shard, self.index, self.hashed, corpus)
        salvage = ShardSalvage(corpus, functools.partial(lost_result, lost_counts), joined_results)
        return Work(Kind(look, to_do()), salvage, keep)


def stage_settings(benchmark: Benchmark, corpus: Corpus) -> dict[str, Any]:
    """Everything but the shards' own input that shapes a result; a change makes all shards new."""
    return {
        "heldout": __version__,
        "benchmark": benchmark.fingerprint,
        "pixels": PIXEL_DIGEST,
        "reader": corpus.reader,
        "corpus": reading_settings(corpus) or {"source": corpus.source},
    }


def scanned_before(result: CorpusScan) -> str:
    """What of a corpus an earlier run has done, for the line of progress."""
    if not result.reused:
        return ""
    if result.reused < result.shards:
        return "some of it was scanned before"
    return "all of it was scanned before"


def _verify(
    pictures: Mapping[str, tuple[ImageRef, list[Place]]],
    corpus: Corpus,
    candidates: Iterable[tuple[int, list[Candidate]]],
    stage: Stage,
    result: CorpusScan,
    engine: Engine,
    quiet: bool,
    every: bool,
) -> StagedCopies:
    """Judge every candidate pair; the shards that hold one are read once more."""
    counts = {shard: len(some) for shard, some in candidates}
    shards = {shard.index: shard for shard in corpus.shards() if shard.index in counts}
    pairs = sum(counts.values())
    tasks: dict[int, range] = {}
    with progress(f"verifying pairs of {corpus.name}", pairs, "pairs", disabled=quiet) as step:

        def to_do() -> Iterator[VerifyTask]:
            for task in verify_tasks(shards, candidates):
                first = tasks.get(task.shard.index, range(task.index, task.index)).start
                tasks[task.shard.index] = range(first, task.index + 1)
                key = _hash([task.shard.key, repr(task.candidates)])
                if stage.plan(task.index, key):
                    yield task
                else:
                    step(len(task.candidates))

        judge = functools.partial(verify_shard, pictures, can_register(), corpus, every=every)
        for outcome in map_salvaged(engine, judge, to_do(), PairSalvage()):
            if outcome.value is None:
                result.failed[outcome.task.shard.id] = outcome.error or "no result"
            else:
                stage.save(outcome.task.index, outcome.value)
            step(len(outcome.task.candidates))
    for name, count in stage.counts().items():
        result.counts[name] = result.counts.get(name, 0) + count
    copies = StagedCopies(stage, tasks)
    result.copies.append(copies)
    return copies


def _lost_by_encoder(dropped: list[Dropped], stage: Stage) -> list[Dropped]:
    """What was lost while it was embedded, and had been compared by its hashes before."""
    known = {name for table in stage.parts("dropped") for name in table.column("id").to_pylist()}
    return [row for row in dropped if row.id not in known]


def _unverified(result: CorpusScan) -> list[Dropped]:
    failed = result.counts.get("failed_pairs", 0)  # listed one by one
    pairs = result.counts.get("unverified_pairs", 0) - failed
    if not pairs:
        return []
    why = NO_PICTURE if can_register() else NO_OPENCV
    return [Dropped(STAGE, result.corpus, "not verified", f"{pairs:,} candidate pairs: {why}")]


def _collect(
    run: Run,
    benchmark: Benchmark,
    stages: list[Stage],
    dropped: list[Dropped],
    scanned: list[CorpusScan],
) -> None:
    """Join the shards' tables, add the benchmark's side of every match, drop what is stale."""
    failed = [
        Dropped("corpus", shard, "shard failed", error)
        for result in scanned
        for shard, error in result.failed.items()
    ]
    # Of a file that is also in a corpus there is a thumbnail already.
    wanted = _matched_digests(stages).difference(_column(stages, "thumbnails", "digest"))
    thumbnails = _benchmark_thumbnails(benchmark, wanted)
    Stage.merge_all(stages, "matches", run.table_path("matches"))
    others = []
    if run.table_path("dropped").exists():
        known = run.read_table("dropped").to_pylist()
        others = [Dropped(**row) for row in known if row["stage"] not in _RENEWED]
    first = dropped_table([*dropped, *failed, *others])
    Stage.merge_all(stages, "dropped", run.table_path("dropped"), first=first)
    Stage.merge_all(
        stages,
        "thumbnails",
        run.table_path("thumbnails"),
        first=make_table("thumbnails", thumbnails),
        unique="digest",
    )
    for stage in stages:
        stage.sweep()


def _matched_digests(stages: list[Stage]) -> set[str]:
    """Byte digests of the benchmark images that occur in any match."""
    digests: set[str] = set()
    for stage in stages:
        for part in stage.parts("matches"):
            images = pl.DataFrame(part.select(["evidence"])).select(
                evidence_field("benchmark_image")
            )
            digests.update(images.to_series().unique())
    return digests


def _column(stages: list[Stage], table: str, name: str) -> Iterator[str]:
    """The values of one column in the parts of every stage."""
    for stage in stages:
        for part in stage.parts(table):
            yield from part.column(name).to_pylist()


def _benchmark_thumbnails(benchmark: Benchmark, wanted: set[str]) -> Iterator[dict[str, Any]]:
    missing = set(wanted)
    for ref, digest in benchmark.digests.items():
        if isinstance(digest, Digests) and digest.bytes in missing:
            missing.discard(digest.bytes)
            yield thumbnail(digest.bytes, ref.open())


def _hash(values: list[str]) -> str:
    return hashlib.sha256("\n".join(values).encode()).hexdigest()
