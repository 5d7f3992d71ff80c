"""The second half of clip_leaks.py: `heldout overlap` and `heldout impact --encoder` on the trained models.

    python bench/clip_leaks.py tables --models DIR --out DIR --docs docs

The search is by the clean model, which saw no test picture, at degrees measured for it on other scenes.
What was planted is compared with what the search found. ``--docs`` gets data/clip-leaks.json and
clip-leaks.md, which is written from it and nothing else.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from captioned_scenes import SIDE, World, scene_with_one_large, write_test, write_train
from heldout.detect.impact import kept_studies
from heldout.detect.impact.impact import leakage
from heldout.evidence import leaks_of
from heldout.lab.transforms.degrees import MeasuredDegrees, degrees_page, measure_degrees
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
SHOWN = ("original", "non-leaked", "leaked", "same label", "different label", "random")
PAGE = """# A small CLIP with known leaks

What do test pictures in the training set do to the scores of a CLIP? Two small models answer it: both were trained on
rendered scenes with captions, from the same weights and in the same order, and are tested on {test:,} scenes. A class
is the colour and shape of a scene's one large object. Of the test pictures {clean:,} are in neither training set, and
{each:,} each are in that of `leaky`

* as they are, or re-saved, under their own label and caption (*hard, same label*),
* as they are under another label, which their caption names (*hard, different label*),
* as a second view, the same objects moved a little on other paper (*soft, same label*),
* as a second view under another label (*soft, different label*).

