"""The second half of clip_leaks.py: `heldout overlap` and `heldout impact --encoder` on the trained models.

    python bench/clip_leaks.py tables --models DIR --out DIR --docs docs

The search is by the clean model, which saw no test picture, at degrees measured for it on other scenes.
What was planted is compared with what the search found. ``--docs`` gets data/clip-leaks.json, from which
``bench/measured.py clip-leaks`` writes the page.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from captioned_scenes import SIDE, World, scene_with_one_large, write_test, write_train
from heldout.detect.impact import kept_studies
from heldout.detect.impact.impact import leakage
from heldout.evidence import leaks_of
from heldout.lab.transforms.degrees import MeasuredDegrees, measure_degrees
from heldout.overlap import Bounds
from heldout.scenes import render
from heldout.scenes.world import rearranged
from heldout.stats import binomial_interval
from heldout.store import Run

TASKS = {
    "zero-shot": "Zero-shot classification, top-1",
    "probe": "Linear probe, top-1",
    "image-to-text": "Image-to-text retrieval, R@1",
    "text-to-image": "Text-to-image retrieval, R@1",
}
LEAKY, CLEAN = "leaky", "clean"
SHOWN = ("non-leaked", "same label", "different label", "random")
DATA = Path("data") / "clip-leaks.json"  # below docs/
PAGE = """\
What do test pictures in the training set do to the scores of a CLIP? Two small models answer it: both were trained
on rendered scenes with captions, from the same weights and in the same order, and are tested on {test:,} scenes. A
class is the colour and shape of a scene's one large object. Of the test pictures {clean:,} are in neither training
set, and {each:,} each are in that of `leaky`

* as they are, or re-saved, under their own label and caption (*hard, same label*),
* as they are under another label, which their caption names (*hard, different label*),
* as a second view, the same objects moved a little on other paper (*soft, same label*),
* as a second view under another label (*soft, different label*).

