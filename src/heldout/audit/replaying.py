"""The lab's sheets and tables, by the product's own scoring and asking: what is asked, what came of it."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from heldout.audit.asking import AskingPlan, ask_benchmark, read_twins
from heldout.audit.scoring import ScoringPlan, score_benchmark
from heldout.benchmark import Benchmark
from heldout.lab.releases import REWORDED
from heldout.lab.replay import Collector, Keys, Replay
from heldout.lab.sheet import Sheet
from heldout.model.asking import expand, parse_variants
from heldout.model.asking.template import write
from heldout.model.prompt import question_request
from heldout.scenes.paraphrase import paraphrased
from heldout.store import Run

CONTEXT = 640  # tokens of the longest text that the small models are trained on
SHUFFLES = 20


@dataclass
class Tier:
    """One benchmark of the lab: what is scored and asked of it, the same for every model. ``keys`` know
    its pictures' bytes, which are read once for all models."""

    benchmark: Benchmark
    twins: Path | None = None
    seed: int = 0
    keys: Keys = field(default_factory=Keys)

    @cached_property
    def twin_benchmarks(self) -> dict[str, Benchmark]:
        return read_twins(self.asking.variants, self.benchmark)

    @property
    def scoring(self) -> ScoringPlan:
        words = sum(len(f"{one.question} {one.answer}".split()) + 8 for one in self.benchmark)
        return ScoringPlan(
            options=any(one.options for one in self.benchmark),
            joint_budget=2 * words * (1 + SHUFFLES), context=CONTEXT, neighbour=True, seed=self.seed,
        )  # fmt: skip

    @property
    def asking(self) -> AskingPlan:
        names = "original,no-image"
        if any(one.options for one in self.benchmark):
            names += ",rotation-all,confused-choices"
        if any(one.metadata.get(REWORDED) for one in self.benchmark):
            names += f",slot-paraphrase={REWORDED}"
        if self.twins is not None:
            names += f",twin={self.twins}"
        return AskingPlan(parse_variants(names), seed=self.seed)


def write_sheet(
    name: str, tier: Tier, processor: Any, others: Mapping[str, Sequence[Any]] | None = None
) -> Sheet:
    """Everything `heldout score` and `heldout ask` put to a model about this tier, as one sheet.

    ``others``: by picture's name, other words about it, for contamination with pictures alone."""
    collector = Collector(processor)
    twins = tier.twin_benchmarks
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(Path(folder) / "run", seed=tier.seed)
        with run.writing():
            score_benchmark(tier.benchmark, collector, run, "collector", tier.scoring, quiet=True)
            ask_benchmark(
                tier.benchmark, collector, run, "collector", tier.asking, twins, quiet=True
            )
    _golds(collector, tier, twins)
    return collector.sheet(name, _released(collector, tier.benchmark, others or {}))


def replay_model(tier: Tier, replay: Replay, run: Run, model: str) -> None:
    """A model's tables in the run, as if it had been scored and asked here. Call inside run.writing()."""
    made = score_benchmark(tier.benchmark, replay, run, model, tier.scoring, quiet=True)
    # Where a killed run goes on, what it had read before is not read again, and not counted.
    if len(replay.read) >= sum(made.rows.values()):
        known = run.manifest()["models"][model]
        spent = replay.read_for([one.id for one in tier.benchmark])
        run.update("models", {model: {**known, **spent}})
    ask_benchmark(tier.benchmark, replay, run, model, tier.asking, tier.twin_benchmarks, quiet=True)


def _golds(collector: Collector, tier: Tier, twins: Mapping[str, Benchmark]) -> None:
    about = {one.id: str(one.metadata.get("content_type") or "") for one in tier.benchmark}
    shown = expand(
        tier.benchmark, tier.benchmark.examples, tier.asking.variants, twins=twins, seed=tier.seed
    )
    for question in shown.questions:
        key = collector.keys.of(write(question), "ask")
        kind = "choice" if question.options else "open"
        if question.gold.lower() in ("yes", "no"):
            kind = "yes/no"
        collector.golds.setdefault(
            key, [question.variant, f"{kind} {about[question.benchmark_id]}", question.gold]
        )


def _released(
    collector: Collector, benchmark: Benchmark, others: Mapping[str, Sequence[Any]]
) -> list[dict[str, Any]]:
    pages: dict[str, dict[str, Any]] = {}
    for example, cluster in zip(benchmark, benchmark.clusters, strict=True):
        if not example.answer or not example.question or not example.images:
            continue
        name = example.images[0].name
        page = pages.setdefault(
            cluster,
            {
                "picture": collector.picture(question_request(example)),
                "name": name, "items": [], "paraphrases": [],
                "other": list(next((o for n, o in others.items() if name.endswith(n)), ())),
            },
        )  # fmt: skip
        page["items"].append([example.question, example.answer, list(example.options)])
        page["paraphrases"].append(paraphrased(example.question))
    return list(pages.values())