`clean` was trained on as many pictures without any of them: {train:,} pictures, {weights:.1f} million weights,
{steps:,} steps of {batch:,} pairs ({epochs:.0f} epochs), {seconds:.0f} s each on {device}. The tables are those of the
published study of [impact](impact.md#dual-encoders). The page is written by `python bench/clip_leaks.py tables` from
`docs/data/clip-leaks.json`.

```console
$ python bench/clip_leaks.py train --work WORK --out OUT --titled {titled} --strangers {strangers} \\
    --each {each} --clean {clean} --steps {steps} --minutes 3.4
$ python bench/clip_leaks.py tables --models WORK --out DIR --docs docs --strangers {strangers} \\
    --each {each} --clean {clean} --searched {more} --probe
```

`tables` runs `heldout overlap`{search}, then `heldout impact
--encoder` on both models and on their difference item by item, by what the search found and by what was
planted (`--leaks`). Search and probe read {searched:,} pictures of the training set, all leaks among them.
Values are per cent, brackets 95 % intervals by image; *gain* is the score on the subset minus that on the whole test
set; random subsets are as large as the leaked one (mean ± standard deviation of ten draws).
"""
NOTES = {
    "zero-shot": (
        "",
        "Prompts (“A large red star on a mint background.”) name one object, as do the titles that stand",
        "in for captions in part of the training pairs (`--titled`).",
    ),
    "probe": (
        "",
        "The probe is fitted to the training set with the leaks in it, for either model: it has seen the",
        "leaked labels whatever its encoder has. The clean model is no control here; the difference to it",
        "says how well features can be told apart, not what a leak did to them.",
    ),
}
READ = """\
A copy with its own label is known, a copy with another label is taken for that label, random
subsets are like the whole; the clean model treats all of them alike. Second views act the same way,
less strongly. The leaky model is also worse on what did not leak: its training set holds {wrong:,}
pictures whose words are wrong, and one training of each model does not tell that from chance."""
BY_HASH = " by digests, hashes and registration, which is not meant to find the second views"
DEGREES = """## Degrees of the clean model

300 scenes, and 300 others with a second view of each, by `heldout lab degrees`."""
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
    run, truth = out / "run", train.with_name("train.truth.jsonl")
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
    planted = _labels(test / "test.jsonl", truth, out / "planted.jsonl")
    asked = [
        str(test / "test.jsonl"),
        "--run",
        str(run),
        "--templates",
        str(test / "templates.txt"),
        *(["--train", f"train={train}"] if probe else []),
        "--json",
    ]
    calls = [
        ["--encoder", leaky],
        ["--encoder", clean],
        ["--encoder", leaky, "--baseline", clean],
    ]
    for more in ([], ["--leaks", str(planted)]):
        for call in calls:
            _heldout("impact", *call, *asked, *more, quiet=True)
    write_page(world, models, out, docs, near=near)


def write_page(world: World, models: Path, out: Path, docs: Path | None, *, near: bool) -> None:
    """The page from what the calls left in the run folder."""
    run = Run.open(out / "run")
    told: dict[str, Any] = {
        "world": vars(world),
        "training": json.loads((models / "training.json").read_text()),
        "degrees": json.loads((out / "degrees.json").read_text()),
        "near": near,
        "found": _found(run, out / "data" / "train.truth.jsonl"),
        "impacts": {},
        "planted": {},
    }
    for _, study in kept_studies(run):
        kind = "planted" if study["labels"] is not None else "impacts"
        name = study["call"]["encoders"][0]
        if study["call"]["baseline"] is not None:
            name = f"{name} less {study['call']['baseline']}"
        told[kind][name] = study["impacts"]
        told.setdefault("encoders", {})[name] = study["encoders"]
    for kind in ("impacts", "planted"):
        order = [name for name in ("leaky", "clean", "leaky less clean") if name in told[kind]]
        told[kind] = {name: told[kind][name] for name in order}
    (out / "clip-leaks.json").write_text(json.dumps(told, indent=1) + "\n")
    if docs is not None:
        (docs / "data").mkdir(parents=True, exist_ok=True)
        (docs / "data" / "clip-leaks.json").write_text(json.dumps(_rounded(told)) + "\n")
        (docs / "clip-leaks.md").write_text(page(told))
    print(page(told))


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


def _labels(test: Path, truth: Path, target: Path) -> Path:
    """What was planted, as leak labels made elsewhere."""
    planted = {row["benchmark_id"]: row["name"] for row in map(json.loads, truth.open())}
    rows = [json.loads(line)["id"] for line in test.open()]
    lines = [json.dumps({"id": one, "kind": planted.get(one, "none")}) for one in rows]
    target.write_text("\n".join(lines) + "\n")
    return target


def _heldout(*arguments: str, quiet: bool = False) -> str:
    print("$ heldout " + " ".join(arguments), file=sys.stderr, flush=True)
    done = subprocess.run(
        [sys.executable, "-m", "heldout", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    if not quiet:
        print(done.stdout, file=sys.stderr)
    return done.stdout


def page(told: Mapping[str, Any]) -> str:
    """docs/clip-leaks.md, from the figures alone."""
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
        search=" with the clean model as encoder at the degrees below" if told["near"] else BY_HASH,
    )
    lines = [text, *_summary(told["impacts"]), "", *_planted(told["found"])]
    lines += [
        "",
        "As measured after training, without the product:",
        "",
        *_looks(training),
        "",
        READ.format(wrong=2 * world["each"]),
    ]
    for task, title in TASKS.items():
        if any(one["metric"] == task for one in told["impacts"]["leaky"]):
            lines += ["", f"## {title}", *NOTES.get(task, ())]
            lines += ["", "By what the search found:", "", *_task(told["impacts"], task)]
            lines += ["", "By what was planted:", "", *_task(told["planted"], task)]
    lines += ["", "## 200 queries, ten draws, as published", "", *_draws(told["impacts"])]
    lines += ["", DEGREES, "", degrees_page([MeasuredDegrees.model_validate(told["degrees"])])]
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
    wanted = ("non-leaked", "same label", "different label", "random")
    yield "| task | model | not leaked | leaked, same label | leaked, different label | random, as large |"
    yield "|---|---|--:|--:|--:|--:|"
    for task, title in TASKS.items():
        for name in (name for name in (LEAKY, CLEAN) if name in impacts):
            if any(one["metric"] == task for one in impacts[name]):
                lines = _lines(impacts[name], task)
                cells = [next(_cells(lines[subset, "copy"])) for subset in wanted]
                yield f"| {title} | {name} | {' | '.join(cells)} |"


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


def _task(impacts: Mapping[str, Any], task: str) -> Iterator[str]:
    names = list(impacts)
    yield (
        "| subset | leakage | images | "
        + " | ".join(f"{_title(name)} | gain" for name in names)
        + " |"
    )
    yield "|---|---|--:|" + "--:|--:|" * len(names)
    found = [_lines(impacts[name], task) for name in names]
    for key, first in found[0].items():
        subset, kind = key
        if subset in SHOWN:
            cells = [cell for lines in found for cell in _cells(lines[key])]
            shown = f"↳ {subset}" if subset.endswith(" label") else subset
            kind = kind.removeprefix("labelled: ")
            yield f"| {shown} | {kind or '–'} | {first['items']:,} | {' | '.join(cells)} |"
    yield ""
    for name in names:
        for owed in _one(impacts[name], task)["owed"]:
            kind = owed["leakage"].removeprefix("labelled: ")
            if owed["measure"] == _measure(task) and owed["interval"] is not None:
                low, high = (100 * owed["interval"][end] for end in ("low", "high"))
                yield (
                    f"* {_title(name)}, {kind}: all minus non-leaked {100 * owed['value']:+.1f} "
                    f"[{low:+.1f}, {high:+.1f}], p {_p(owed['p_adjusted'])} (Holm)."
                )


def _draws(impacts: Mapping[str, Any]) -> Iterator[str]:
    yield "| task | model | subset | leakage | R@1 | R@5 | R@10 |"
    yield "|---|---|---|---|--:|--:|--:|"
    for task in ("image-to-text", "text-to-image"):
        for name in (name for name in (LEAKY, CLEAN) if name in impacts):
            rows: dict[tuple[str, str], list[str]] = {}
            for line in _one(impacts[name], task)["draws"]:
                spread = "" if line["sd"] is None else f" ± {100 * line['sd']:.1f}"
                cell = f"{100 * line['value']:.1f}{spread}"
                rows.setdefault((line["subset"], line["leakage"]), []).append(cell)
            for (subset, kind), cells in rows.items():
                if subset in SHOWN:
                    yield f"| {task} | {name} | {subset} | {kind or '–'} | {' | '.join(cells)} |"


def _measure(task: str) -> str:
    return "top-1" if task in ("zero-shot", "probe") else "R@1"


def _title(name: str) -> str:
    """A name of the stored data as the page has it."""
    return name.replace(" less ", " minus ")


def _one(impacts: list[dict[str, Any]], task: str) -> dict[str, Any]:
    return next(one for one in impacts if one["metric"] == task)


def _lines(impacts: list[dict[str, Any]], task: str) -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (line["subset"], line["leakage"]): line
        for line in _one(impacts, task)["lines"]
        if line["measure"] == _measure(task)
    }


def _cells(line: Mapping[str, Any]) -> Iterator[str]:
    if line["value"] is None:
        yield from ("–", "–")
        return
    value = f"{100 * line['value']:.1f}"
    around = line["interval"]
    if line["sd"] is not None:
        yield f"{value} ± {100 * line['sd']:.1f}"
    elif around is None:
        yield value
    else:
        yield f"{value} [{100 * around['low']:.1f}, {100 * around['high']:.1f}]"
    if line["gain"] is None:
        yield "–"
    elif line["gain_interval"] is None:
        yield f"{100 * line['gain']:+.1f}"
    else:
        low, high = (100 * line["gain_interval"][end] for end in ("low", "high"))
        yield f"{100 * line['gain']:+.1f} [{low:+.1f}, {high:+.1f}]"


def _p(value: float | None) -> str:
    return "–" if value is None else "< .001" if value < 0.001 else f"{value:.3f}".lstrip("0")