`clean` was trained on as many pictures without any of them: {train:,} pictures, {weights:.1f} million weights,
{steps:,} steps of {batch:,} pairs ({epochs:.0f} epochs), {seconds:.0f} s each on {device}. The tables are those of the
published study of [impact](impact.md#dual-encoders), measured by

```console
$ python bench/clip_leaks.py train --work WORK --out OUT --titled {titled} --strangers {strangers} \\
    --each {each} --clean {clean} --steps {steps} --minutes 3.4
$ python bench/clip_leaks.py tables --models WORK --out DIR --docs docs --strangers {strangers} \\
    --each {each} --clean {clean} --searched {more} --probe
```

`tables` runs `heldout overlap`{search}, then `heldout impact
--encoder` on both models. Search and probe read {searched:,} pictures of the training set, all leaks among them.
Values are per cent, brackets 95 % intervals by image; random subsets are as large as the leaked one (mean ± standard
deviation of ten draws). The probe is fitted to the training set with the leaks in it, so that the clean model is no
control there.
"""
READ = """\
A copy with its own label is known, a copy with another label is taken for that label, random
subsets are like the whole; the clean model treats all of them alike. Second views act the same way,
less strongly. The leaky model is also worse on what did not leak: its training set holds {wrong:,}
pictures whose words are wrong, and one training of each model does not tell that from chance."""
BY_HASH = " by digests, hashes and registration, which is not meant to find the second views"
_OTHER = 1  # seed of the scenes that degrees are measured on, beside the world's own


def tables(
    world: World, models: Path, out: Path, docs: Path | None, *, near: bool, probe: bool
) -> None:
    test, train = out / "data" / "test", out / "data" / "train"
    if not (test / "test.jsonl").exists():
        write_test(test, world)
    if not train.with_name("train.truth.jsonl").exists():
        write_train(train, world)
    leaky, clean = (f"transformers:{models / name}" for name in ("leaky", "clean"))
    degrees = _degrees(clean, world, out)
    bounds = Bounds(degrees.hard, degrees.soft)
    run = out / "run"
    search = ["--encoder", clean, "--nearest", "2", "--degrees", str(bounds)] if near else []
    _heldout(
        "overlap",
        str(test / "test.jsonl"),
        "--against",
        f"train={train}",
        *search,
        "--workers",
        "1",
        "--out",
        str(run),
    )
    asked = [
        str(test / "test.jsonl"),
        "--run",
        str(run),
        "--templates",
        str(test / "templates.txt"),
        *(["--train", f"train={train}"] if probe else []),
        "--json",
    ]
    for encoder in (leaky, clean):
        _heldout("impact", "--encoder", encoder, *asked, quiet=True)
    store(world, models, out, docs, near=near)


def store(world: World, models: Path, out: Path, docs: Path | None, *, near: bool) -> None:
    """What the page shows, from what the calls left in the run folder."""
    impacts = {
        study["call"]["encoders"][0]: [
            {
                "metric": one["metric"],
                "lines": [line for line in one["lines"] if _is_shown(one, line)],
            }
            for one in study["impacts"]
        ]
        for _, study in kept_studies(Run.open(out / "run"))
        if study["labels"] is None and study["call"]["baseline"] is None
    }
    told: dict[str, Any] = {
        "world": vars(world),
        "training": json.loads((models / "training.json").read_text()),
        "near": near,
        "found": _found(Run.open(out / "run"), out / "data" / "train.truth.jsonl"),
        "impacts": {name: impacts[name] for name in (LEAKY, CLEAN) if name in impacts},
    }
    (out / "clip-leaks.json").write_text(json.dumps(told, indent=1) + "\n")
    if docs is not None:
        (docs / DATA).parent.mkdir(parents=True, exist_ok=True)
        (docs / DATA).write_text(json.dumps(_rounded(told)) + "\n")
    print(page(told))


def _is_shown(impact: Mapping[str, Any], line: Mapping[str, Any]) -> bool:
    """On copies, by the measure that the page has for a task."""
    shown = line["subset"] in SHOWN and line["leakage"] == "copy"
    return bool(shown and line["measure"] == _measure(impact["metric"]))


def _rounded(value: Any) -> Any:
    """Five digits are more than the page shows."""
    if isinstance(value, float):
        return round(value, 5)
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list) else value


def _degrees(encoder: str, world: World, out: Path) -> MeasuredDegrees:
    """Of the clean model, on scenes that are in neither set: 300, and 300 others with their near views."""
    kept = out / "degrees.json"
    if not kept.exists():
        for part, name in enumerate(("apart", "near")):
            folder = out / "data" / "degrees" / name
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(300):
                rng = np.random.default_rng((world.seed, _OTHER, part, number))
                scene = scene_with_one_large(rng)
                render(scene, SIDE).save(folder / f"{number:03d}.png")
                if name == "near":
                    render(rearranged(scene, rng), SIDE).save(folder / f"{number:03d}-near.png")
        sources = [str(out / "data" / "degrees" / name) for name in ("apart", "near")]
        found = measure_degrees(encoder, sources, queries=200)
        kept.write_text(found.model_dump_json(indent=1) + "\n")
    return MeasuredDegrees.model_validate_json(kept.read_text())


def _found(run: Run, truth: Path) -> list[dict[str, Any]]:
    """What was planted by what the search calls it."""
    planted = {row["benchmark_id"]: row["name"] for row in map(json.loads, truth.open())}
    leaks = leaks_of(run)
    counts: Counter[tuple[str, str, str]] = Counter()
    for item in run.read_table("items").column("benchmark_id").to_pylist():
        kind = leakage(leaks[item]) if item in leaks else ""
        counts[planted.get(item, "not leaked"), kind, leaks[item].label if kind else ""] += 1
    return [
        {"planted": planted, "found": kind, "label": label, "pictures": count}
        for (planted, kind, label), count in sorted(counts.items())
    ]


def _heldout(*arguments: str, quiet: bool = False) -> str:
    print("$ heldout " + " ".join(arguments), file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "heldout", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    if not quiet:
        print(done.stdout, file=sys.stderr)
    return done.stdout


def page(told: Mapping[str, Any]) -> str:
    """The page below its title, from the figures alone."""
    searched, training = told["world"], told["training"]
    world = training["world"]
    leaky = training["leaky"]
    text = PAGE.format(
        test=_test(world),
        train=_train(world),
        each=world["each"],
        clean=world["clean"],
        weights=leaky["weights"] / 1e6,
        steps=leaky["steps"],
        batch=training["batch"],
        epochs=leaky["epochs"],
        seconds=leaky["seconds"],
        device=training["device"],
        searched=_train(searched),
        strangers=world["strangers"],
        titled=training.get("titled", 0),
        more=searched["strangers"],
        search=" with the clean model as encoder at the degrees measured for it"
        if told["near"]
        else BY_HASH,
    )
    lines = [text, *_summary(told["impacts"]), "", *_planted(told["found"])]
    lines += ["", "As measured after training, without the product:", "", *_looks(training)]
    lines += ["", READ.format(wrong=2 * world["each"])]
    return "\n".join(lines).rstrip() + "\n"


def _looks(training: Mapping[str, Any]) -> Iterator[str]:
    """By what was planted, with exact intervals."""
    yield "| planted | pictures | zero-shot, leaky | zero-shot, clean | R@1, leaky | R@1, clean |"
    yield "|---|--:|--:|--:|--:|--:|"
    looks = [
        {one["arm"]: one for one in training[name]["first_look"]} for name in ("leaky", "clean")
    ]
    for arm, first in looks[0].items():
        cells = []
        for measure in ("zero-shot", "R@1"):
            for look in looks:
                share, count = look[arm][measure], look[arm]["pictures"]
                around = binomial_interval(round(share * count), count)
                cells.append(f"{100 * share:.1f} [{100 * around.low:.1f}, {100 * around.high:.1f}]")
        yield f"| {arm} | {first['pictures']:,} | {' | '.join(cells)} |"


def _summary(impacts: Mapping[str, Any]) -> Iterator[str]:
    """Copies with the same label, with another, and controls, at a glance."""
    yield "| task | model | not leaked | leaked, same label | leaked, different label | random, as large |"
    yield "|---|---|--:|--:|--:|--:|"
    for task, title in TASKS.items():
        for name in (name for name in (LEAKY, CLEAN) if name in impacts):
            for one in (one for one in impacts[name] if one["metric"] == task):
                lines = {line["subset"]: line for line in one["lines"]}
                yield f"| {title} | {name} | {' | '.join(_value(lines[part]) for part in SHOWN)} |"


def _test(world: Mapping[str, int]) -> int:
    return 4 * world["each"] + world["clean"]


def _train(world: Mapping[str, int]) -> int:
    return 4 * world["each"] + world["strangers"]


def _planted(found: list[dict[str, Any]]) -> Iterator[str]:
    yield "| planted | pictures | found as |"
    yield "|---|--:|---|"
    for name in dict.fromkeys(row["planted"] for row in found):
        mine = [row for row in found if row["planted"] == name]
        told = ", ".join(
            f"{row['pictures']:,} {row['found'] or 'nothing'}"
            + (f" ({row['label']} label)" if row["found"] else "")
            for row in mine
        )
        yield f"| {name} | {sum(row['pictures'] for row in mine):,} | {told} |"


def _measure(task: str) -> str:
    return "top-1" if task in ("zero-shot", "probe") else "R@1"


def _value(line: Mapping[str, Any]) -> str:
    if line["value"] is None:
        return "–"
    value = f"{100 * Decimal(str(line['value'])):.1f}"  # stored with five digits
    if line["sd"] is not None:
        return f"{value} ± {100 * line['sd']:.1f}"
    around = line["interval"]
    if around is None:
        return value
    return f"{value} [{100 * around['low']:.1f}, {100 * around['high']:.1f}]"
