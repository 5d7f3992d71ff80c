"""Faults that are planted on purpose into items of rendered scenes, to measure which stage catches them."""

from __future__ import annotations

import dataclasses
import io
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypedDict

import numpy as np
from PIL import Image

from heldout.scenes import COLOURS, SHAPES, Scene, SceneObject, compound, vary
from heldout.stats import binomial_interval, cluster_rate_interval
from heldout.store import Run, write_atomic
from heldout.synth._mechanical import answer_is_overlong
from heldout.synth.draft import LETTERS, Draft
from heldout.synth.ledger import finished, read_dropped, read_rows
from heldout.synth.settings import SynthStage

Rng = np.random.Generator
Fault = Callable[[Draft, Scene, Rng], Draft | None]

RESIZED, CROPPED, RECODED, PANEL = (
    "copy: resized",
    "copy: cropped",
    "copy: re-encoded",
    "copy: in a panel",
)
COPIES = (RESIZED, CROPPED, RECODED, PANEL)
# Other pictures, which should be kept. Registration leaves most of the second kind undecided: all objects but
# one are the same, pixel by pixel.
ELSEWHERE, ONE_CHANGED = "near miss: same objects elsewhere", "near miss: one object changed"
NEAR_MISSES = (ELSEWHERE, ONE_CHANGED)
_EDGE = 0.04  # between an object and the edge of its picture


@dataclass(frozen=True)
class PlantedFault:
    id: str
    fault: str


def write_planted(run: Path, name: str, planted: Sequence[PlantedFault]) -> None:
    """``synth/planted-NAME.jsonl``, which no stage reads."""
    text = "".join(json.dumps(asdict(fault)) + "\n" for fault in planted)
    write_atomic(run / "synth" / f"planted-{name}.jsonl", text)


def read_planted(run: Path) -> dict[str, str]:
    """What was planted, by item: a fault of the item comes before one of its picture."""
    faults: dict[str, str] = {}
    for name in ("items", "figures"):
        path = run / "synth" / f"planted-{name}.jsonl"
        lines = path.read_text().splitlines() if path.is_file() else []
        for line in lines:
            record = json.loads(line)
            faults.setdefault(record["id"], record["fault"])
    return faults


def near_miss(kind: str, scene: Scene, rng: Rng) -> Scene:
    """Another scene that looks like this one."""
    if kind == ONE_CHANGED:
        return vary(scene, rng)
    background = dataclasses.replace(scene.background, grain=int(rng.integers(2**31)))
    placed: list[SceneObject] = []
    for shape in sorted(scene.objects, key=lambda scene_object: -scene_object.radius):
        for _ in range(500):
            moved = dataclasses.replace(shape, position=_somewhere(shape.radius, rng))
            if all(_apart(moved, other) for other in placed):
                placed.append(moved)
                break
    return Scene(background, tuple(placed))


def _apart(scene_object: SceneObject, other: SceneObject) -> bool:
    return math.dist(scene_object.position, other.position) > scene_object.radius + other.radius


def _somewhere(radius: float, rng: Rng) -> tuple[float, float]:
    across, down = (
        round(float(place), 3) for place in rng.uniform(radius + _EDGE, 1 - radius - _EDGE, 2)
    )
    return across, down


def copied(kind: str, picture: Image.Image, rng: Rng, others: Sequence[Image.Image]) -> Image.Image:
    """The picture as a copy of it may look."""
    width, height = picture.size
    if kind == RESIZED:
        scale = float(rng.uniform(0.5, 1.6))
        return picture.resize(
            (round(width * scale), round(height * scale)), Image.Resampling.LANCZOS
        )
    if kind == CROPPED:
        left, top = (int(rng.integers(0, round(0.15 * side))) for side in (width, height))
        return picture.crop((left, top, left + round(0.85 * width), top + round(0.85 * height)))
    if kind == RECODED:
        buffer = io.BytesIO()
        picture.convert("RGB").save(buffer, "JPEG", quality=int(rng.integers(30, 70)))
        return Image.open(io.BytesIO(buffer.getvalue())).copy()
    return compound(picture.convert("RGB"), rng, list(others), 4)


def _wrong_key(draft: Draft, _: Scene, rng: Rng) -> Draft:
    wrong = [letter for letter in LETTERS if letter != draft.answer]
    return dataclasses.replace(draft, answer=wrong[int(rng.integers(len(wrong)))])


def _two_keys(draft: Draft, _: Scene, rng: Rng) -> Draft:
    return _with_option(draft, f"clearly {_right(draft)}", rng)


def _leak(draft: Draft, _: Scene, rng: Rng) -> Draft:
    return dataclasses.replace(
        draft, question=f"Look at the picture for {_right(draft)}. {draft.question}"
    )


