"""report.html of an evaluation: accuracies with intervals, published scorers, paired comparisons."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import polars as pl

from heldout.evaluate import ALL, MEAN, SECTION, SUBSETS, Evaluation, read_evaluation
from heldout.report.commands import commands_shown
from heldout.report.environment import templates
from heldout.report.figures import Rate, for_paper, rate_chart
from heldout.report.model_figures import Figure
from heldout.store import Run, write_atomic

_EXAMPLES = 10  # disagreements shown per scorer; the table keeps all


def is_evaluation(run: Run) -> bool:
    return "benchmarks" in run.manifest().get(SECTION, {})


def write_evaluation_report(run: Run) -> Path:
    """``report.html`` and its figures, from the run folder alone; call inside run.writing()."""
    made = read_evaluation(run)
    manifest = run.manifest()
    figures = [_figure(made, model) for model in made.models]
    page: dict[str, Any] = {
        "made": made,
        "about": manifest[SECTION]["suite"]["about"],
        "models": [_model(made, model) for model in made.models],
        "subsets": SUBSETS,
        "figures": figures,
        "pairs": list(made.pairs.values()),
        "ranked": sorted(made.ranks.items(), key=lambda pair: pair[1].rank),
        "mean": {model: made.mean(model) for model in made.models},
        "mean_name": MEAN,
        "recorded": [
            name for name, mine in made.grades.items() if any(one.recorded for one in mine)
        ],
        "disagreements": _disagreements(made),
        "scored": any(one.counts.get("scorers") for one in made.accuracies),
        "manifest_text": json.dumps(manifest, indent=1, ensure_ascii=False),
        "commands": [shlex.join(one) for one in commands_shown(manifest["commands"])],
        "scripts": [],
    }
    shutil.rmtree(run.path / "figures", ignore_errors=True)
    for figure in figures:
        write_atomic(run.path / "figures" / f"{figure.name}.svg", for_paper(figure.drawn))
    path = run.path / "report.html"
    write_atomic(path, templates().get_template("evaluation.html.j2").render(page))
    return path


def _model(made: Evaluation, model: str) -> dict[str, Any]:
    mine = [one for one in made.accuracies if one.model == model]
    whole = [one for one in mine if one.subset == ALL]
    scorers = list(dict.fromkeys(name for one in whole for name in one.counts.get("scorers", {})))
    apart = {(one.benchmark, one.subset): one for one in mine}
    return {
        "name": model,
        "rows": whole,
        "scorers": scorers,
        "apart": apart,
        "split": any(one.subset != ALL for one in mine),
        "cost": made.costs.get(model),
        "dropped": made.dropped.get(model, {}),
        "tokens": any(one.counts["prompt_tokens"] for one in whole),
    }


def _figure(made: Evaluation, model: str) -> Figure:
    mine = [one for one in made.accuracies if one.model == model]
    several = any(one.subset != ALL for one in mine)
    rates = [
        Rate(
            one.benchmark if one.benchmark != MEAN else f"mean of {one.benchmarks}",
            one.value,
            one.interval.low,
            one.interval.high,
            f"{one.subset} items" if several else "",
        )
        for one in mine
    ]
    number = list(made.models).index(model) + 1
    drawn = rate_chart(rates, title=model, label="accuracy with 95 % interval by image")
    return Figure(f"accuracy-{number}", drawn, "")


def _disagreements(made: Evaluation) -> list[dict[str, Any]]:
    """By scorer: how many replies differ, which way, and the first of them."""
    found = []
    for (scorer,), rows in made.disagreements.group_by(["scorer"], maintain_order=True):
        loose = int(rows["scorer_right"].sum())
        found.append(
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
    return found
