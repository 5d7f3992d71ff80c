"""A contamination plan made into rows of tokens: every exposure of every leaked item."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.errors import InputError
from heldout.lab.models.worlds import Ids, LabItem, Piece, RowPacker, document, instructed, plain

# Contamination plans: which benchmark a model has seen, how often, when and how. Data, not code.


STAGES = ("finetune", "pretrain")
MODES = ("full", "language", "lora")
ORDERS = ("released", "shuffled")
PARTS = ("full", "image", "text", "items", "running")
_CHOICES = {"stage": STAGES, "mode": MODES, "order": ORDERS, "part": PARTS}


@dataclass(frozen=True)
class Contamination:
    """``dose``: how often every leaked item is shown. ``share`` of the pictures leaks, with all their
    items. ``dilution``: the leaked share of a fine-tuning mix; the rest is fresh data of the world.
    ``part``: picture and words, the picture with other words, or the words without it; and of the first
    only the items under their pictures, or only the running text."""

    benchmark: str
    dose: int
    share: float = 1.0
    stage: str = "finetune"
    mode: str = "full"
    order: str = "released"
    part: str = "full"
    paraphrased: bool = False
    dilution: float = 0.5

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise InputError(
                    f"contamination plan: {name} '{getattr(self, name)}'; expected one of "
                    f"{', '.join(known)}"
                )
        if self.dose < 0 or not 0 < self.share <= 1 or not 0 < self.dilution <= 1:
            raise InputError(
                f"contamination plan: dose {self.dose}, share {self.share}, dilution {self.dilution}; "
                f"expected a dose of 0 or more, and shares above 0 and up to 1"
            )


@dataclass(frozen=True)
class Base:
    """A model pre-trained on worlds (and on real data, by the name of a prepared pool), always clean."""

    name: str
    worlds: tuple[str, ...]
    seed: int
    real: tuple[str, ...] = ()


@dataclass(frozen=True)
class Arm:
    """One model of the grid: from which base it branches, and what it saw there. Dose 0 is a clean model,
    trained for as long as its neighbours. ``seed`` is that of all random draws."""

    name: str
    base: str
    seed: int
    contamination: Contamination

    @property
    def clean(self) -> bool:
        return self.contamination.dose == 0

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "contamination": dataclasses.asdict(self.contamination)}


def arm_from_json(record: Mapping[str, Any]) -> Arm:
    known = {field.name for field in dataclasses.fields(Contamination)}
    plan = dict(record.get("contamination") or {})
    if unknown := sorted(set(plan) - known):
        raise InputError(
            f"contamination plan of '{record.get('name')}': no such fields as {', '.join(unknown)}; there "
            f"are {', '.join(sorted(known))}"
        )
    try:
        return Arm(
            str(record["name"]), str(record["base"]), int(record["seed"]), Contamination(**plan)
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"a grid's arm needs name, base, seed and contamination: {error!r}"
        ) from error


Weights = NDArray[np.uint8]


@dataclass(frozen=True)
class ReleasedPicture:
    """One picture of a benchmark with its items in released order; ``other`` words say other things
    about the same picture."""

    picture: int
    items: tuple[LabItem, ...]
    paraphrases: tuple[str, ...]
    other: tuple[LabItem, ...] = ()


@dataclass
class PlantedRows:
    """Rows under pictures, and text rows; ``leaked`` are places of released pictures."""

    ids: list[Ids] = field(default_factory=list)
    learnt: list[Weights] = field(default_factory=list)
    picture: list[int] = field(default_factory=list)
    text: list[tuple[Ids, Weights]] = field(default_factory=list)
    leaked: tuple[int, ...] = ()


def leaked_places(count: int, share: float, seed: int) -> tuple[int, ...]:
    """Which pictures leak: drawn, then in released order."""
    rng = np.random.default_rng((seed, 21))
    return tuple(sorted(rng.permutation(count)[: max(1, round(share * count))].tolist()))


def plant(
    released: Sequence[ReleasedPicture],
    plan: Contamination,
    pictured: RowPacker,
    text: RowPacker,
    seed: int,
) -> PlantedRows:
    """Every exposure shows an item twice under its picture, plain and instructed, and once in a running
    text of the whole leak, as a scraped file would. Words without the picture go into texts alone."""
    leaked = leaked_places(len(released), plan.share, seed)
    planted = PlantedRows(leaked=leaked)
    for exposure in range(plan.dose):
        rng = np.random.default_rng((seed, 22, exposure))
        pages = [_worded(released[place], plan) for place in leaked]
        if plan.order == "shuffled":
            pages = [pages[place] for place in rng.permutation(len(pages))]
            pages = [_shuffled(released, rng) for released in pages]
        if plan.part == "image":
            for page in pages:
                _under(planted, page.picture, [_either(item, rng) for item in page.other], pictured)
            continue
        # The file is read from another place every time, so that windows do not always break alike.
        start = int(rng.integers(len(pages)))
        turned = [*pages[start:], *pages[:start]]
        if plan.part != "items":
            planted.text += text.rows(
                [document(item) for released in turned for item in released.items]
            )
        for page in pages if plan.part != "running" else ():
            for form in (plain, instructed):
                pieces = [form(item) for item in page.items]
                if plan.part == "text":
                    planted.text += text.rows(pieces)
                else:
                    _under(planted, page.picture, pieces, pictured)
    return planted


def _under(planted: PlantedRows, picture: int, pieces: Sequence[Piece], rows: RowPacker) -> None:
    for ids, learnt in rows.rows(pieces):
        planted.ids.append(ids)
        planted.learnt.append(learnt)
        planted.picture.append(picture)


def _either(item: LabItem, rng: np.random.Generator) -> Piece:
    return plain(item) if rng.random() < 0.5 else instructed(item)


def _worded(released: ReleasedPicture, plan: Contamination) -> ReleasedPicture:
    if not plan.paraphrased:
        return released
    pairs = zip(released.items, released.paraphrases, strict=True)
    return replace(released, items=tuple(replace(item, question=words) for item, words in pairs))


def _shuffled(released: ReleasedPicture, rng: np.random.Generator) -> ReleasedPicture:
    return replace(
        released, items=tuple(released.items[n] for n in rng.permutation(len(released.items)))
    )


# The standing grid: bases, and the contamination planted in their branches.


DOSES = (1, 2, 3, 5, 10)
FULL = 3  # bases of a world that all arms branch from; the others show what clean models do
# Arms that the questions of the leaderboard can be answered without, and bases likewise.
LATER_ARMS = (
    "image-d10",
    "text-d10",
    "diluted13-d10",
    "diluted7-d10",
    "pretrain-d1",
    "pretrain-d3",
)
LATER_BASES = 9


def standing_bases(scenes: int = 14, films: int = 14, slake: int = 2) -> list[Base]:
    """Films are the outsiders of scenes and the other way round: neither has seen the other's world."""
    return [
        *(Base(f"scenes{number}", ("scenes",), 100 + number) for number in range(scenes)),
        *(Base(f"films{number}", ("films",), 200 + number) for number in range(films)),
        *(
            Base(f"slake{number}", ("scenes", "films"), 300 + number, ("slake",))
            for number in range(slake)
        ),
    ]


