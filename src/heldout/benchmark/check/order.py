"""How the release order is structured: this decides which order tests are valid later."""

from __future__ import annotations

from collections.abc import Iterator

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.check.problem import OrderFact, Problem, problem
from heldout.benchmark.example import canonical_value
from heldout.stats import holm, order_grouping, order_trend

_ALPHA = 0.01  # of calling a random order structured, over all properties together
_WEAK = 0.02  # strengths below this do not matter at any realistic size


def order_facts(benchmark: Benchmark) -> list[OrderFact]:
    """Grouping by cluster and by every category; trends of lengths, cluster by cluster."""
    cluster = "image" if benchmark.cluster_key == "image" else "cluster"
    found = [(cluster, "grouping", order_grouping(benchmark.clusters))]
    for column, values in _categories(benchmark):
        found.append((column, "grouping", order_grouping(values)))
    if any(example.answer for example in benchmark):
        lengths = [len(example.answer or "") for example in benchmark]
        found.append(("answer length", "trend", order_trend(lengths, benchmark.clusters)))
        found.append(("answer length", "grouping", order_grouping(lengths)))
    if any(example.question for example in benchmark):
        lengths = [len(example.question or "") for example in benchmark]
        found.append(("question length", "trend", order_trend(lengths, benchmark.clusters)))
    adjusted = holm([grouping.p for _, _, grouping in found])
    return [
        OrderFact(
            property=name,
            kind=kind,  # type: ignore[arg-type]
            strength=round(grouping.strength, 4),
            z=round(grouping.z, 3),
            p=grouping.p,
            p_adjusted=p,
        )
        for (name, kind, grouping), p in zip(found, adjusted, strict=True)
    ]


def order_rules(benchmark: Benchmark, facts: list[OrderFact]) -> Iterator[Problem]:
    strong = [f for f in facts if f.p_adjusted < _ALPHA and abs(f.strength) > _WEAK]
    if not strong:
        return
    strong.sort(key=lambda fact: -abs(fact.strength))
    told = "; ".join(f"{f.property} ({f.kind}, strength {f.strength:+.2f})" for f in strong)
    blocks = [f.property for f in strong if f.kind == "grouping"]
    trends = [f.property for f in strong if f.kind == "trend"]
    advice = []
    if blocks:
        advice.append(
            f"order tests must permute whole blocks or within blocks of {', '.join(blocks)}"
        )
    if trends:
        advice.append(f"positional tests must be stratified by {', '.join(trends)}")
    yield problem(
        "structured-order",
        "note",
        f"the release order is not random: {told}",
        "; ".join(advice) + "; a free permutation would call this structure memorisation",
        [f.property for f in strong],
        len(facts),
        "properties",
    )


def _categories(benchmark: Benchmark) -> Iterator[tuple[str, list[str]]]:
    """Metadata columns that sort items into a handful of kinds: topic, modality, answer type."""
    n = len(benchmark)
    columns = list(dict.fromkeys(key for example in benchmark for key in example.metadata))
    for column in columns:
        values = [canonical_value(example.metadata.get(column)) or "" for example in benchmark]
        kinds = len(set(values))
        if 2 <= kinds <= max(2, min(60, n // 8)):
            yield column, values
