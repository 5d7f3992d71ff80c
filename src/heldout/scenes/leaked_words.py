"""How the words of a benchmark turn up in a corpus without their picture, and words that only look so."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from heldout.scenes.captions import paraphrased
from heldout.scenes.leaks import CorpusSample, Target, question_and_answer, stranger
from heldout.scenes.world import pick

_TRIES = 200


def alone(target: Target, rng: np.random.Generator) -> CorpusSample:
    return CorpusSample("", None, metadata=question_and_answer(target.question))


def beside_another(target: Target, rng: np.random.Generator) -> CorpusSample:
    """Question and answer under a picture that has nothing to do with them."""
    world = target.world
    return CorpusSample(
        *stranger(world, world.draw(rng), rng), metadata=question_and_answer(target.question)
    )


def reworded_alone(target: Target, rng: np.random.Generator) -> CorpusSample:
    return CorpusSample("", None, metadata=_reworded(target.question), detail="by rule")


def reworded_exact(target: Target, rng: np.random.Generator) -> CorpusSample:
    """The picture's own file with the question in other words."""
    return CorpusSample("png", target.data, metadata=_reworded(target.question), detail="by rule")


def asked_of_another(target: Target, rng: np.random.Generator) -> CorpusSample:
    """A decoy: the same question truthfully answered about another picture, as templates make them."""
    question = target.question
    for thing in _others(target, rng):
        answer = question.probe.answer(thing)
        if answer is not None and (not question.options or answer in question.options):
            message = "same" if answer == question.answer else "another"
            return CorpusSample(
                *stranger(target.world, thing, rng),
                metadata=question_and_answer(question, answer),
                detail=f"{message} answer",
            )
    raise RuntimeError(f"nothing else was drawn that answers {question.question!r}")


def alike(target: Target, rng: np.random.Generator) -> CorpusSample:
    """A decoy: a question that reads like the benchmark's and asks for something else."""
    absent, question = target.world.absent, target.question
    known = sorted(absent, key=len, reverse=True)
    pattern = re.compile(rf"\b({'|'.join(known)})(s|es)?\b")
    matches = list(pattern.finditer(question.question))
    if not matches:
        raise ValueError(f"no word of {question.question!r} has another in its place")
    chosen = pick(rng, matches)
    other = absent[chosen[1]] + ("s" if chosen[2] else "")
    text = question.question[: chosen.start()] + other + question.question[chosen.end() :]
    answer = pick(rng, question.options or question.probe.choices)
    row = {**question_and_answer(question, answer), "question": text}
    return CorpusSample("", None, metadata=row, detail=f"{chosen[0]} → {other}")


def _others(target: Target, rng: np.random.Generator) -> Iterator[Any]:
    """Things of the same world; where none answers the question, the target's own, changed all over."""
    world = target.world
    for _ in range(_TRIES):
        yield world.draw(rng)
    for _ in range(_TRIES):
        thing = world.other_subject(target.thing, rng)
        for _ in range(int(rng.integers(6, 13))):
            thing = world.vary(thing, rng)
        yield thing


def _reworded(question: Any) -> dict[str, Any]:
    return {**question_and_answer(question), "question": paraphrased(question.question)}