def _unanswerable(draft: Draft, scene: Scene, rng: Rng) -> Draft | None:
    present = {item.shape for item in scene.objects}
    absent = [shape for shape in SHAPES if shape not in present]
    options = tuple(rng.permutation(list(COLOURS))[: len(LETTERS)].tolist())
    if not absent:
        return None
    question = f"What colour is the {absent[int(rng.integers(len(absent)))]}?"
    return dataclasses.replace(draft, question=question, options=options)


def _no_image(draft: Draft, _: Scene, rng: Rng) -> Draft:
    corners = {"triangle": "3", "square": "4", "hexagon": "6"}
    shape = tuple(corners)[int(rng.integers(len(corners)))]
    options = ("3", "4", "5", "6", "8")
    return dataclasses.replace(
        draft,
        question=f"How many corners does a {shape} have?",
        options=options,
        answer=LETTERS[options.index(corners[shape])],
    )


def _points(draft: Draft, _: Scene, rng: Rng) -> Draft:
    return dataclasses.replace(
        draft, question=f"According to the caption, {_lower(draft.question)}"
    )


def _unsupported(draft: Draft, _: Scene, rng: Rng) -> Draft:
    age = int(rng.integers(20, 80))
    return dataclasses.replace(
        draft, question=f"In this {age}-year-old man, {_lower(draft.question)}"
    )


def _mixed(draft: Draft, _: Scene, rng: Rng) -> Draft | None:
    return (
        None if _right(draft).isdigit() else _with_option(draft, f"{rng.integers(2, 30)} cm", rng)
    )


def _placeholder(draft: Draft, _: Scene, rng: Rng) -> Draft:
    return _with_option(draft, "None", rng)


def _twice(draft: Draft, _: Scene, rng: Rng) -> Draft:
    wrong = [place for place, letter in enumerate(LETTERS) if letter != draft.answer]
    place, other = rng.permutation(wrong)[:2].tolist()
    options = list(draft.options)
    options[place] = options[other]
    return dataclasses.replace(draft, options=tuple(options))


def _weak(draft: Draft, _: Scene, rng: Rng) -> Draft | None:
    return None if _right(draft).isdigit() else _with_option(draft, "banana", rng)


def _long_option(draft: Draft, _: Scene, rng: Rng) -> Draft:
    options = list(draft.options)
    place = LETTERS.index(draft.answer)
    options[place] = f"{options[place]}, as can be seen very clearly in the picture shown above"
    return dataclasses.replace(draft, options=tuple(options))


def _long_question(draft: Draft, _: Scene, rng: Rng) -> Draft:
    filler = "Look carefully at this picture and answer the following question. " * 5
    return dataclasses.replace(draft, question=f"{filler}{draft.question}")


def _extra_key(draft: Draft, _: Scene, rng: Rng) -> Draft:
    return dataclasses.replace(draft, extra={"extra_keys": "explanation"})


def _two_questions(draft: Draft, _: Scene, rng: Rng) -> Draft:
    return dataclasses.replace(draft, question=f"How many objects are there? {draft.question}")


def _invented(draft: Draft, _: Scene, rng: Rng) -> Draft:
    year = int(rng.integers(1950, 2020))
    return dataclasses.replace(
        draft, question=f"The picture was painted in {year}. {draft.question}"
    )


def _false(draft: Draft, scene: Scene, rng: Rng) -> Draft:
    return dataclasses.replace(
        draft, question=f"There are {len(scene.objects) + 9} objects. {draft.question}"
    )


def _right(draft: Draft) -> str:
    return draft.options[LETTERS.index(draft.answer)]


def _lower(question: str) -> str:
    return question[:1].lower() + question[1:]


def _with_option(draft: Draft, text: str, rng: Rng) -> Draft:
    wrong = [place for place, letter in enumerate(LETTERS) if letter != draft.answer]
    options = list(draft.options)
    options[wrong[int(rng.integers(len(wrong)))]] = text
    return dataclasses.replace(draft, options=tuple(options))


FAULTS: Mapping[str, Fault] = {
    "wrong key": _wrong_key,
    "two keys": _two_keys,
    "answer in the question": _leak,
    "unanswerable": _unanswerable,
    "answerable without the image": _no_image,
    "points to the caption": _points,
    "unsupported fact": _unsupported,
    "options of two kinds": _mixed,
    "placeholder option": _placeholder,
    "option twice": _twice,
    "weak distractor": _weak,
    "long right option": _long_option,
    "long question": _long_question,
    "extra key": _extra_key,
    "two questions": _two_questions,
    "invented fact": _invented,
    "false statement": _false,
}


# How many planted faults every stage catches, and how many sound items it drops: rendered scenes alone.


NOTHING = "nothing planted"
AFTER = (SynthStage.SHORTCUT, SynthStage.BALANCE, SynthStage.DECONTAMINATE)
STAGES = (SynthStage.VERIFY, *AFTER)


