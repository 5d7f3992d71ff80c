"""Resample: another right answer for every item, uniformly among the wrong ones, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from heldout.benchmark import Benchmark, Example, same
from heldout.image import ImageError
from heldout.model import BOUND, MOST_OPTIONS, item_random
from heldout.store import Dropped

STAGE = "twin resample"
_POLES = (("yes", "no"), ("true", "false"))


@dataclass(frozen=True)
class NewAnswer:
    """``new_index``: the new answer's place among the options, which stay as they are."""

    id: str
    image_name: str
    question: str
    options: tuple[str, ...]
    old_answer: str
    new_answer: str
    new_index: int | None
    wrong: int  # how many options it was drawn from

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "options": list(self.options)}


def resample(
    benchmark: Benchmark, examples: Iterable[Example], seed: int
) -> tuple[list[NewAnswer], list[Dropped]]:
    """A draw depends on the seed and the item's id alone, never on the other items."""
    answers: list[NewAnswer] = []
    dropped: list[Dropped] = []
    for example in examples:
        answer = _item(benchmark, example, seed)
        (answers if isinstance(answer, NewAnswer) else dropped).append(answer)  # type: ignore[arg-type]
    return answers, dropped


def _item(benchmark: Benchmark, example: Example, seed: int) -> NewAnswer | Dropped:
    question = (example.question or "").strip()
    if not example.images:
        return _dropped(example, "no picture", "there is nothing to draw anew")
    if len(example.images) > 1:
        detail = f"{len(example.images)}; it is not known which one the answer depends on"
        return _dropped(example, "several pictures", detail)
    if not question:
        return _dropped(example, "no question", example.origin)
    digest = benchmark.digests[example.images[0]]
    if isinstance(digest, ImageError):
        return _dropped(example, digest.reason, digest.detail)
    drawn = _choice(example, seed) if example.options else _pole(example)
    if isinstance(drawn, Dropped):
        return drawn
    new, place, wrong = drawn
    return NewAnswer(
        example.id,
        example.images[0].name,
        question,
        example.options,
        (example.answer or "").strip(),
        new,
        place,
        wrong,
    )


def _choice(example: Example, seed: int) -> tuple[str, int, int] | Dropped:
    options = example.options
    if len(options) < 2:
        return _dropped(example, "single option", f"{options[0]!r:.80}")
    if example.answer_index is None:
        return _dropped(example, "answer not among the options", f"{example.answer!r:.80}")
    if len(options) > MOST_OPTIONS:
        return _dropped(example, "too many options", f"{len(options)}")
    right = same(options[example.answer_index])
    texts = [same(option) for option in options]
    # An empty option, or one equal to another, cannot be the only right answer.
    wrong = [n for n, text in enumerate(texts) if text and text != right and texts.count(text) == 1]
    if not wrong:
        return _dropped(example, "no other option", f"all options read {right!r:.60}")
    # No picture shows "none of the above": such options may be shown, but not become right.
    able = [place for place in wrong if not BOUND.search(options[place].strip())]
    if not able:
        return _dropped(example, "other options speak of the options", f"{options[wrong[0]]!r:.80}")
    place = able[int(item_random(seed, "twin", example.id).integers(len(able)))]
    return options[place], place, len(able)


def _pole(example: Example) -> tuple[str, None, int] | Dropped:
    """Yes becomes no, written as the old answer was."""
    answer = (example.answer or "").strip()
    if not answer:
        return _dropped(example, "no answer", example.origin)
    for poles in _POLES:
        if same(answer) in poles:
            other = poles[1 - poles.index(same(answer))]
            for style in (str.lower, str.capitalize, str.upper):
                if style(answer) == answer:
                    other = style(other)
                    break
            return other, None, 1
    return _dropped(example, "open question", f"no options to draw from; answer {answer!r:.60}")


def _dropped(example: Example, reason: str, detail: str) -> Dropped:
    return Dropped(STAGE, example.id, reason, detail)
