"""Measure what calibration is based on: nearest neighbours of benchmark, null and controls.

All of them are taken from one view (upright) of whole pictures, so that a benchmark picture that has
nothing to do with the corpus is exchangeable with a picture of the null. The search for copies looks at
many views and parts; those similarities are larger and belong to another null.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from heldout import __version__
from heldout.benchmark import Benchmark
from heldout.corpus import Corpus, corpus_fingerprint
from heldout.engine import Engine, progress
from heldout.errors import InputError
from heldout.image import ImageError, ImageRef, to_rgb
from heldout.overlap.images.embedding_rows import (
    benchmark_pictures,
    embed_benchmark,
    pictures_of,
    whole_pictures,
)
from heldout.overlap.images.embeddings import embed_corpus
from heldout.overlap.images.encoder import Encoder, open_encoder, require_same
from heldout.overlap.images.near import NearSearch
from heldout.overlap.nearness._studies import joined, known_studies, studies_of
from heldout.overlap.nearness.nearest import (
    COPY_ROLE,
    ITSELF,
    SAMPLE,
    STAGE,
    ControlSet,
    NearestRows,
    TallMatrix,
    embed_reference,
    nearest_in,
    null_similarities,
    related_pictures,
)
from heldout.overlap.settings import ALPHA
from heldout.store import Dropped, Run, ShardResult, Stage, dropped_table, make_table

# Would a copy have been flagged? Light copies of the benchmark's own pictures against τ.
#
# A threshold that pictures re-saved a little smaller do not reach flags nothing, and a rate of nothing
# would read as clean. So a sample is re-saved and measured with every calibration: its power.


LIGHT_COPY = "resized to 3/4 and saved as JPEG 60"
COPIES_SAMPLE = 64
COPIES_SEEN = 0.9  # of light copies above τ; below, "not flagged" says little
_SCALE, _QUALITY, _BATCH = 0.75, 60, 32


def light_copy(image: Image.Image) -> Image.Image:
    size = [max(16, round(side * _SCALE)) for side in image.size]
    buffer = io.BytesIO()
    to_rgb(image).resize((size[0], size[1]), Image.Resampling.BICUBIC).save(
        buffer, "JPEG", quality=_QUALITY
    )
    return Image.open(buffer)


def copy_similarities(
    pictures: Sequence[str],
    rows: NDArray[Any],
    refs: Mapping[str, ImageRef],
    encoder: Encoder,
    *,
    seed: int,
) -> list[tuple[str, float]]:
    """(picture, similarity to its light copy) of a sample; ``rows`` are the pictures as vectors."""
    known = [place for place, picture in enumerate(pictures) if picture in refs]
    chosen = np.random.default_rng(seed).permutation(known)[:COPIES_SAMPLE]
    similarities: list[tuple[str, float]] = []
    for first in range(0, len(chosen), _BATCH):
        places, prepared = [], []
        for place in sorted(chosen[first : first + _BATCH].tolist()):
            try:
                prepared.append(encoder.prepare(light_copy(refs[pictures[place]].open())))
            except (
                ImageError
            ):  # the picture was there when it was embedded; it is reported elsewhere
                continue
            places.append(place)
        if places:
            # As a corpus row is stored: in half precision.
            copies = encoder.embed(np.stack(prepared)).astype(np.float16).astype(np.float64)
            cosines = (copies * np.asarray(rows[places], np.float64)).sum(axis=1)
            similarities += [
                (pictures[place], float(value))
                for place, value in zip(places, cosines, strict=True)
            ]
    return similarities


# Above this, two rows show one picture: no encoder tells a file from itself saved anew. Copies that
# lie below stay in the null and raise its threshold, which errs towards fewer flags; a lower bound
# would cut the null itself, and what is near but different would be flagged beyond α.
COPY = 0.9995
_BLOCK_BYTES = 64 << 20


class CorpusPictures(Protocol):
    """Whole corpus pictures as vectors; equal groups are equal pixels."""

    @property
    def identity(self) -> str: ...
    @property
    def rows(self) -> Sequence[NDArray[Any]]: ...
    @property
    def ids(self) -> Sequence[str]: ...
    @property
    def groups(self) -> NDArray[np.int64]: ...


class BenchmarkPictures(Protocol):
    @property
    def identity(self) -> str: ...
    @property
    def rows(self) -> NDArray[Any]: ...
    @property
    def pictures(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class CalibrationPlan:
    """How to calibrate: the share of false alarms, the null, and what must not be flagged."""

    alpha: float = ALPHA
    null: Corpus | None = None  # a reference set; the corpus against itself without one
    controls: tuple[ControlSet, ...] = ()
    encoders: tuple[str, ...] = ()  # besides that of the search: do they agree?
    column: str | None = None  # that names studies, patients or volumes
    duplicates: float = COPY

    def __post_init__(self) -> None:
        if not 0.0 < self.alpha < 0.5:
            raise InputError(
                f"alpha: expected a share of false alarms between 0 and 0.5; got {self.alpha:g}"
            )
        names = [control.name for control in self.controls]
        if len(set(names)) < len(names):
            raise InputError(f"controls: two have the same name: {', '.join(names)}")


@dataclass
class NearnessMeasurement:
    """One corpus: the stage that holds its rows, and the facts that go to the manifest."""

    stage: Stage | None  # None where nothing could be measured
    facts: dict[str, Any]


def measure(
    run: Run,
    name: str,
    fingerprint: str,
    corpus: CorpusPictures,
    benchmark: BenchmarkPictures,
    plan: CalibrationPlan,
    encoder: Encoder,
    *,
    images: Mapping[str, ImageRef] | None = None,
    studies: Mapping[str, str] | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> NearnessMeasurement:
    """Nearest neighbours in one corpus; each set is a finished piece that a second call reuses.

    ``images`` are the benchmark's pictures themselves, for light copies of them; ``studies`` of corpus
    items by id: a null of the corpus has one picture of each, and neighbours from others.
    """
    require_same(corpus.identity, benchmark.identity)
    folder = hashlib.sha256(f"{name}\n{corpus.identity}".encode()).hexdigest()[:16]
    bench = hashlib.sha256("\n".join(benchmark.pictures).encode()).hexdigest()
    settings = {
        "heldout": __version__,
        "corpus": fingerprint,
        "items": len(corpus.ids),
        "encoder": corpus.identity,
        "duplicates": plan.duplicates,
        "seed": seed,
        "studies": [plan.column, hashlib.sha256(repr(studies).encode()).hexdigest()],
    }
    stage = run.stage(f"{STAGE}/{folder}", settings)
    work = _Work(name, corpus, plan.duplicates, seed, plan.column, studies or {})
    if stage.plan(0, f"benchmark {bench}"):
        nearest = nearest_in(work.rows, benchmark.rows)
        pictures = benchmark.pictures
        stage.save(0, work.result("benchmark", "benchmark", pictures, benchmark.rows, nearest))
    facts = _facts(name, corpus.identity, plan)
    facts["corpus_pictures"] = len(set(corpus.groups.tolist()))
    facts["null"]["seed"] = seed
    sets = [(control.corpus, "control", control.name) for control in plan.controls]
    if plan.null is None:
        if stage.plan(1, "null"):
            try:
                with progress(f"calibrating on {name}", None, "sets", disabled=quiet):
                    stage.save(1, work.itself())
            except InputError as error:  # too few pictures: said, and the scan is kept
                facts["problem"] = str(error)
    else:
        sets.insert(0, (plan.null, "null", plan.null.name))
    for index, (source, role, label) in enumerate(sets, start=2):
        key = json.dumps([role, label, source.source, corpus_fingerprint(source), bench])
        if stage.plan(index, key):
            stage.save(index, work.reference(source, role, label, encoder, benchmark, quiet))
    if images and stage.plan(2 + len(sets), f"{LIGHT_COPY} {bench}"):
        stage.save(2 + len(sets), work.copies(benchmark, images, encoder))
    stage.sweep()
    return NearnessMeasurement(stage, facts | {"counts": stage.counts()})


def failed(name: str, encoder: str, plan: CalibrationPlan, problem: str) -> NearnessMeasurement:
    """A corpus of which nothing could be measured, and why."""
    return NearnessMeasurement(None, _facts(name, encoder, plan) | {"problem": problem})


def _facts(name: str, encoder: str, plan: CalibrationPlan) -> dict[str, Any]:
    source = ITSELF
    if plan.null is not None:
        source = f"pictures of {plan.null.name}, which are not in the corpus"
    return {
        "corpus": name,
        "encoder": encoder,
        "alpha": plan.alpha,
        "corpus_pictures": 0,
        "null": {"source": source, "duplicates": plan.duplicates, "seed": 0},
        "controls": [
            {"name": control.name, "domain": control.domain, "source": control.corpus.source}
            for control in plan.controls
        ],
        "counts": {},
        "problem": "",
    }


@dataclass
class _Work:
    """What every set is compared with."""

    name: str
    corpus: CorpusPictures
    duplicates: float
    seed: int
    column: str | None
    studies: Mapping[str, str]

    @property
    def rows(self) -> TallMatrix:
        return TallMatrix.of(list(self.corpus.rows), _BLOCK_BYTES)

    @property
    def groups(self) -> NDArray[np.int64]:
        """Rows with equal pixels, or of one study: one of them enters the null, and finds no other near."""
        if not self.studies:
            return self.corpus.groups
        equal = [group if group >= 0 else None for group in self.corpus.groups.tolist()]
        return joined(equal, known_studies(self.corpus.ids, self.studies))

    def itself(self) -> ShardResult:
        null = null_similarities(
            list(self.corpus.rows),
            encoder=self.corpus.identity,
            duplicates=self.duplicates,
            groups=self.groups,
            sample=SAMPLE,
            seed=self.seed,
        )
        assert null.links is not None and null.related is not None
        ids = self.corpus.ids
        entries = (
            self.entry("null", "corpus", ids[own], other, value, str(label))
            for (own, other), value, label in zip(
                null.links.tolist(), null.similarities, null.related.tolist(), strict=True
            )
        )
        counts = {
            "null_copies": null.copies,
            "null_searched": null.searched,
            "null_studies": len(set(self.studies.values())),
        }
        return ShardResult(tables={"nearest": make_table("nearest", entries)}, counts=counts)

    def reference(
        self,
        source: Corpus,
        role: str,
        label: str,
        encoder: Encoder,
        benchmark: BenchmarkPictures,
        quiet: bool,
    ) -> ShardResult:
        """A set whose copies in this very corpus are taken out: they are no strangers to it."""
        taken = embed_reference(
            source, encoder, benchmark=set(benchmark.pictures), column=self.column, quiet=quiet
        )
        if role == "null" and self.column is not None and not any(taken.studies):
            raise InputError(f"cluster_column '{self.column}': no item of {label} has it")
        nearest = nearest_in(self.rows, taken.rows)
        for place in np.flatnonzero(nearest.similarity >= self.duplicates):
            copy = self.corpus.ids[nearest.neighbour[place]]
            detail = f"{label} was given as clean, but this picture is '{copy}' of {self.name}"
            taken.dropped.append(Dropped(STAGE, taken.ids[place], "is in the corpus", detail))
        nearest.neighbour[nearest.similarity >= self.duplicates] = -1
        if role == "null":  # one picture of each study: a volume of many slices is one draw
            study_seen: set[str] = set()
            for row, study in enumerate(taken.studies):
                if study in study_seen:
                    nearest.neighbour[row] = -1
                elif study and nearest.neighbour[row] >= 0:
                    study_seen.add(study)
        result = self.result(role, label, taken.ids, taken.rows, nearest, taken.studies)
        if role == "null":
            result.counts["null_studies"] = len(set(filter(None, taken.studies)))
        result.tables["dropped"] = dropped_table(taken.dropped)
        return result

    def copies(
        self, benchmark: BenchmarkPictures, images: Mapping[str, ImageRef], encoder: Encoder
    ) -> ShardResult:
        entries = [
            {
                "corpus": self.name,
                "encoder": self.corpus.identity,
                "role": COPY_ROLE,
                "name": LIGHT_COPY,
                "picture": picture,
                "neighbour": picture,
                "similarity": similarity,
                "related": picture,
            }
            for picture, similarity in copy_similarities(
                benchmark.pictures, benchmark.rows, images, encoder, seed=self.seed
            )
        ]
        return ShardResult(tables={"nearest": make_table("nearest", entries)}, counts={})

    def result(
        self,
        role: str,
        label: str,
        pictures: Sequence[str],
        rows: NDArray[Any],
        nearest: NearestRows,
        studies: Sequence[str] = (),
    ) -> ShardResult:
        """Pictures of one study are near for one reason, however far apart the encoder puts them."""
        related = related_pictures(rows, nearest.neighbour, nearest.similarity)
        if any(studies):
            related = joined(related.tolist(), studies)
        entries = [
            self.entry(role, label, picture, int(neighbour), similarity, pictures[first])
            for picture, neighbour, similarity, first in zip(
                pictures, nearest.neighbour, nearest.similarity, related, strict=True
            )
            if neighbour >= 0
        ]
        return ShardResult(tables={"nearest": make_table("nearest", entries)}, counts={})

    def entry(
        self,
        role: str,
        label: str,
        picture: str,
        neighbour: int,
        similarity: float,
        related: str,
    ) -> dict[str, Any]:
        return {
            "corpus": self.name,
            "encoder": self.corpus.identity,
            "role": role,
            "name": label,
            "picture": picture,
            "neighbour": self.corpus.ids[neighbour],
            "similarity": float(similarity),
            "related": related,
        }


def write_measured(run: Run, measured: Sequence[NearnessMeasurement]) -> None:
    """The table, the manifest's section, and what was left out; none of them where nothing was."""
    stages = [measurement.stage for measurement in measured if measurement.stage is not None]
    Stage.merge_all(stages, "nearest", run.table_path("nearest"))
    facts = {
        f"{measurement.facts['corpus']} | {measurement.facts['encoder']}": measurement.facts
        for measurement in measured
    }
    run.update(STAGE, facts, replace=True)
    known = run.read_table("dropped")
    parts = [known, *_dropped(stages)]
    if len(parts) > 1:
        run.write_table("dropped", pa.concat_tables(parts))


