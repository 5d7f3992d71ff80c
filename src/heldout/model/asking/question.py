"""Question: one item as one variant shows it, and the answer that is right there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from heldout.benchmark import Benchmark, Example, letter
from heldout.image import Digests, ImageError, ImageRef, byte_digest
from heldout.store import Dropped

STAGE = "ask"
MOST_OPTIONS = 26  # letters


@dataclass(frozen=True)
class Question:
    """``order`` says for every option shown which released one it was, -1 for one from elsewhere;
    ``gold`` is the right one's letter, or the text of an open answer."""

    benchmark_id: str
    variant: str
    text: str
    images: tuple[ImageRef, ...] = ()
    options: tuple[str, ...] = ()
    order: tuple[int, ...] = ()
    gold: str = ""
    draw: int = 0
    kind: str = (
        ""  # "choice", "open", "slot" or "ngram": which template asks it; the same for every arm
    )

    @property
    def id(self) -> str:
        return f"{self.variant}/{self.draw}/{self.benchmark_id}"


def original(example: Example) -> Question | Dropped:
    """The item as it was released; Dropped if its right answer is not known."""
    text = (example.question or "").strip()
    if not text and not example.images:
        return dropped(example, "original", "nothing to ask", "neither a question nor a picture")
    if not example.options:
        answer = (example.answer or "").strip()
        if not answer:
            return dropped(
                example, "original", "no answer", example.origin or "the item has no key"
            )
        return Question(example.id, "original", text, example.images, gold=answer, kind="open")
    empty = [letter(k) for k, option in enumerate(example.options) if not option.strip()]
    if empty:  # an option without a text cannot be chosen, and changes the chances of the others
        message = f"{', '.join(empty)} of {len(example.options)}"
        return dropped(example, "original", "empty option", message)
    if example.answer_index is None:
        if not (example.answer or "").strip():
            return dropped(
                example, "original", "no answer", example.origin or "the item has no key"
            )
        return dropped(
            example, "original", "answer not among the options", f"{example.answer!r:.80}"
        )
    if len(example.options) > MOST_OPTIONS:
        return dropped(example, "original", "too many options", f"{len(example.options)}")
    order = tuple(range(len(example.options)))
    gold = letter(example.answer_index)
    return Question(
        example.id, "original", text, example.images, example.options, order, gold, kind="choice"
    )


def dropped(example: Example, variant: str, reason: str, detail: str) -> Dropped:
    return Dropped(STAGE, example.id, reason, f"{variant}: {detail}")


# A picture's part of a prompt's key: its content, so that a changed picture is another prompt.


def picture_digest(*benchmarks: Benchmark) -> Callable[[ImageRef], str]:
    """The digest of a picture's content; of one that cannot be read, its name. Such a picture is never sent."""

    def digest(ref: ImageRef) -> str:
        for benchmark in benchmarks:
            digest = benchmark.digests.get(ref)
            if isinstance(digest, Digests):
                return digest.bytes
        try:
            return byte_digest(ref.read())
        except ImageError:
            return f"missing:{ref.name}"

    return digest
