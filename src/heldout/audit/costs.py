"""``heldout.plan``: what a search would cost in bytes, hours and dollars, before it is started."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from heldout.audit.overlap import CorpusSource, near_search, opened_corpus, text_search
from heldout.benchmark import Benchmark, read_benchmark
from heldout.corpus import Corpus
from heldout.documents import read_yaml
from heldout.engine import LocalEngine, usable_cores
from heldout.errors import InputError
from heldout.overlap import OverlapSettings, SearchSample, sample_search
from heldout.settings import Settings

if TYPE_CHECKING:
    import polars as pl

#: what workers do in each stage, and of what; each of them but verify reads the whole corpus once
STAGES = {
    "compare": "items",
    "embed": "items",
    "join": "items",
    "verify": "pairs",
    "texts": "items",
}
_READING = ("compare", "embed", "texts")


class StageRates(Settings):
    """Rates of the stages that are known: per second, of one core (``embed``: of one GPU where there are
    any). Those left out are measured on this machine."""

    compare: Annotated[float, Field(gt=0)] | None = None
    """Items compared by digests and hashes."""
    embed: Annotated[float, Field(gt=0)] | None = None
    """Pictures embedded."""
    join: Annotated[float, Field(gt=0)] | None = None
    """Embedded rows compared with the whole benchmark."""
    verify: Annotated[float, Field(gt=0)] | None = None
    """Pairs of pictures registered."""
    texts: Annotated[float, Field(gt=0)] | None = None
    """Items whose texts are compared."""


class MachineSpec(Settings):
    """The machines of a plan: the file that ``heldout plan`` is given as ``on``."""

    machines: Annotated[int, Field(ge=1)] = 1
    """How many there are."""
    cores: Annotated[int, Field(ge=1)] | None = None
    """Cores of one machine; default: those of this one."""
    gpus: Annotated[int, Field(ge=0)] = 0
    """GPUs of one machine, which embed; needs rates.embed."""
    price_per_hour: Annotated[float, Field(ge=0)] | None = None
    """Dollars for one machine and hour; default: no price is printed."""
    read_mb_per_s: Annotated[float, Field(gt=0)] | None = None
    """What one machine reads from disk or network, in 10^6 bytes a second; default: reading limits nothing."""
    price_per_gb: Annotated[float, Field(ge=0)] = 0.0
    """Dollars for 10^9 bytes that are read: what a store charges for transfer."""
    speed: Annotated[float, Field(gt=0)] = 1.0
    """How many times as fast as a core of this machine one of theirs is; applies to measured rates."""
    items: Annotated[float, Field(gt=0)] | None = None
    """Items of the corpus, where it is larger than what is here; default: estimated from the corpus."""
    rates: StageRates = StageRates()
    """Rates that are known; the others are measured."""


@dataclass(frozen=True)
class SearchCost:
    """One stage on one corpus. ``limited_by``: cores, GPUs or reading."""

    corpus: str
    stage: str
    units: float
    unit: str
    bytes: float
    core_hours: float
    hours: float
    dollars: float | None
    limited_by: str


@dataclass(frozen=True)
class CostPlan:
    """What ``heldout.plan`` returns."""

    benchmark: str
    machines: MachineSpec
    stages: tuple[SearchCost, ...]
    samples: Mapping[str, SearchSample]

    @property
    def hours(self) -> float:
        return sum(stage.hours for stage in self.stages)

    @property
    def bytes(self) -> float:
        return sum(stage.bytes for stage in self.stages)

    @property
    def dollars(self) -> float | None:
        prices = [stage.dollars for stage in self.stages if stage.dollars is not None]
        return sum(prices) if prices else None

    @property
    def frame(self) -> pl.DataFrame:
        """One row for each corpus and stage."""
        import polars as pl

        return pl.DataFrame([asdict(stage) for stage in self.stages])

    def as_json(self) -> dict[str, Any]:
        return {
            "benchmark": self.benchmark,
            "on": self.machines.model_dump(mode="json"),
            "stages": [asdict(stage) for stage in self.stages],
            "total": {"bytes": self.bytes, "hours": self.hours, "dollars": self.dollars},
            "measured": {name: asdict(sample) for name, sample in self.samples.items()},
        }

    def __repr__(self) -> str:
        price = "" if self.dollars is None else f", ${self.dollars:,.2f}"
        return f"<Plan for {self.benchmark}: {self.hours:,.2f} hours{price}>"


def plan_search(
    benchmark: Benchmark | str | Path,
    against: CorpusSource | Sequence[CorpusSource],
    on: MachineSpec | Mapping[str, Any] | str | Path | None = None,
    *,
    seconds: float = 20.0,
    settings: OverlapSettings | None = None,
    **values: Any,
) -> CostPlan:
    """Say what a search would cost: bytes, hours and dollars of every stage.

    ``heldout.plan(...)`` is this function, too. Some items of shards from all over each corpus go through the
    stages of the search here; what was measured, and how many items the corpus has, gives the rest.

    Args:
        benchmark: What is protected: a benchmark, or where one is read from.
        against: What it may have leaked into: corpora, or where they are read from.
        on: The machines: a specification, its values, or a YAML file; default: this machine.
        seconds: How long to measure on each corpus.
        settings: All settings of the search; or give them by name as further arguments.
        **values: Fields of ``heldout.overlap.OverlapSettings``.

    Returns:
        The stages, with a data frame.
    """
    chosen = OverlapSettings.choose(settings, values)
    machines = read_machines(on)
    if not isinstance(benchmark, Benchmark):
        benchmark = read_benchmark(benchmark)
    several = (
        against if isinstance(against, Sequence) and not isinstance(against, str) else [against]
    )
    near, text = near_search(chosen), text_search(chosen)
    benchmark.identify(lambda: None)
    stages: list[SearchCost] = []
    samples = {}
    for source in several:
        corpus = opened_corpus(source)
        look = functools.partial(
            sample_search, benchmark, near=near, hashes=not chosen.exact, text=text, seconds=seconds
        )
        sample = _measured(look, corpus)
        samples[corpus.name] = sample
        stages += costs_of(corpus.name, sample, machines)
    return CostPlan(benchmark.name, machines, tuple(stages), samples)


def _measured(look: Callable[[Corpus], SearchSample], corpus: Corpus) -> SearchSample:
    """What ``look`` returns in a worker process: there libraries have one thread, as in a search. Threads of this
    process would wait for each other by spinning, and count that as work."""
    with LocalEngine(max(2, usable_cores())) as engine:
        (outcome,) = engine.map(look, [corpus], tries=1)
    if outcome.value is None:
        raise InputError(f"{corpus.source}: {outcome.error}")
    return outcome.value


def read_machines(on: MachineSpec | Mapping[str, Any] | str | Path | None) -> MachineSpec:
    """The specification in a YAML file, or as it is."""
    if isinstance(on, MachineSpec):
        return on
    if on is None or isinstance(on, Mapping):
        return _checked(on or {})
    path = Path(on)
    content, _ = read_yaml(path, f"on: {path}")
    if not isinstance(content, dict):
        raise InputError(f"on: {path}: expected settings such as cores: 16, price_per_hour: 1.2")
    return _checked(content)


def _checked(values: Mapping[str, Any]) -> MachineSpec:
    try:
        spec = MachineSpec.read(values)
    except InputError as error:
        raise InputError(f"on: {error}") from None
    if spec.gpus and spec.rates.embed is None:
        raise InputError("on: gpus embed, and how fast is not measured here: give rates.embed")
    return spec


def costs_of(corpus: str, sample: SearchSample, machines: MachineSpec) -> Iterator[SearchCost]:
    """The stages of one corpus on ``machines``, from what a sample took."""
    items = machines.items or sample.total_items
    growth = items / max(1e-9, sample.total_items)
    size = sample.total_bytes * growth
    cores = machines.machines * (machines.cores or usable_cores())
    for stage, unit in STAGES.items():
        if stage not in sample.units:
            continue
        units = sample.pairs if unit == "pairs" else items
        known = getattr(machines.rates, stage)
        work = units / known if known else units * sample.per_unit(stage) / machines.speed
        on_gpus = stage == "embed" and machines.gpus > 0
        workers = machines.machines * machines.gpus if on_gpus else cores
        read = size if stage in _READING else 0.0
        if stage == "verify":  # every pair is in a shard that is read once more
            read = size * min(1.0, units / max(1.0, sample.shards * growth))
        rate = (machines.read_mb_per_s or float("inf")) * 1e6 * machines.machines
        seconds = max(work / workers, read / rate)
        limit = "GPUs" if on_gpus else "cores"
        dollars = None
        if machines.price_per_hour is not None:
            dollars = seconds / 3600 * machines.machines * machines.price_per_hour
            dollars += read / 1e9 * machines.price_per_gb
        yield SearchCost(
            corpus,
            stage,
            units,
            unit,
            read,
            0.0 if on_gpus else work / 3600,
            seconds / 3600,
            dollars,
            limit if work / workers >= read / rate else "reading",
        )
