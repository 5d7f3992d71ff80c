"""Word problems, questions and small programs in several phrasings, for bench/text_rewordings.py.

Every skeleton in rewording_sets.json has its own arithmetic and three phrasings; names, things and numbers
are drawn. Skeletons with an even number settle, odd ones are reported, so that no sentence is in both.

Programs come in two grades. *Rewritten*: another signature, other names, another docstring and other
statements, as a model does when it is asked to rephrase a program; some have a look-alike, which does something else
with the same things. *In other words*: nothing is left but the task.

Questions come with one in another register, and with another question from the same template: another thing, place or
side, the opposite, a negation. Even ones settle, odd ones are reported.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any, NamedTuple

NAMES = ("Amara", "Ben", "Chloe", "Diego", "Elif", "Farid", "Greta", "Hiro", "Ines", "Jonas")
THINGS = ("apples", "marbles", "stamps", "pencils", "cookies", "shells", "buttons", "beads")
PLACES = ("market", "school", "library", "farm", "museum", "bakery", "harbour", "garden")
DATA: dict[str, list[dict[str, Any]]] = json.loads(
    Path(__file__).with_name("rewording_sets.json").read_text(encoding="utf-8")
)


class Problem(NamedTuple):
    phrasings: tuple[str, ...]
    answer: str


def problems(parity: int, count: int, seed: int) -> list[Problem]:
    """``count`` problems of the even or odd skeletons; no two have the same sum of the same numbers."""
    draw = random.Random(seed)
    skeletons = DATA["problems"][parity::2]
    made: dict[tuple[int, str, tuple[int, ...]], Problem] = {}
    while len(made) < count:
        number = draw.randrange(len(skeletons))
        skeleton = skeletons[number]
        drawn = {name: draw.randint(*bounds) for name, bounds in skeleton["bounds"].items()}
        answer = sum(
            sign * math.prod(drawn[name] for name in names) for sign, names in skeleton["terms"]
        )
        if answer <= 0:
            continue
        person, other = draw.sample(NAMES, 2)
        words = {"p": person, "q": other, "t": draw.choice(THINGS), "w": draw.choice(PLACES)}
        phrasings = tuple(text.format(**drawn, **words) for text in skeleton["phrasings"])
        key = number, str(answer), tuple(sorted(drawn.values()))
        made.setdefault(key, Problem(phrasings, str(answer)))
    return list(made.values())


class Program(NamedTuple):
    """One task as two functions that share neither names nor wording nor code; ``alike`` does another."""

    text: str
    reworded: str
    alike: str = ""


def programs() -> list[Program]:
    return [
        Program(
            _function(task["name"], task["arguments"], task["sentence"], task["body"]),
            _function(
                f"solution_{place}",
                task["other_arguments"],
                task["other_sentence"],
                task["other_body"],
            ),
        )
        for place, task in enumerate(DATA["programs"])
    ]


def rewritten_programs(*, settles: bool) -> list[Program]:
    return [
        Program(task["text"], task["reworded"], task.get("alike", ""))
        for task in DATA["rewritten"]
        if task["settles"] == settles
    ]


class Question(NamedTuple):
    text: str
    answer: str
    reworded: str
    other: str  # from the same template
    other_answer: str


def questions(parity: int) -> list[Question]:
    return [Question(**record) for record in DATA["questions"][parity::2]]


def _function(name: str, arguments: str, sentence: str, body: str) -> str:
    return f'def {name}({arguments}):\n    """{sentence}"""\n{body}'
