"""Every item in every variant that was asked for, or the reason why it is not shown that way."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from heldout.benchmark import Benchmark, Example, canonical_text, letter, same
from heldout.errors import InputError
from heldout.model.asking.question import STAGE, Question, dropped, original
from heldout.store import Dropped

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
# A model that knows the item finds it easier; one that remembers right answers meets several of them.


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
        """The rarest word of ``text`` that also stands in ``other``; the longer, the earlier first."""
        common = words_of(text)
        if other is not None:
            shared = set(words_of(other))
            common = [word for word in common if word in shared]
        return min(common, key=lambda word: (self._counts[word], -len(word)), default=None)


def masked(question: Question, variant: str, text: str, word: str) -> Question:
    """Every occurrence is masked: otherwise the answer would stand beside its own gap."""
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


# Which variants to ask: what a person writes, ``original,rotation-all,shuffle-3,twin=OTHER``.


SLOT, NGRAM = "slot", "ngram"
PARAPHRASE = "-paraphrase"
WORDINGS = (SLOT, NGRAM)  # asked in the released wording and in a paraphrase
PLAIN = ("original", "no-image", "no-question", "confused-choices", *WORDINGS)
KNOWN = (
    *PLAIN,
    "rotation-K",
    "rotation-all",
    "shuffle-K",
    "twin[=BENCH]",
    "twin-NAME[=BENCH]",
    *(f"{wording}{PARAPHRASE}[=COLUMN]" for wording in WORDINGS),
)
_NUMBERED = re.compile(r"(rotation|shuffle)-(\d{1,3})(?:\.\.(\d{1,3}))?")
_TWIN = re.compile(r"(twin(?:-[\w.-]+)?)(?:=(.+))?")


@dataclass(frozen=True)
class Variant:
    """``name`` as it stands in the table, but for ``rotation-all``; ``source``: a twin's benchmark, or the
    column of a paraphrase, empty where a provider writes it."""

    name: str
    number: int | None = None
    source: str = ""


def is_twin(name: str) -> bool:
    return name == "twin" or name.startswith("twin-")


def parse_variants(text: str) -> list[Variant]:
    """The original always comes first: every variant is compared with it."""
    variants: list[Variant] = [Variant("original")]
    for part in _parts(text):
        variants += _one(part)
    unique = list(dict.fromkeys(variants))
    names = [variant.name for variant in unique]
    for name in names:
        if names.count(name) > 1:
            raise InputError(f"variants: {name} is given twice; call one of them {name}-NAME=…")
    return unique


def _parts(text: str) -> list[str]:
    """Split at commas, except those of a twin's own selection: twin=path#split=test,lang=en."""
    parts: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        own = "=" in part and not part.startswith(("twin", *WORDINGS))
        if own and parts and "#" in parts[-1]:
            parts[-1] += f",{part}"
        else:
            parts.append(part)
    return parts


def _one(part: str) -> Sequence[Variant]:
    numbered, twin = _NUMBERED.fullmatch(part), _TWIN.fullmatch(part)
    if numbered is not None:
        first, last = int(numbered[2]), int(numbered[3] or numbered[2])
        if 1 <= first <= last:
            return [Variant(f"{numbered[1]}-{n}", n) for n in range(first, last + 1)]
    elif part in PLAIN or part == "rotation-all":
        return [Variant(part)]
    elif twin is not None:
        return [Variant(twin[1], source=twin[2] or "")]
    wording, paraphrased, column = part.partition(PARAPHRASE)
    if wording in WORDINGS and paraphrased and (not column or column.startswith("=")):
        return [Variant(wording), Variant(f"{wording}{PARAPHRASE}", source=column[1:])]
    raise InputError(
        f"variants: there is no variant '{part:.60}'; there are {', '.join(KNOWN)} (K counts from 1; "
        f"shuffle-1..3 are three shuffles)"
    )


NO_PARAPHRASE = "no paraphrase"


@dataclass
class QuestionSet:
    """Questions in the benchmark's order, those on one picture together, and what was left out."""

    questions: list[Question] = field(default_factory=list)
    dropped: list[Dropped] = field(default_factory=list)


def expand(
    benchmark: Benchmark,
    examples: Sequence[Example],
    variants: Sequence[Variant],
    *,
    twins: Mapping[str, Benchmark] | None = None,
    paraphrases: Mapping[str, str] | None = None,
    seed: int = 0,
) -> QuestionSet:
    """``twins`` by the name of their variant, ``paraphrases`` by item, where no column has them. The same
    seed shows the same questions, item by item."""
    questions = QuestionSet()
    show = _Showing(benchmark, variants, twins or {}, paraphrases or {}, seed)
    for example in examples:
        for shown in show.item(example):
            if isinstance(shown, Question):
                questions.questions.append(shown)
            else:
                questions.dropped.append(shown)
    known = {example.id for example in benchmark}
    for name, twin in (twins or {}).items():
        questions.dropped += [
            Dropped(STAGE, other.id, "twin of no item", f"{name}: {twin.source or twin.name}")
            for other in twin
            if other.id not in known
        ]
    return questions