@dataclass(frozen=True)
class PlantedRecall:
    """Items with one kind of fault. ``gates``: by stage and reason how many were caught there first;
    ``overlong``: in how many the rule of the shortcut stage sees an overlong answer, asked of all of them,
    also of those that the verifier rejected; ``sound``: such items should be kept, so each one that is caught
    is a false alarm."""

    planted: str
    sound: bool
    items: int
    gates: dict[tuple[str, str], int]
    overlong: int
    low: float
    high: float

    @property
    def caught(self) -> int:
        return sum(self.gates.values())

    @property
    def missed(self) -> int:
        return self.items - self.caught

    def at(self, stage: str) -> int:
        return sum(count for (name, _), count in self.gates.items() if name == stage)

    def reasons(self, stage: str) -> str:
        texts = (f"{why} {count}" for (name, why), count in self.gates.items() if name == stage)
        return ", ".join(texts)


def planted_recall(run: Run) -> list[PlantedRecall]:
    """Every kind of fault that was planted, then what should be kept; empty where nothing was planted."""
    planted = read_planted(run.path)
    if not planted or not finished(run, SynthStage.VERIFY):
        return []
    by_fault: dict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for name, gate in _gates(run).items():
        by_fault[planted.get(name, NOTHING)][gate] += 1
    overlong: Counter[str] = Counter()
    for draft in map(Draft.of_row, read_rows(run, SynthStage.GENERATE)):
        overlong[planted.get(draft.id, NOTHING)] += answer_is_overlong(draft)
    planted_recalls = []
    for kind in (*FAULTS, *COPIES, NOTHING, *NEAR_MISSES):
        items = by_fault[kind].total()
        if items:
            gates = {gate: count for gate, count in by_fault[kind].most_common() if gate != _NONE}
            interval = binomial_interval(sum(gates.values()), items)
            sound = kind in (NOTHING, *NEAR_MISSES)
            planted_recalls.append(
                PlantedRecall(
                    kind, sound, items, gates, overlong[kind], interval.low, interval.high
                )
            )
    return planted_recalls


_NONE = ("", "")


def _gates(run: Run) -> dict[str, tuple[str, str]]:
    """By item the first stage that caught it and the reason, of all items that were verified. A shortcut
    counts as caught although the item may be published with its flag."""
    gates: dict[str, tuple[str, str]] = {}
    for row in read_rows(run, SynthStage.VERIFY):
        reason = row["reason"].removeprefix("essential: ")
        gates[row["id"]] = _NONE if row["accepted"] else (str(SynthStage.VERIFY), reason)
    flagged: dict[str, tuple[str, str]] = {}
    if finished(run, SynthStage.SHORTCUT):
        rows = read_rows(run, SynthStage.SHORTCUT)
        flagged = {
            row["id"]: (str(SynthStage.SHORTCUT), row["reason"]) for row in rows if row["flagged"]
        }
    dropped = {
        dropped.id: (str(stage), dropped.reason)
        for stage in AFTER
        for dropped in read_dropped(run, stage)
    }
    for name, gate in gates.items():
        if gate == _NONE:
            gates[name] = flagged.get(name) or dropped.get(name) or _NONE
    return gates


# A share with its interval, where items of one article or one image rise and fall together.


ONE_CLUSTER = "all of one cluster: an interval needs two"
# Clusters with a hit, and with a miss, and effective clusters, from which on the spread between clusters
# is used: with fewer it covers too little (bench/cluster_coverage.py).
_ENOUGH, _EVEN = 2, 3
# How an interval over articles or images is made, for card and page.
INTERVALS = (
    f"Korn–Graubard, from the spread between these clusters; exact (Clopper–Pearson over effective "
    f"clusters) where fewer than {_ENOUGH} of them have a hit, or a miss, as at 0 and 100 %, or a few "
    f"large ones hold most items"
)


class ClusterRate(TypedDict):
    """``interval``: 95 %, by ``method``; None with the ``reason`` where there are no two clusters to
    compare."""

    hits: float
    rate: float | None
    clusters: int
    interval: list[float] | None
    method: str
    reason: str


def cluster_rate(hits: Sequence[float], clusters: Sequence[str]) -> ClusterRate:
    """The mean of ``hits`` (0 to 1 each) with the interval that ``INTERVALS`` describes."""
    count = len(set(clusters))
    if count < 2:
        rate = sum(hits) / len(hits) if hits else None
        why = ONE_CLUSTER if count else "nothing to compare"
        return ClusterRate(
            hits=sum(hits), rate=rate, clusters=count, interval=None, method="", reason=why
        )
    interval = cluster_rate_interval(hits, clusters, enough=_ENOUGH, even=_EVEN)
    return ClusterRate(
        hits=sum(hits),
        rate=sum(hits) / len(hits),
        clusters=count,
        interval=[interval.low, interval.high],
        method=interval.method,
        reason="",
    )
