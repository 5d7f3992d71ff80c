"""How much a score owes to leaks, in sentences and rows: all items, clean ones, leaked ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from heldout.detect import LABELLED, kept_studies
from heldout.errors import counted, percent
from heldout.evidence import kept_leak_labels
from heldout.stats import kendall_tau_b
from heldout.store import Run
from heldout.verdict import ACCURACY, CLEAN, correct_scores

LACKING = (
    "Not known: no model's answers to this benchmark are recorded. heldout ask records them into this run "
    "folder; predictions you already have go through heldout impact PREDICTIONS --run RUN."
)
UNSEARCHED = (
    "Not known: answers are recorded, but no corpus was searched, so it is not known which items leaked. "
    "heldout overlap into this run folder finds out."
)
# In place of a score on clean items.
NOT_CLEAN = {"value": "–", "around": "has seen it", "items": None}


def lacking(run: Run) -> str:
    """Why scores are not compared."""
    recorded = bool(run.manifest().get("models")) and run.table_path("answers").exists()
    return UNSEARCHED if recorded and not _leaks_known(run) else LACKING


def _leaks_known(run: Run) -> bool:
    return run.table_path("matches").exists() or kept_leak_labels(run) is not None


def corrected_of(run: Run) -> Mapping[str, Any]:
    """As an audit left it, or made now from what the run holds."""
    if (run.path / "corrected.json").exists():
        record: Mapping[str, Any] = run.read_json("corrected.json")
        return record
    manifest = run.manifest()
    models = sorted(manifest.get("models", {}))
    if not models or not _leaks_known(run):
        return {"models": [], "rankings": []}
    return correct_scores(run, models, seed=manifest["seed"]).as_json()


def owed_sentences(
    corrected: Mapping[str, Mapping[str, Any]],
    searched: bool = True,
    verdicts: Mapping[tuple[str, str], str] | None = None,
) -> list[dict[str, str]]:
    """One per model with answers; empty where nothing is recorded. Models that have seen the benchmark come
    first, comparison models last, and among equals the largest difference.

    ``searched``: whether a corpus was searched, without which it is not known which items leaked. ``verdicts``:
    status by
    benchmark and model, of the models under test.
    """
    several = len(corrected) > 1
    sentences = []
    statuses = verdicts or {}
    for benchmark, record in corrected.items():
        for model in record.get("models", []):
            if model["metric"] == ACCURACY:
                where = f"{model['model']} on {benchmark}" if several else str(model["model"])
                status = statuses.get((benchmark, model["model"]))
                points, sentence = _sentence(where, model, searched, status == "survives")
                rank = 0 if status == "survives" else 2 if statuses and status is None else 1
                sentences.append((rank, -abs(points), sentence))
    sentences.sort(key=lambda entry: entry[:2])
    return [sentence for *_, sentence in sentences]


def have_seen(cells: Sequence[Mapping[str, Any]], benchmark: str) -> frozenset[str]:
    """Models that have seen ``benchmark``: what did not leak into a corpus is not clean for them."""
    return frozenset(
        cell["model"]
        for cell in cells
        if cell["benchmark"] == benchmark
        and cell["model"] is not None
        and cell["status"] == "survives"
        and " & " not in cell["model"]
    )


def score_rows(corrected: Mapping[str, Any], seen: Collection[str] = ()) -> list[dict[str, Any]]:
    """Rows of the table: one per model and metric, with the subsets that have items side by side.

    Models that have ``seen`` the benchmark have no clean score, and no difference to one.
    """
    return [
        {
            "model": model["model"],
            "metric": model["metric"],
            "items": model["items"],
            "subsets": {
                line["subset"]: NOT_CLEAN
                if model["model"] in seen and line["subset"] == "non-leaked"
                else _shown(line, model["metric"])
                for line in model["lines"]
                if line["items"]
            },
            "owed": None if model["model"] in seen else _owed(model),
        }
        for model in corrected.get("models", [])
    ]


def rankings_without(
    rankings: Sequence[Mapping[str, Any]], seen: Collection[str | None]
) -> list[dict[str, Any]]:
    """Rankings in which models that have ``seen`` the benchmark have no rank on clean items; how far the two
    orders agree (``tau_b``) is of the ``compared`` others."""
    return [
        {
            **ranking,
            **_agreement([r for model, r in ranking["ranks"].items() if model not in seen]),
            "ranks": {
                model: {
                    name: rank for name, rank in ranks.items() if name != CLEAN or model not in seen
                }
                for model, ranks in ranking["ranks"].items()
            },
        }
        for ranking in rankings
    ]


def _agreement(ranks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    both = [record for record in ranks if CLEAN in record]
    orders = [[record[name]["rank"] for record in both] for name in ("full", CLEAN)]
    return {"compared": len(both), "tau_b": kendall_tau_b(*orders) if len(both) > 1 else None}


def _sentence(
    where: str, model: Mapping[str, Any], searched: bool, seen: bool
) -> tuple[float, dict[str, str]]:
    lines = {line["subset"]: line for line in model["lines"]}
    full, clean = lines["original"], lines.get("non-leaked", {"value": None})
    if seen:
        message = (
            f"{percent(full['value'])} on all items; tests say that it has seen the benchmark, so no part "
            "of it is clean for this model."
        )
        return 0.0, {"model": where, "points": "", "sentence": message, "sure": ""}
    leaked = lines.get("leaked", {"items": 0})
    if not leaked["items"]:
        leaks = "none of them leaked" if searched else "no corpus was searched for leaked ones"
        message = f"{percent(full['value'])} on all items; {leaks}."
        return 0.0, {"model": where, "points": "", "sentence": message, "sure": ""}
    if clean["value"] is None:
        message = (
            f"{percent(full['value'])} on all items; no item is clean, so nothing can be compared."
        )
        return 0.0, {"model": where, "points": "", "sentence": message, "sure": ""}
    together, where_from = full["value"], "all items"
    if model["owed"]:
        # The difference that is tested: undecided items are on neither side of it.
        owed = model["owed"][0]
        together = clean["value"] + owed["value"]
        if owed["compared"] < full["items"]:
            where_from = f"the {owed['compared']:,} items that are leaked or clean"
    points = 100 * (together - clean["value"])
    clean_items = counted(clean["items"], "clean item", "clean items")
    message = f"{percent(together)} on {where_from}, {percent(clean['value'])} on the {clean_items}"
    brief = f"{where} scores {percent(together)} with leaked items and {percent(clean['value'])} without"
    if model["owed"] and (around := _difference(model["owed"][0], rate=True)[1]):
        message += f"; 95 % interval of the difference {around}"
        brief += f"; 95 % interval {around}: {_chance(model['owed'][0]['p_adjusted'])}"
    trust = ""
    if leaked.get("leakage") == LABELLED:
        trust = " (leaked by labels made elsewhere, not verified)"
    elif LABELLED in leaked.get("leakage", ""):
        trust = " (leaked by the search or by labels made elsewhere)"
    return points, {
        "model": where,
        "points": signed(points) + " points",
        "sentence": message + trust,
        "sure": _sure(model),
        "brief": brief + trust,
    }


def _chance(p: float | None) -> str:
    if p is None:
        return "too few groups to tell"
    return "beyond chance" if p <= 0.05 else "may be chance"


def _sure(model: Mapping[str, Any]) -> str:
    if not model["owed"]:
        return ""
    p = model["owed"][0]["p_adjusted"]
    if p is None:
        return "too few groups of items that share a picture to say whether leaked ones are easier for it"
    return (
        "leaked items are easier for it than clean ones, beyond chance"
        if p <= 0.05 and model["owed"][0]["value"] > 0
        else "leaked items are harder for it than clean ones, beyond chance"
        if p <= 0.05
        else "the difference may be chance"
    )


def _shown(line: Mapping[str, Any], metric: str) -> dict[str, Any]:
    value, interval = line["value"], line["interval"]
    tell = percent if metric == ACCURACY else _plain
    message = "–" if value is None else tell(value)
    around = f"{tell(interval['low'])} – {tell(interval['high'])}" if interval else ""
    if line.get("sd") is not None:
        around = f"± {tell(line['sd'])} over draws"
    return {"value": message, "around": around, "items": line["items"]}


def _owed(model: Mapping[str, Any]) -> dict[str, Any] | None:
    if not model["owed"]:
        return None
    owed = model["owed"][0]
    value, around = _difference(owed, rate=model["metric"] == ACCURACY)
    return {"value": value, "around": around, "p": owed["p_adjusted"]}


def _difference(owed: Mapping[str, Any], *, rate: bool) -> tuple[str, str]:
    """A difference and its interval, "" where there is none; rates in points."""

    def tell(value: float) -> str:
        return signed(100 * value) if rate else signed(value, 3)

    interval = owed["interval"]
    around = f"{tell(interval['low'])} to {tell(interval['high'])}" if interval else ""
    return tell(owed["value"]) + (" points" if rate else ""), around


def signed(value: float, digits: int = 1) -> str:
    """The number with a sign; plus and minus are equally wide."""
    return f"{value:+.{digits}f}".replace("-", "−")


def _plain(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")


# The report's section on scores: the differences of every impact study the run folder holds.


def impact_rows(run: Run) -> list[dict[str, Any]]:
    """One per difference, with the file that holds it."""
    rows = [
        {"file": name, "model": impact["model"], **owed}
        for name, study in kept_studies(run)
        for impact in study["impacts"]
        for owed in impact["owed"]
    ]
    for row in rows:
        rate = row["measure"] == ACCURACY or row["measure"].startswith(("R@", "top-"))
        row["shown"], row["around"] = _difference(row, rate=rate)
    return rows


def impact_remarks(run: Run) -> list[dict[str, Any]]:
    """Remarks on the files behind the differences: labels made elsewhere, grades that disagree, empty
    predictions."""
    remarks = []
    for name, study in kept_studies(run):
        labels = study.get("labels")
        if labels is not None:
            message = f"{labels['note']} ({labels['source']}, sha256 {labels['sha256'][:12]})"
            remarks.append({"file": name, "model": "", "sentence": message})
        for model, sentences in study.get("remarks", {}).items():
            remarks += [
                {"file": name, "model": model, "sentence": sentence} for sentence in sentences
            ]
    return remarks
