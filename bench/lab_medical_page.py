"""The page of the lab's medical tier, from the leaderboard's rows and the list of models.

    python bench/lab_medical_page.py --board BOARD --runs RUNS --folder P --docs docs     # also stores both
    python bench/lab_medical_page.py --docs docs                                          # from what is stored

BOARD is what `heldout lab power RUNS --out BOARD` wrote; RUNS and P are of `bench/lab_medical.py`. What is stored of
other bases stays: bases of one training are each other's references. ``--orders``: what `bench/lab_medical.py orders`
printed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import polars as pl

from heldout.detect import detectors
from heldout.lab.power.board import fired
from heldout.lab.power.models import CLEAN, CONTAMINATED, OTHER_SEEDS, RAW
from heldout.store import write_atomic

ROWS, FACTS, PAGE = "data/lab-medical.parquet", "data/lab-medical.json", "lab-medical.md"
SLAKE, VQA_RAD = "slake-en", "vqa-rad"
COLUMNS = (
    *("benchmark", "detector", "way", "model", "base", "arm", "role", "dose", "split"),
    *("references", "effect", "low", "high", "p", "direction", "n", "item_auc", "blind_auc"),
)
KINDS = {
    "d1": "items and running text, dose 1",
    "d2": "the same, dose 2",
    "d3": "the same, dose 3",
    "d5": "the same, dose 5",
    "d10": "the same, dose 10",
    "half-d1": "half of the pictures, dose 1",
    "half-d3": "half of the pictures, dose 3",
    "half-d10": "half of the pictures, dose 10",
    "running-d1": "running text alone, dose 1",
    "running-d3": "running text alone, dose 3",
    "items-d3": "items alone, dose 3",
    "shuffled-d3": "in another order, dose 3",
    "paraphrased-d3": "reworded, dose 3",
    "paraphrased-d10": "reworded, dose 10",
    "language-d3": "language model alone trained, dose 3",
    "lora-d3": "LoRA, dose 3",
    "lora-d10": "LoRA, dose 10",
    "pretrain-d3": "at the end of the base's own training, dose 3",
    "rad-d3": "VQA-RAD instead of SLAKE, dose 3",
    "rad-half-d10": "half of VQA-RAD's pictures, dose 10",
    "rad-d10": "VQA-RAD instead of SLAKE, dose 10",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--board", type=Path)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--orders", type=Path)
    args = parser.parse_args()
    if args.board is not None:
        store(args)
    rows = pl.read_parquet(args.docs / ROWS)
    facts = json.loads((args.docs / FACTS).read_text())
    write_atomic(args.docs / PAGE, "\n".join(page(rows, facts)) + "\n")
    print(args.docs / PAGE)


def store(args: Any) -> None:
    cells = sorted((args.board / "cells").glob("*/*.parquet"))  # of one or several commands
    rows = pl.concat([pl.read_parquet(path) for path in cells]).select(COLUMNS)
    known = json.loads((args.docs / FACTS).read_text()) if (args.docs / FACTS).exists() else {}
    if (args.docs / ROWS).exists():
        earlier = pl.read_parquet(args.docs / ROWS)
        others = ~pl.col("base").is_in(rows["base"].unique().to_list())
        rows = pl.concat([earlier.filter(others), rows.cast(earlier.schema)])
    rows.write_parquet(args.docs / ROWS, compression="zstd", compression_level=19)
    models = []
    for record in json.loads((args.runs / "models.json").read_text()):
        cells = record["accuracy"].items()
        models.append(
            {
                "name": record["name"],
                "base": record["base"] if isinstance(record["base"], str) else record["name"],
                "contamination": record.get("contamination"),
                "steps": record.get("steps"),
                "exact": {name: {v: c["all"] for v, c in cell.items()} for name, cell in cells},
            }
        )
    weights = json.loads((args.folder / "weights.json").read_text())
    counts = json.loads((args.folder / "counts.json").read_text())
    trained = {record["name"] for record in models}
    models = [*(r for r in known.get("models", []) if r["name"] not in trained), *models]
    orders = args.orders.read_text().splitlines() if args.orders else known.get("orders", [])
    facts = {"weights": weights, "counts": counts, "models": models, "orders": orders}
    (args.docs / FACTS).write_text(json.dumps(facts) + "\n")


def page(rows: pl.DataFrame, facts: dict[str, Any]) -> Iterator[str]:
    yield "# The lab's medical tier: pretrained parts, real pictures"
    yield ""
    yield (
        "<!-- Written by bench/lab_medical_page.py. Do not edit: change the script and run it again. -->"
    )
    yield ""
    yield from _intro(facts)
    yield from _accuracy(facts)
    here = rows.filter(pl.col("benchmark") == SLAKE)
    yield "## Which test fires on which arm"
    yield ""
    yield from _fires(here, facts)
    yield from _membership(here)
    yield from _order(here)
    yield from _ordered(facts)
    there = rows.filter(pl.col("benchmark") == VQA_RAD)
    yield "## VQA-RAD"
    yield ""
    yield (
        "The resplit has neither options nor twins, so that only tests of scores, of order and of fresh against "
        "released items can be made."
    )
    yield ""
    yield from _fires(there, facts)
    yield from _membership(there)
    yield from _answers(here)
    yield from _limits(rows, facts)


def _arm(record: dict[str, Any]) -> str:
    return str(record["name"]).partition("-")[2] or "base"


def _is_clean(arm: str) -> bool:
    return arm == "base" or arm.startswith("clean") or arm.endswith("-clean")


def _intro(facts: dict[str, Any]) -> Iterator[str]:
    models, counts = facts["models"], facts["counts"]
    arms = [_arm(record) for record in models]
    bases = sum(arm == "base" for arm in arms)
    clean = sum(_is_clean(arm) for arm in arms) - bases
    planted = len(arms) - bases - clean
    yield (
        "The [lab's](lab.md) standing grid is of models of 3.3 million weights, trained from scratch. This tier is "
        f"of models of {facts['weights'] / 1e6:.1f} million: SmolLM2-135M-Instruct (Apache-2.0, a GGUF of four bits, "
        "dequantised), frozen features of EfficientNet-lite0 (ImageNet, 7 × 7 places), and a projector between "
        f"them. Trained and read on one H200: **{bases} bases, {clean} clean arms, {planted} contaminated arms**. "
        "Bases differ in the projector's start and in what they read when; all start from one language model, so that "
        "they are less independent than models of different makers."
    )
    yield ""
    yield (
        f"Bases are trained on {counts[f'{SLAKE} training items']:,} items of SLAKE-En's training split and "
        f"{counts['vqa-rad training items']:,} of VQA-RAD. VQA-RAD is split again by case, copies of a picture on one "
        f"side: {counts['vqa-rad tested items']} items of {counts['vqa-rad tested pictures']} pictures are tested and "
        "no training picture is byte for byte a tested one. Arms go on from a base for as long as the leak takes, "
        "mixed half and half with training data; clean arms for 120 steps. The picture network is frozen everywhere: "
        "*full* means language model and projector. What is read goes the way of the standing grid: the product's own "
        "prompts as a sheet, `heldout lab power` over its run folders."
    )
    yield ""
    yield (
        "A question that SLAKE's training split asks at least five times with two to four different answers has "
        "those answers as options, in a drawn order; all others are open. Rewordings are by rule. Running text begins "
        "at another picture at every exposure and is cut every 512 tokens, the order tests' documents elsewhere (640)."
    )
    yield ""
    yield "## Twins of real pictures"
    yield ""
    yield (
        "The rule was fixed before any model was read. A twin is a picture of SLAKE's validation split, which is "
        "neither trained on nor tested, that is asked the same question and has another answer; or the mirrored "
        "picture where the answer names a side and the question does not. Of a question with up to six answers, "
        "twins are left out until each answer is as often new as old. Of "
        f"{counts['items']:,} items {counts['possible']} have such a picture and **{counts['fair']} are fair by this "
        f"rule** ({counts['choice']} with options, {counts['mirrored']} mirrored). No person has looked at them."
    )
    yield ""
    yield "```"
    yield "python bench/lab_medical.py prepare … && python bench/lab_medical.py train …   # see its help"
    yield "python bench/lab_medical.py tables --folder P --readings O --out RUNS"
    yield "heldout lab power RUNS --out BOARD --permutations 199 --way raw   # and others: --detector, --way"
    yield "python bench/lab_medical_page.py --board BOARD --runs RUNS --folder P --docs docs"
    yield "```"
    yield ""


def _accuracy(facts: dict[str, Any]) -> Iterator[str]:
    yield "## What the models answer"
    yield ""
    yield "Share of exact replies on SLAKE-En's test split, as means over bases: all models that were trained."
    yield ""
    yield "| arm | models | original | twin | without the picture |"
    yield "|---|--:|--:|--:|--:|"
    kinds: dict[str, list[dict[str, Any]]] = {}
    for record in facts["models"]:
        if SLAKE in record["exact"]:
            arm = _arm(record)
            kinds.setdefault("clean" if arm.startswith("clean") else arm, []).append(record)
    order = ["base", "clean", *KINDS]
    for arm in sorted(kinds, key=lambda a: order.index(a) if a in order else len(order)):
        cells = [record["exact"][SLAKE] for record in kinds[arm]]
        shown = " | ".join(
            f"{fmean(cell[variant][0] for cell in cells):.3f}"
            for variant in ("original", "twin", "no-image")
        )
        yield f"| {KINDS.get(arm, arm)} | {len(cells)} | {shown} |"
    yield ""


def _own(rows: pl.DataFrame) -> pl.DataFrame:
    """Contaminated models on what they saw: not on the halves of others."""
    return rows.filter(
        (pl.col("role") == CONTAMINATED)
        & ((pl.col("split") == "") | (pl.col("split") == pl.col("model")))
    )


def _present(rows: pl.DataFrame) -> list[str]:
    arms = set(_own(rows)["arm"])
    return [arm for arm in KINDS if arm in arms]


def _fires(rows: pl.DataFrame, facts: dict[str, Any]) -> Iterator[str]:
    yield (
        "Models on which the test fires towards memory at .05, of those tested. *other seeds*: compared with clean "
        "arms of other bases of the same training (0 to 7, and later 8 on), two of each; more than in every one of "
        "them for scores. Clean: bases and clean arms, with an interval that counts models of one base as hardly "
        "more than one; membership tests clean models on every half."
    )
    yield ""
    tested = rows.filter(pl.col("role").is_in([CLEAN, CONTAMINATED]))
    yield (
        f"{tested['model'].n_unique()} of the {len(facts['models'])} models have been tested, of "
        f"{tested['base'].n_unique()} bases."
    )
    yield ""
    arms = _present(rows)
    yield f"| test | way | {' | '.join(arms)} | clean |"
    yield "|---|---|" + "--:|" * (len(arms) + 1)
    for name in rows["detector"].unique(maintain_order=True):
        for way in (RAW, OTHER_SEEDS):
            cells = rows.filter((pl.col("detector") == name) & (pl.col("way") == way))
            own = _own(cells).filter(pl.col("p").is_not_null())
            if own.is_empty():
                continue
            counts = []
            for arm in arms:
                share = fired(own.filter(pl.col("arm") == arm))
                counts.append(f"{share.hits}/{share.n}" if share.n else "–")
            clean = fired(cells.filter(pl.col("role") == CLEAN))
            yield f"| {name} | {way} | {' | '.join(counts)} | {clean} |"
    yield ""
    for arm in arms:
        yield f"- `{arm}`: {KINDS[arm]}"
    yield ""


def _membership(rows: pl.DataFrame) -> Iterator[str]:
    yield "### Membership: the seen half against the other"
    yield ""
    members = [
        name
        for name in rows["detector"].unique(maintain_order=True)
        if name in detectors() and detectors()[name].kind == "membership"
    ]
    own = _own(rows).filter((pl.col("way") == RAW) & (pl.col("split") != ""))
    doses = sorted(own["dose"].unique().to_list())
    if not doses:
        yield "No arm that saw half of the pictures was trained."
        yield ""
        return
    yield (
        "Area under the curve of item scores, mean over bases (lowest to highest); clean models on the same halves."
    )
    yield ""
    yield f"| test | {' | '.join(f'dose {dose}' for dose in doses)} | clean |"
    yield "|---|" + "--:|" * (len(doses) + 1)
    clean = rows.filter(
        (pl.col("way") == RAW) & (pl.col("role") == CLEAN) & (pl.col("split") != "")
    )
    for name in members:
        cells = [
            own.filter((pl.col("detector") == name) & (pl.col("dose") == dose))["item_auc"]
            for dose in doses
        ]
        cells.append(clean.filter(pl.col("detector") == name)["item_auc"])
        shown = [_range(cell.drop_nulls().to_list(), 3) for cell in cells]
        if any(value != "–" for value in shown):
            yield f"| {name} | {' | '.join(shown)} |"
    yield ""


def _order(rows: pl.DataFrame) -> Iterator[str]:
    yield "## Order"
    yield ""
    yield "Effect in the test's own unit, mean over models (lowest to highest), and the median p of the test by itself."
    yield ""
    yield "| arm | test | models | effect | median p | fires | less other seeds |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    tests = ("order-joint", "order-neighbour", "order-trend")
    for arm in ("clean", *_present(rows)):
        for name in tests:
            part = rows.filter((pl.col("detector") == name) & pl.col("p").is_not_null())
            wanted = (
                (pl.col("role") == CLEAN)
                if arm == "clean"
                else (pl.col("arm") == arm) & (pl.col("role") == CONTAMINATED)
            )
            raw = part.filter(wanted & (pl.col("way") == RAW))
            less = part.filter(wanted & (pl.col("way") == OTHER_SEEDS))
            if raw.is_empty():
                continue
            share, other = fired(raw), fired(less)
            yield (
                f"| {arm} | {name} | {len(raw)} | {_range(raw['effect'].to_list(), 2)} | "
                f"{median(raw['p'].to_list()):.2g} | {share.hits}/{share.n} | {other.hits}/{other.n} |"
            )
    yield ""
    off = [
        name
        for name in tests
        if fired(
            rows.filter(
                (pl.col("detector") == name) & (pl.col("way") == RAW) & (pl.col("role") == CLEAN)
            )
        ).off
    ]
    if off:
        yield (
            f"By itself {' and '.join(off)} fires on clean models: questions about one picture follow each other in a "
            "fixed rhythm, and any model that has learnt such texts expects the next one. Only the difference to clean "
            "models says something."
        )
        yield ""


def _ordered(facts: dict[str, Any]) -> Iterator[str]:
    if not facts.get("orders"):
        return
    yield "## Documents whose items are shuffled"
    yield ""
    yield (
        "A prototype of this tier found running text at dose 1 by an order test (p = 1e-18 against zero, clean arms .2 "
        "to .9), and order-joint does not. Two things differ. order-joint shuffles whole pictures, and the "
        "prototype shuffled the items of documents of eight; and the prototype's base had read its training split in "
        "shuffled order, ours as it is released. `python bench/lab_medical.py orders` makes the prototype's test on "
        "these models (documents of eight items less ten shuffles of their items, t over documents):"
    )
    yield ""
    yield from facts["orders"]
    yield ""
    yield (
        "Every clean model prefers the released order, because SLAKE's training split asks its questions in the same "
        "rhythm and bases have read it so. Above clean arms there is nothing at dose 1, wherever documents are cut, "
        "and a gain that grows from dose 2 on; text in another order lowers it. A test against zero says nothing on "
        "such models."
    )
    yield ""


def _answers(rows: pl.DataFrame) -> Iterator[str]:
    yield "## Answers to the questions"
    yield ""
    yield "*At which dose does each test first fire?* The lowest dose at which at least four of five models fire:"
    yield ""
    for name in rows["detector"].unique(maintain_order=True):
        shown = []
        for way in (RAW, OTHER_SEEDS):
            cells = rows.filter(
                (pl.col("detector") == name) & (pl.col("way") == way) & pl.col("p").is_not_null()
            )
            own = _own(cells)
            whole = own.filter(pl.col("arm").str.contains(r"^d\d+$"))
            if whole.is_empty():
                whole = own.filter(pl.col("arm").str.contains(r"^half-d\d+$"))
            if whole.is_empty():
                continue
            first = next(
                (
                    f"{dose} ({share.hits} of {share.n})"
                    for dose in sorted(whole["dose"].unique().to_list())
                    for share in [fired(whole.filter(pl.col("dose") == dose))]
                    if share.value >= 0.8
                ),
                "none",
            )
            off = ", but off: fires on too many clean models"
            shown.append(
                f"{way} {first}{off if fired(cells.filter(pl.col('role') == CLEAN)).off else ''}"
            )
        if shown:
            yield f"- {name}: {'; '.join(shown)}"
    yield ""
    for title, arm in (
        ("LoRA", "lora-d3"),
        ("rewording", "paraphrased-d3"),
        ("items alone", "items-d3"),
    ):
        yield f"*Which tests see {title}, dose 3?* {_seen(rows, arm)}"
        yield ""


def _seen(rows: pl.DataFrame, arm: str) -> str:
    own = _own(rows).filter((pl.col("arm") == arm) & pl.col("p").is_not_null())
    if own.is_empty():
        return "No such arm has been tested."
    shown = []
    for (name, way), cells in own.group_by(["detector", "way"], maintain_order=True):
        share = fired(cells)
        same = (pl.col("detector") == name) & (pl.col("way") == way)
        clean = fired(rows.filter(same & (pl.col("role") == CLEAN)))
        if way in (RAW, OTHER_SEEDS) and share.value > 0.5 and not clean.off:
            shown.append(f"{name} ({way}: {share.hits} of {share.n})")
    return f"More than half of {own['model'].n_unique()} models: {', '.join(shown) or 'none'}."


def _limits(rows: pl.DataFrame, facts: dict[str, Any]) -> Iterator[str]:
    names = [record["name"] for record in facts["models"]]
    kinds = {arm: sum(name.partition("-")[2] == arm for name in names) for arm in KINDS}
    yield "## What is missing"
    yield ""
    most = max(rows.filter(pl.col("way") == OTHER_SEEDS)["references"].to_list(), default=0)
    absent = [f"`{arm}`" for arm, count in kinds.items() if not count]
    few = [f"`{arm}` ({count})" for arm, count in kinds.items() if 0 < count < 6]
    if absent:
        yield f"- Planned and not trained: {', '.join(absent)}."
    if few:
        yield f"- Trained on fewer than six bases: {', '.join(few)}."
    yield "- One language model and one picture network; a model of another maker may differ more than these bases do."
    yield (
        f"- *Other seeds* asks for more than in every reference, up to {most} here, and is careful: a test can "
        "fire by itself, on no clean model, and still not there."
    )
    yield "- Readings are in bfloat16 with logits in float32."
    yield ""


def _range(values: Sequence[float], digits: int) -> str:
    if not values:
        return "–"
    return f"{fmean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    main()
