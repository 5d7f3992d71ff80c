"""report.html of an evaluation: accuracies with intervals, published scorers, paired comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl

from heldout.evaluate import ALL, MEAN, SECTION, SUBSETS, Evaluation, read_evaluation
from heldout.report._models import Figure
from heldout.report._reproduce import commands_shown, manifest_shown, templates
from heldout.report.figures import RateBar, for_paper, rate_chart
from heldout.store import Run, write_atomic

_EXAMPLES = 10  # disagreements shown per scorer; the table keeps all


def is_evaluation(run: Run) -> bool:
    return "benchmarks" in run.manifest().get(SECTION, {})


def write_evaluation_report(run: Run) -> Path:
    """``report.html`` and its figures, from the run folder alone; call inside run.writing()."""
    evaluation = read_evaluation(run)
    manifest = run.manifest()
    figures = [_figure(evaluation, model) for model in evaluation.models]
    page: dict[str, Any] = {
        "made": evaluation,
        "about": manifest[SECTION]["suite"]["about"],
        "models": [_model(evaluation, model) for model in evaluation.models],
        "subsets": SUBSETS,
        "figures": figures,
        "pairs": list(evaluation.pairs.values()),
        "ranked": sorted(evaluation.ranks.items(), key=lambda pair: pair[1].rank),
        "mean": {model: evaluation.mean(model) for model in evaluation.models},
        "mean_name": MEAN,
        "recorded": [
            name
            for name, mine in evaluation.grades.items()
            if any(item_grades.recorded for item_grades in mine)
        ],
        "disagreements": _disagreements(evaluation),
        "scored": any(accuracy.counts.get("scorers") for accuracy in evaluation.accuracies),
        "manifest_text": manifest_shown(manifest),
        "commands": commands_shown(manifest["commands"]),
        "scripts": [],
    }
    run.remove("figures")
    for figure in figures:
        write_atomic(run.path / "figures" / f"{figure.name}.svg", for_paper(figure.drawn))
    path = run.path / "report.html"
    write_atomic(path, templates().get_template("evaluation.html.j2").render(page))
    return path


def _model(evaluation: Evaluation, model: str) -> dict[str, Any]:
    mine = [accuracy for accuracy in evaluation.accuracies if accuracy.model == model]
    whole = [benchmark_accuracy for benchmark_accuracy in mine if benchmark_accuracy.subset == ALL]
    scorers = list(
        dict.fromkeys(
            name
            for benchmark_accuracy in whole
            for name in benchmark_accuracy.counts.get("scorers", {})
        )
    )
    apart = {
        (benchmark_accuracy.benchmark, benchmark_accuracy.subset): benchmark_accuracy
        for benchmark_accuracy in mine
    }
    return {
        "name": model,
        "rows": whole,
        "scorers": scorers,
        "apart": apart,
        "split": any(benchmark_accuracy.subset != ALL for benchmark_accuracy in mine),
        "cost": evaluation.costs.get(model),
        "dropped": evaluation.dropped.get(model, {}),
        "tokens": any(benchmark_accuracy.counts["prompt_tokens"] for benchmark_accuracy in whole),
    }


def _figure(evaluation: Evaluation, model: str) -> Figure:
    mine = [accuracy for accuracy in evaluation.accuracies if accuracy.model == model]
    several = any(benchmark_accuracy.subset != ALL for benchmark_accuracy in mine)
    rates = [
        RateBar(
            benchmark_accuracy.benchmark
            if benchmark_accuracy.benchmark != MEAN
            else f"mean of {benchmark_accuracy.benchmarks}",
            benchmark_accuracy.value,
            benchmark_accuracy.interval.low,
            benchmark_accuracy.interval.high,
            f"{benchmark_accuracy.subset} items" if several else "",
        )
        for benchmark_accuracy in mine
    ]
    number = list(evaluation.models).index(model) + 1
    drawn = rate_chart(rates, title=model, label="accuracy with 95 % interval by image")
    return Figure(f"accuracy-{number}", drawn, "")


def _disagreements(evaluation: Evaluation) -> list[dict[str, Any]]:
    """By scorer: how many replies differ, which way, and the first of them."""
    disagreements = []
    for (scorer,), rows in evaluation.disagreements.group_by(["scorer"], maintain_order=True):
        loose = int(rows["scorer_right"].sum())
        disagreements.append(
            {
                "scorer": scorer,
                "strict": rows.height - loose,
                "loose": loose,
                "rows": pl.concat(
                    [
                        rows.filter(~pl.col("scorer_right")).head(_EXAMPLES // 2),
                        rows.filter(pl.col("scorer_right")).head(_EXAMPLES // 2),
                    ]
                ).to_dicts(),
            }
        )
    return disagreements
