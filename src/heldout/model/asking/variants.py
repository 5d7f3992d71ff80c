"""Every item in every variant that was asked for, or the reason why it is not shown that way."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from heldout.benchmark import Benchmark
from heldout.benchmark.example import Example, canonical_text
from heldout.benchmark.grading.clean import same
from heldout.model.asking.confused import RightAnswers
from heldout.model.asking.orders import bound, rotated, shuffled
from heldout.model.asking.plan import Variant
from heldout.model.asking.question import STAGE, Question, dropped, original
from heldout.model.asking.slot import Rarity, masked
from heldout.store import Dropped

NO_PARAPHRASE = "no paraphrase"


@dataclass
class Asked:
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
) -> Asked:
    """``twins`` by the name of their variant, ``paraphrases`` by item, where no column has them. The same
    seed shows the same questions, item by item."""
    made = Asked()
    show = _Showing(benchmark, variants, twins or {}, paraphrases or {}, seed)
    for example in examples:
        for shown in show.item(example):
            (made.questions if isinstance(shown, Question) else made.dropped).append(shown)  # type: ignore[arg-type]
    known = {example.id for example in benchmark}
    for name, twin in (twins or {}).items():
        made.dropped += [
            Dropped(STAGE, other.id, "twin of no item", f"{name}: {twin.source or twin.name}")
            for other in twin
            if other.id not in known
        ]
    return made


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
        self._twins = {name: {one.id: one for one in twin} for name, twin in twins.items()}
        names = {variant.name for variant in variants}
        self._column = next((v.source for v in variants if v.name == "slot-paraphrase"), None)
        if "confused-choices" in names:
            pairs = [
                (shown, cluster)
                for example, cluster in zip(benchmark, benchmark.clusters, strict=True)
                if isinstance(shown := original(example), Question) and shown.options
            ]
            self._right = RightAnswers([q for q, _ in pairs], [cluster for _, cluster in pairs])
        if "slot" in names:
            self._rarity = Rarity(caption_of(example) for example in benchmark)

    def item(self, example: Example) -> Iterator[Question | Dropped]:
        shown = original(example)
        for variant in self._variants:
            name = variant.name
            if name.startswith("slot"):
                yield self._slot(example, name)
            elif isinstance(shown, Dropped):
                if name == "original":
                    yield shown
            elif name == "original":
                yield shown
            elif name.startswith("twin"):
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

    def _slot(self, example: Example, name: str) -> Question | Dropped:
        text = caption_of(example)
        other = None
        if self._column is not None:
            written = example.metadata.get(self._column) if self._column else None
            other = canonical_text(written or self._paraphrases.get(example.id))
            if not other or other.strip().lower() == text.lower():
                where = f"column '{self._column}'" if self._column else "the provider wrote none"
                return dropped(example, name, NO_PARAPHRASE, where)
        word = self._rarity.rarest(text, other)
        if word is None:
            where = "both wordings" if other else "the text"
            return dropped(example, name, "no word to mask", f"{where}: {text!r:.80}")
        base = Question(example.id, name, text, example.images)
        return masked(base, name, other or text if name == "slot-paraphrase" else text, word)


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