class _Showing:
    def __init__(
        self,
        benchmark: Benchmark,
        variants: Sequence[Variant],
        twins: Mapping[str, Benchmark],
        paraphrases: Mapping[str, str],
        seed: int,
    ) -> None:
        self._variants, self._seed, self._paraphrases = variants, seed, paraphrases
        self._twins = {
            name: {example.id: example for example in twin} for name, twin in twins.items()
        }
        names = {variant.name for variant in variants}
        self._columns = {
            variant.name.removesuffix(PARAPHRASE): variant.source
            for variant in variants
            if variant.name.endswith(PARAPHRASE)
        }
        if "confused-choices" in names:
            pairs = [
                (shown, cluster)
                for example, cluster in zip(benchmark, benchmark.clusters, strict=True)
                if isinstance(shown := original(example), Question) and shown.options
            ]
            self._right = RightAnswers([q for q, _ in pairs], [cluster for _, cluster in pairs])
        if SLOT in names:
            self._rarity = CaptionRarity(caption_of(example) for example in benchmark)

    def item(self, example: Example) -> Iterator[Question | Dropped]:
        shown = original(example)
        for variant in self._variants:
            name = variant.name
            if name.removesuffix(PARAPHRASE) in WORDINGS:
                yield self._wording(example, name)
            elif isinstance(shown, Dropped):
                if name == "original":
                    yield shown
            elif name == "original":
                yield shown
            elif is_twin(name):
                yield self._twin(example, shown, name)
            elif name.startswith("no-"):
                yield _without(example, shown, name)
            else:
                yield from self._choices(example, shown, variant)

    def _choices(
        self, example: Example, shown: Question, variant: Variant
    ) -> Iterator[Question | Dropped]:
        name, count = variant.name, len(shown.options)
        if count < 2:
            yield dropped(example, name, "no options", "there is nothing to choose from")
        elif name == "confused-choices":
            confused = self._right.confuse(shown, self._seed)
            yield confused or dropped(
                example, name, "too few other answers", f"{count - 1} are needed"
            )
        elif (option := bound(shown)) is not None:
            yield dropped(example, name, "options refer to their places", f"{option!r:.80}")
        elif name == "rotation-all":
            yield from (rotated(shown, places) for places in range(1, count))
        elif name.startswith("rotation"):
            places = variant.number or 0
            yield (
                rotated(shown, places)
                if places < count
                else dropped(example, name, "no such rotation", f"{count} options")
            )
        else:
            yield shuffled(shown, variant.number or 0, self._seed)

    def _twin(self, example: Example, shown: Question, name: str) -> Question | Dropped:
        other = self._twins[name].get(example.id)
        if other is None:
            return dropped(example, name, "no twin", "the twin benchmark has no item of this id")
        twin = original(other)
        if isinstance(twin, Dropped):
            return dropped(example, name, twin.reason, twin.detail)
        if twin.kind != shown.kind:
            return dropped(example, name, "twin of another kind", f"{twin.kind}, not {shown.kind}")
        released = [same(option) for option in shown.options]
        order = [released.index(same(o)) if same(o) in released else -1 for o in twin.options]
        return dataclasses.replace(twin, variant=name, order=tuple(order))

    def _wording(self, example: Example, name: str) -> Question | Dropped:
        """The released wording or its paraphrase; neither if the pair could not be asked."""
        kind, text = name.removesuffix(PARAPHRASE), caption_of(example)
        other = None
        if (column := self._columns.get(kind)) is not None:
            written = example.metadata.get(column) if column else None
            other = canonical_text(written or self._paraphrases.get(example.id))
            if not other or other.strip().lower() == text.lower():
                where = f"column '{column}'" if column else "the provider wrote none"
                return dropped(example, name, NO_PARAPHRASE, where)
        base = Question(example.id, name, text, example.images)
        shown = other or text if name.endswith(PARAPHRASE) else text
        where = "both wordings" if other else "the text"
        if kind == NGRAM:
            begun = {each: beginning(base, name, each) for each in (text, other or text)}
            if None in begun.values():
                return dropped(example, name, "too few words", f"{where}: {text!r:.80}")
            return begun[shown] or base
        word = self._rarity.rarest(text, other)
        if word is None:
            return dropped(example, name, "no word to mask", f"{where}: {text!r:.80}")
        return masked(base, name, shown, word)


def caption_of(example: Example) -> str:
    return (example.question or example.answer or "").strip()


def _without(example: Example, shown: Question, name: str) -> Question | Dropped:
    if name == "no-image":
        if not shown.images:
            return dropped(example, name, "no picture", "the item has none to leave out")
        if not shown.text:
            return dropped(example, name, "no question", "nothing is left without the picture")
        return dataclasses.replace(shown, variant=name, images=())
    if not shown.text:
        return dropped(example, name, "no question", "the item has none to leave out")
    if not shown.images and not shown.options:
        return dropped(example, name, "nothing to ask", "nothing is left without the question")
    return dataclasses.replace(shown, variant=name, text="")
