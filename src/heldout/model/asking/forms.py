"""The forms in which one item is shown: as released, options reordered or confused, words masked or left out."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from heldout.benchmark import Benchmark, Example, also_right, letter, same
from heldout.image import Digests, ImageError, ImageRef, byte_digest
from heldout.store import Dropped

# Question: one item as one variant shows it, and the answer that is right there.


STAGE = "ask"
MOST_OPTIONS = 26  # letters
SLOT, NGRAM = "slot", "ngram"


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
    also: tuple[str, ...] = ()  # further right answers of an open question

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
        also = also_right(example)
        return Question(
            example.id, "original", text, example.images, gold=answer, kind="open", also=also
        )
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


# Options in another order: rotations (CircularEval) and seeded shuffles that move the right option.


# An option that refers to other options, or to their letters, changes its meaning when it is moved.
BOUND = re.compile(
    r"\b(?:(?i:(?:all|none|neither|any|both|either|some) of (?:the )?(?:above|below|these|those|options))"
    r"|(?i:both|either|neither|all of|options?|choices?)\s+\(?[A-H]\)?\b(?=\s*(?:$|,|and|or|nor|&))"
    r"|\(?[A-H]\)? (?:and|or|&) \(?[A-H]\)?$)"
)


def rotated(question: Question, places: int) -> Question:
    """The option ``places`` further down stands first."""
    count = len(question.options)
    return reordered(
        question, f"rotation-{places}", tuple((n + places) % count for n in range(count))
    )


def shuffled(question: Question, number: int, seed: int) -> Question:
    """The ``number``-th shuffle of this item: drawn again until the right option has moved."""
    random = item_random(seed, f"shuffle-{number}", question.benchmark_id)
    gold = ord(question.gold) - ord("A")
    while True:
        order = tuple(int(place) for place in random.permutation(len(question.options)))
        if order.index(gold) != gold:
            return reordered(question, f"shuffle-{number}", order)


def reordered(question: Question, variant: str, order: tuple[int, ...]) -> Question:
    gold = ord(question.gold) - ord("A")
    return dataclasses.replace(
        question,
        variant=variant,
        options=tuple(question.options[place] for place in order),
        order=order,
        gold=letter(order.index(gold)),
    )


def bound(question: Question) -> str | None:
    """The first option that depends on where the others stand."""
    return next((option for option in question.options if BOUND.search(option.strip())), None)


def item_random(seed: int, *names: str) -> np.random.Generator:
    """A random generator of one item, independent of the other items of a run."""
    digest = hashlib.sha256("\0".join((str(seed), *names)).encode()).digest()
    return np.random.default_rng(int.from_bytes(digest[:16], "big"))


# Confused choices: the wrong options are replaced by right answers of other items.
#
# The form is easier for a model that has seen the item, and shows several right answers to one that remembers them.


class RightAnswers:
    """Right options of a whole benchmark, to be drawn from for items of other clusters."""

    def __init__(self, questions: Sequence[Question], clusters: Sequence[str]) -> None:
        self._cluster = {
            q.benchmark_id: cluster for q, cluster in zip(questions, clusters, strict=True)
        }
        self._pool = sorted(
            {(q.options[ord(q.gold) - ord("A")], self._cluster[q.benchmark_id]) for q in questions}
        )

    def confuse(self, question: Question, seed: int) -> Question | None:
        """None if other items have too few answers to fill this item's options."""
        gold = ord(question.gold) - ord("A")
        taken = {same(option) for option in question.options}
        own = self._cluster[question.benchmark_id]
        random = item_random(seed, "confused-choices", question.benchmark_id)
        words: list[str] = []
        for place in random.permutation(len(self._pool)):
            text, cluster = self._pool[int(place)]
            if cluster != own and same(text) not in taken:
                taken.add(same(text))
                words.append(text)
            if len(words) == len(question.options) - 1:
                break
        else:
            return None
        options = [*words[:gold], question.options[gold], *words[gold:]]
        order = [place if place == gold else -1 for place in range(len(options))]
        return dataclasses.replace(
            question, variant="confused-choices", options=tuple(options), order=tuple(order)
        )


# Slots: one word of the question (or caption) is masked, and the model is asked which word it was.
#
# A rewording masks the same word, so that both versions ask for the same thing.


MASK = "[MASK]"
_WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")
_SHORTEST = 4
# Words that grammar alone would give back.
_LITTLE = frozenset(
    word
    for line in (
        "what which where when whose whom there their these those this that with from into have does",
        "been being were will would could should about above below between under over than then them",
        "they your some such only also both each most more many much very seen shown image picture",
        "figure following answer question option options according depicted based given",
    )
    for word in line.split()
)
_UNSPACED = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\u0e00-\u0e7f]")  # no blanks between words


def words_of(text: str) -> list[str]:
    """Words worth guessing, in their order, in lower case."""
    if _UNSPACED.search(text):
        return []
    texts = (word.lower() for word in _WORD.findall(text))
    return list(dict.fromkeys(w for w in texts if len(w) >= _SHORTEST and w not in _LITTLE))


class CaptionRarity:
    """In how many texts of a benchmark a word occurs: a word of every question tells nothing."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._counts = Counter(word for text in texts for word in words_of(text))

    def rarest(self, text: str, other: str | None = None) -> str | None:
        """The rarest word of ``text`` that is also in ``other``; of equally rare words the longest, then the first."""
        common = words_of(text)
        if other is not None:
            shared = set(words_of(other))
            common = [word for word in common if word in shared]
        return min(common, key=lambda word: (self._counts[word], -len(word)), default=None)


def masked(question: Question, variant: str, text: str, word: str) -> Question:
    """Every occurrence is masked: otherwise the answer would be visible next to the gap."""
    pattern = re.compile(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", re.IGNORECASE)
    return Question(
        question.benchmark_id,
        variant,
        pattern.sub(MASK, text),
        question.images,
        gold=word,
        kind=SLOT,
    )


# Continuations: the beginning of the question, and the words that come next in it (n-gram accuracy).


NEXT_WORDS = 3  # of five-word grams published for longer texts: questions about pictures are short


def beginning(question: Question, variant: str, text: str) -> Question | None:
    """The first half of ``text``, with the words that follow as what is right; None where it is too short."""
    words = [] if _UNSPACED.search(text) else text.split()
    shown = max(NEXT_WORDS, len(words) // 2)
    gold = words[shown : shown + NEXT_WORDS]
    if len(gold) < NEXT_WORDS:
        return None
    return dataclasses.replace(
        question, variant=variant, text=" ".join(words[:shown]), gold=" ".join(gold), kind=NGRAM
    )


def continues(reply: str, question: Question) -> bool:
    """Whether a reply begins with the right words, or repeats the beginning and then goes on with them."""
    written, gold, shown = (
        [word.lower() for word in re.findall(r"\w+", text)]
        for text in (reply, question.gold, question.text)
    )
    if shown and written[: len(shown)] == shown:
        written = written[len(shown) :]
    return written[: len(gold)] == gold