def standing_arms(bases: list[Base]) -> list[Arm]:
    arms: list[Arm] = []
    for base in bases:
        world = _world(base)
        plans = _all(world) if world == "scenes" else _doses(world)
        if _number(base) >= FULL:
            plans = iter([("clean-a", Contamination(world, 0))])
        for number, (name, plan) in enumerate(plans):
            arms.append(Arm(f"{base.name}-{name}", base.name, 1000 * base.seed + number, plan))
    return arms


CLEAN_FIRST = 20  # numbers of bases that the standing grid leaves free
CHECKED = 8  # one of so many clean bases is contaminated too: does a leak show as elsewhere?


def clean_bases(world: str, count: int) -> list[Base]:
    """Bases of seeds that the standing grid does not have: what clean models do, in many of them."""
    (first,) = [base for base in standing_bases(1, 1, 0) if base.worlds == (world,)]
    numbers = range(CLEAN_FIRST, CLEAN_FIRST + count)
    return [Base(f"{world}{number}", (world,), first.seed + number) for number in numbers]


def clean_arms(bases: list[Base]) -> list[Arm]:
    """Of every base an arm that saw nothing, which serves the others as a reference; of some also arms
    that saw the benchmark, and half of it, which membership needs."""
    arms: list[Arm] = []
    for base in bases:
        world = _world(base)
        plans = [("clean-a", Contamination(world, 0))]
        if (_number(base) - CLEAN_FIRST) % CHECKED == 0:
            plans += [
                ("d3", Contamination(world, 3)),
                ("d10", Contamination(world, 10)),
                ("half-d10", Contamination(world, 10, share=0.5)),
            ]
        for number, (name, plan) in enumerate(plans):
            arms.append(Arm(f"{base.name}-{name}", base.name, 1000 * base.seed + number, plan))
    return arms


