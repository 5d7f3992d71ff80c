"""Every item in every variant that was asked for, as a Question, or the reason why it is not shown that way."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from heldout.benchmark import Benchmark, Example, canonical_text, same
from heldout.errors import InputError
from heldout.model.asking.forms import (
    NGRAM,
    SLOT,
    STAGE,
    CaptionRarity,
    Question,
    RightAnswers,
    beginning,
    bound,
    dropped,
    masked,
    original,
    rotated,
    shuffled,
)
from heldout.store import Dropped

# Which variants to ask: what a person writes, ``original,rotation-all,shuffle-3,twin=OTHER``.


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
    """``name`` as in the table, but for ``rotation-all``; ``source``: a twin's benchmark, or the
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