def _dropped(stages: Sequence[Stage]) -> Iterator[pa.Table]:
    for stage in stages:
        yield from stage.parts("dropped")


# Calibrate a near search: measure every corpus' null and controls, and write them to the run.


def calibrate(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    *,
    near: NearSearch | None,
    plan: CalibrationPlan,
    quiet: bool = False,
) -> None:
    """After ``scan``. For a corpus that cannot be calibrated the reason is recorded; its scan is kept.

    Without a near search there is nothing to calibrate, which the run records.
    """
    measured: list[NearnessMeasurement] = []
    specs = [] if near is None else list(dict.fromkeys([near.encoder, *plan.encoders]))
    seed = int(run.manifest()["seed"])
    for number, spec in enumerate(specs):
        assert near is not None
        encoder = open_encoder(spec)
        if number:  # the search itself embedded both sides with its own encoder
            embed_benchmark(benchmark, spec, encoder, run, engine, quiet=quiet)
        for corpus in corpora:
            if number:
                embed_corpus(corpus, spec, encoder, run, engine, place=near.embeddings, quiet=quiet)
            try:
                measurement = measure(
                    run,
                    corpus.name,
                    corpus_fingerprint(corpus),
                    whole_pictures(run, corpus.name, encoder.identity),
                    benchmark_pictures(run, encoder.identity),
                    plan,
                    encoder,
                    images=pictures_of(benchmark),
                    studies=None if plan.null is not None else studies_of(corpus, plan.column),
                    seed=seed,
                    quiet=quiet,
                )
            except InputError as error:
                measurement = failed(corpus.name, encoder.identity, plan, str(error))
            measured.append(measurement)
    write_measured(run, measured)
