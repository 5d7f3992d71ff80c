"""How a terminal shows evaluations, comparisons and published tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.table import Table
from rich.text import Text

from heldout.cli.show import CURES, console, plain, print_json
from heldout.errors import percent
from heldout.evaluate import (
    ALL,
    CLEAR,
    DEPENDS,
    DIFFER,
    MEAN,
    NOISE,
    SUBSETS,
    UNCLEAR,
    BenchmarkAccuracy,
    Evaluation,
    PairedComparison,
    PairedDifference,
    PublishedStudy,
    RunComparison,
    Suite,
)
from heldout.stats import Interval, Rank

_EXAMPLES = 3  # disagreements printed per scorer and direction; the table keeps all


def print_suites(suites: Mapping[str, Suite], as_json: bool) -> None:
    if as_json:
        return print_json({name: suite.model_dump(mode="json") for name, suite in suites.items()})
    screen = console()
    for name, suite in suites.items():
        screen.print(Text(name, "bold"))
        screen.print(Text(f"  {suite.about}"))
        listed = ", ".join(part.name for part in suite.benchmarks)
        screen.print(
            Text(f"  benchmarks: {listed}\n  prompt: {suite.prompt.splitlines()[0]:.60}\n")
        )
    return None


def print_evaluation(evaluation: Evaluation) -> None:
    for remark in evaluation.remarks:
        console().print(Text(plain(remark), "yellow"))
    for model in evaluation.models:
        _print_model(evaluation, model)
    if evaluation.leaks:
        for labels in evaluation.leaks.values():
            console().print(Text(plain(labels.remark), "dim"))
    if evaluation.ranks:
        console().print()
        _print_ranks(evaluation.ranks, evaluation.accuracies)
    for pair in evaluation.pairs.values():
        _print_pair(pair)


def _print_model(evaluation: Evaluation, model: str) -> None:
    screen = console()
    mine = [accuracy for accuracy in evaluation.accuracies if accuracy.model == model]
    whole = [cell for cell in mine if cell.subset == ALL]
    scorers = list(dict.fromkeys(name for cell in whole for name in cell.counts.get("scorers", {})))
    screen.print(Text(f"\n{plain(model)} on {evaluation.suite}, graded strictly", "bold"))
    heads = ["", "accuracy", "95 % interval", "items", "clusters", "unparsed", "refused", "tokens"]
    table = _table(heads)
    for cell in whole:
        last = cell.benchmark == MEAN
        answered = cell.counts.get("items", cell.n)
        items = f"{cell.n:,}" if answered == cell.n else f"{cell.n:,} of {answered:,}"
        tokens = cell.counts.get("prompt_tokens", 0) + cell.counts.get("reply_tokens", 0)
        name = f"mean of {cell.benchmarks}" if last else plain(cell.benchmark)
        table.add_row(
            name,
            _percent(cell.value),
            _range(cell.interval),
            items,
            f"{cell.clusters:,}",
            f"{cell.counts.get('unparsed', 0):,}",
            f"{cell.counts.get('refused', 0):,}",
            f"{tokens:,}" if tokens else "-",
            style="bold" if last else "",
        )
    screen.print(table)
    if model in evaluation.costs:
        screen.print(Text(f"cost: {evaluation.costs[model]:,.2f}"))
    left = evaluation.dropped.get(model, {})
    if left:
        listed = ", ".join(f"{reason} {count:,}" for reason, count in left.items())
        cure = CURES.get(next(iter(left)))
        screen.print(
            Text(f"left out: {plain(listed)}{f'; cure: {cure}' if cure else ''}", "yellow"),
            soft_wrap=True,
        )
    if any(cell.subset != ALL for cell in mine):
        _print_subsets(mine)
    if scorers:
        _print_scorers(whole, scorers, evaluation.disagreements.filter(pl.col("model") == model))


def _print_subsets(mine: Sequence[BenchmarkAccuracy]) -> None:
    table = _table(["", *(f"{name} items" for name in SUBSETS)])
    by_place = {
        (benchmark_accuracy.benchmark, benchmark_accuracy.subset): benchmark_accuracy
        for benchmark_accuracy in mine
    }
    for name in dict.fromkeys(benchmark_accuracy.benchmark for benchmark_accuracy in mine):
        cells = []
        for subset in SUBSETS:
            cell = by_place.get((name, subset))
            cells.append(
                "-"
                if cell is None
                else f"{_percent(cell.value)} [{_range(cell.interval)}], {cell.n:,}"
            )
        message = plain(name) if name != MEAN else "mean"
        table.add_row(message, *cells, style="bold" if name == MEAN else "")
    console().print()
    console().print(table)


def _print_scorers(
    whole: Sequence[BenchmarkAccuracy], scorers: Sequence[str], disagreements: pl.DataFrame
) -> None:
    screen = console()
    table = _table(["published scorers", "strict", *(f"{name} (differ)" for name in scorers)])
    listed = [
        benchmark_accuracy for benchmark_accuracy in whole if benchmark_accuracy.benchmark != MEAN
    ]
    for cell in listed:
        agreement = cell.counts["scorers"]
        table.add_row(
            plain(cell.benchmark),
            _percent(cell.value),
            *(
                f"{_percent(agreement[name]['accuracy'])} ({agreement[name]['disagree']:,})"
                if name in agreement
                else "-"
                for name in scorers
            ),
        )
    screen.print()
    screen.print(table)
    for name in scorers:
        disagreeing = disagreements.filter(pl.col("scorer") == name)
        for right, title in ((False, "strict grading"), (True, name)):
            rows = disagreeing.filter(pl.col("scorer_right") == right)
            if rows.height:
                what = "reply is" if rows.height == 1 else "replies are"
                beside = f" ({name} says no)" if not right else ""
                screen.print(
                    Text(f"{rows.height:,} {what} right for {title} alone{beside}:", "yellow")
                )
            for row in rows.head(_EXAMPLES).to_dicts():
                where = f"  {row['benchmark']} {row['benchmark_id']}: "
                screen.print(Text(f"{plain(where)}{plain(row['why'])}", "dim"))
            if rows.height > _EXAMPLES:
                rest = rows.height - _EXAMPLES
                screen.print(Text(f"  … and {rest:,} more in tables/disagreements.parquet", "dim"))


def print_comparison(comparison: RunComparison) -> None:
    for remark in comparison.remarks:
        console().print(Text(plain(remark), "yellow"))
    if comparison.ranks:
        _print_ranks(comparison.ranks, comparison.accuracies)
    for pair in comparison.pairs.values():
        _print_pair(pair)


def comparison_json(comparison: RunComparison) -> dict[str, Any]:
    return {
        "accuracies": [accuracy.as_json() for accuracy in comparison.accuracies],
        "ranks": {name: rank._asdict() for name, rank in comparison.ranks.items()},
        "remarks": list(comparison.remarks),
        "comparisons": [
            {
                "first": pair.first,
                "second": pair.second,
                "remarks": list(pair.remarks),
                "differences": [part.as_json() for part in pair.differences],
            }
            for pair in comparison.pairs.values()
        ],
    }


def _print_ranks(ranks: Mapping[str, Rank], listed: Sequence[BenchmarkAccuracy]) -> None:
    table = _table(["rank", "95 % interval", "model", "accuracy", "95 % interval"], left=(2,))
    whole = [
        benchmark_accuracy for benchmark_accuracy in listed if benchmark_accuracy.subset == ALL
    ]
    for name, rank in sorted(ranks.items(), key=lambda pair: pair[1].rank):
        mine = [cell for cell in whole if cell.model == name]
        mean = next((cell for cell in mine if cell.benchmark == MEAN), mine[-1])
        table.add_row(
            str(rank.rank),
            f"{rank.low} – {rank.high}",
            plain(name),
            _percent(mean.value),
            _range(mean.interval),
        )
    console().print(table)


def _print_pair(pair: PairedComparison) -> None:
    screen = console()
    screen.print(Text(f"\n{plain(pair.first)} less {plain(pair.second)}, paired by item", "bold"))
    heads = [
        "",
        "difference",
        "95 % interval",
        "p",
        "p (Holm)",
        "only first",
        "only second",
        "items",
        "clusters",
        "detectable",
    ]
    table = _table(heads)
    for difference in pair.differences:
        last = difference.benchmark == MEAN
        discordant = (
            ["-", "-"]
            if difference.table is None
            else [str(difference.table.first), str(difference.table.second)]
        )
        table.add_row(
            "mean" if last else plain(difference.benchmark),
            _points(difference.value),
            f"{_points(difference.interval.low)} – {_points(difference.interval.high)}",
            _p(difference.p),
            _p(difference.p_adjusted) if difference.family > 1 else "-",
            *discordant,
            f"{difference.n:,}",
            f"{difference.clusters:,}",
            "-" if difference.detectable is None else f"{100 * difference.detectable:.1f}",
            style="bold" if last else "",
        )
    screen.print(table)
    screen.print(Text(_sentence(pair.overall)))
    for remark in pair.remarks:
        screen.print(Text(plain(remark), "yellow"))


def _sentence(difference: PairedDifference) -> str:
    columns = {UNCLEAR: "may differ: the test is significant, but the interval contains 0"}.get(
        difference.reading, difference.reading
    )
    many = (
        f", corrected over {difference.family:,} pairs (Holm) {_p(difference.p_adjusted, sign=True)}"
        if difference.family > 1
        else ""
    )
    message = (
        f"The two {columns} ({_points(difference.value)} points, "
        f"p {_p(difference.p, sign=True)}{many}, {difference.method}); "
    )
    message += (
        "which differences would be found cannot be computed from these data."
        if difference.detectable is None
        else f"differences from {100 * difference.detectable:.1f} points on would be found 4 times out of 5."
    )
    if difference.needed is not None and difference.reading != DIFFER:
        message += (
            f" To find a difference as small as this one, {difference.needed:,} items are needed."
        )
    return message


def print_published(study: PublishedStudy) -> None:
    screen = console()
    screen.print(Text(f"{study.title}\n", "bold"))
    table = _table(["benchmark", "items", "images", "design effect"])
    for benchmark in study.benchmarks:
        images = f"{benchmark.images:,}" if benchmark.images else "-"
        table.add_row(
            plain(benchmark.name), f"{benchmark.items:,}", images, f"{benchmark.design_effect:.2f}"
        )
    screen.print(table)
    for sentence in study.assumptions:
        screen.print(Text(sentence, "dim"))
    table = _table(["row", "mean", "95 % interval", "printed"])
    for name, (value, half) in study.means.items():
        printed = study.printed.get(name)
        ends = f"{100 * (value - half):.2f} – {100 * (value + half):.2f}"
        message = "-" if printed is None else f"{printed:.2f}"
        table.add_row(plain(name), f"{100 * value:.2f}", ends, message)
    screen.print()
    screen.print(table)
    for number, rows in study.by_table().items():
        screen.print(Text(f"\nTable {number}", "bold"))
        table = _table(
            ["difference of means", "points", "independent", "usually paired", "may disagree", ""],
            left=(0, 5),
        )
        for row in rows:
            most = "-" if row.most_disagreement is None else f"{percent(row.most_disagreement, 0)}"
            table.add_row(
                plain(row.label),
                _points(row.value),
                _plus_minus(row.independent),
                _plus_minus(row.usual),
                most,
                Text(row.reading, _COLOURS.get(row.reading, "")),
            )
        screen.print(table)
    counts = study.counts()
    total = sum(counts.values())
    words = {CLEAR: "are clear", DEPENDS: "depend on the pairing", NOISE: "could be noise"}
    listed = ", ".join(f"{count} {words[name]}" for name, count in counts.items())
    screen.print(Text(f"\nOf {total} differences {listed}.", "bold"))
    for remark in study.remarks:
        screen.print(Text(f"- {remark}"))


_COLOURS = {CLEAR: "green", DEPENDS: "yellow", NOISE: "red"}


def _table(heads: Sequence[str], left: Sequence[int] = (0,)) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for place, head in enumerate(heads):
        table.add_column(head, justify="left" if place in left else "right")
    return table


def _percent(value: float) -> str:
    """A share that is not quite 0 or 1 is never printed as 0.0 or 100.0."""
    shown = f"{100 * value:.1f}"
    near = (value > 0 and shown == "0.0") or (value < 1 and shown == "100.0")
    return f"{100 * value:.3f}" if near else shown


def _range(interval: Interval) -> str:
    return f"{_percent(interval.low)} – {_percent(interval.high)}"


def _points(value: float) -> str:
    return f"{round(100 * value, 1) + 0.0:+.1f}"


def _plus_minus(half: float) -> str:
    return f"± {100 * half:.1f}"


def _p(value: float, *, sign: bool = False) -> str:
    if value < 0.001:
        return "< 0.001"
    return f"= {value:.3f}" if sign else f"{value:.3f}"