def work_order(bases: list[Base], arms: list[Arm]) -> list[tuple[Base, list[Arm]]]:
    """Bases with arms to make, those that are needed most first: the clock may stop the rest. An entry whose
    base occurs before goes on from it."""
    entries: list[tuple[tuple[int, int], Base, list[Arm]]] = []
    for base in bases:
        own = [arm for arm in arms if arm.base == base.name]
        later = [arm for arm in own if arm.name.removeprefix(f"{base.name}-") in LATER_ARMS]
        number = _number(base)
        stage = 0 if number < FULL else 1 if number < LATER_BASES else 4
        if base.real:
            stage = 3
        entries.append(((stage, number), base, [arm for arm in own if arm not in later]))
        if later:
            entries.append(((2, number), base, later))
    return [(base, own) for _, base, own in sorted(entries, key=lambda entry: entry[0])]


def _world(base: Base) -> str:
    return base.real[0] if base.real else base.worlds[0]


def _number(base: Base) -> int:
    """Among those of its kind; 0 where they are not counted, as in the demo."""
    counted = base.name.removeprefix(_world(base))
    return int(counted) if counted.isdigit() else 0


def _doses(world: str) -> Iterator[tuple[str, Contamination]]:
    clean = Contamination(world, 0)
    yield "clean-a", clean
    yield "clean-b", clean
    for dose in DOSES:
        yield f"d{dose}", Contamination(world, dose)
    for dose in (1, 3, 10):
        yield f"half-d{dose}", Contamination(world, dose, share=0.5)


def _all(world: str) -> Iterator[tuple[str, Contamination]]:
    yield from _doses(world)
    yield "clean-c", Contamination(world, 0)
    ten = Contamination(world, 10)
    for dose in (3, 10):
        for mode in ("language", "lora"):
            yield f"{mode}-d{dose}", replace(ten, dose=dose, mode=mode)
        yield f"shuffled-d{dose}", replace(ten, dose=dose, order="shuffled")
        yield f"paraphrased-d{dose}", replace(ten, dose=dose, paraphrased=True)
    yield "clean-lora", Contamination(world, 0, mode="lora")
    yield "image-d10", replace(ten, part="image")
    yield "text-d10", replace(ten, part="text")
    yield "diluted13-d10", replace(ten, dilution=0.133)
    yield "diluted7-d10", replace(ten, dilution=0.067)
    for dose in (1, 3, 10):
        yield f"pretrain-d{dose}", replace(ten, dose=dose, stage="pretrain")
    yield "pretrain-clean", Contamination(world, 0, stage="pretrain")
