"""The stored data of the lab's medical tier, and the lines of its page.

    python bench/lab_medical_page.py --board BOARD --runs RUNS --folder P     # stores
    python bench/measured.py lab-medical                                      # writes the page from what is stored

BOARD is what `heldout lab power RUNS --out BOARD` wrote; RUNS and P are of `bench/lab_medical.py`. What is stored of
other bases stays: bases of one training are each other's references.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import polars as pl

from heldout.detect import detectors
from heldout.lab.power.board import fired
from heldout.lab.power.models import CLEAN, CONTAMINATED, OTHER_SEEDS, RAW

ROWS, FACTS = "data/lab-medical.parquet", "data/lab-medical.json"
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
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--docs", type=Path, default=Path(__file__).resolve().parents[1] / "docs")
    parser.add_argument("--board", type=Path, required=True)
    parser.add_argument("--runs", type=Path, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    store(parser.parse_args())


def store(args: Any) -> None:
    cells = sorted((args.board / "cells").glob("*/*.parquet"))  # of one or several commands
    rows = pl.concat([pl.read_parquet(path) for path in cells]).select(COLUMNS)
    known = json.loads((args.docs / FACTS).read_text()) if (args.docs / FACTS).exists() else {}
    if (args.docs / ROWS).exists():
        earlier = pl.read_parquet(args.docs / ROWS)
        others = ~pl.col("base").is_in(rows["base"].unique().to_list())
        rows = pl.concat([earlier.filter(others), rows.cast(earlier.schema)])
    rows.write_parquet(args.docs / ROWS, compression="zstd", compression_level=19)
    models = [record["name"] for record in json.loads((args.runs / "models.json").read_text())]
    weights = json.loads((args.folder / "weights.json").read_text())
    counts = json.loads((args.folder / "counts.json").read_text())
    models = [*(name for name in known.get("models", []) if name not in models), *models]
    facts = {"weights": weights, "counts": counts, "models": models}
    (args.docs / FACTS).write_text(json.dumps(facts) + "\n")


def page(rows: pl.DataFrame, facts: dict[str, Any]) -> Iterator[str]:
    """The page below its title."""
    yield from _intro(facts)
    here = rows.filter(pl.col("benchmark") == SLAKE)
    yield "## SLAKE-En: which test fires on which arm"
    yield ""
    yield from _fires(here, facts)
    yield from _membership(here)
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


def _arm(model: str) -> str:
    return model.partition("-")[2] or "base"


def _is_clean(arm: str) -> bool:
    return arm == "base" or arm.startswith("clean") or arm.endswith("-clean")


def _intro(facts: dict[str, Any]) -> Iterator[str]:
    models, counts = facts["models"], facts["counts"]
    arms = [_arm(model) for model in models]
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
    yield "# needs a GPU"
    yield "python bench/lab_medical.py prepare … && python bench/lab_medical.py train …   # see its help"
    yield "python bench/lab_medical.py tables --folder P --readings O --out RUNS"
    yield "heldout lab power RUNS --out BOARD --permutations 199 --way raw   # and others: --detector, --way"
    yield "python bench/lab_medical_page.py --board BOARD --runs RUNS --folder P"
    yield "```"
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


def _range(values: Sequence[float], digits: int) -> str:
    if not values:
        return "–"
    return f"{fmean(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


if __name__ == "__main__":
    main()
