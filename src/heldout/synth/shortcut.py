"""Shortcut: items that can be solved without the image are flagged or dropped.

A model answers without the image, and with the options alone, in every rotation of the options:
guessing is right in one of five, so an item that is right in four or five of five rotations (p =
.007 by chance) has a shortcut. With the question alone the model must write the right option
itself. Code looks for an answer that its length gives away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from heldout.benchmark import grade, normal
from heldout.model import FAILED, Prompt, Request, Text
from heldout.store import Dropped
from heldout.synth.balance import numbers_of
from heldout.synth.context import StageContext, StageWork
from heldout.synth.draft import LETTERS, Draft
from heldout.synth.endpoints import StageModel
from heldout.synth.ledger import BATCH, StageWriter, read_rows
from heldout.synth.mechanical import content_words
from heldout.synth.recall import cluster_rate
from heldout.synth.settings import SynthStage

STAGE = "shortcut"
TEMPLATE = "heldout-shortcut/1"
NO_IMAGE, OPTIONS_ONLY, QUESTION_ONLY, LONGEST = (
    "no-image", "options-only", "question-only", "longest-option",
)  # fmt: skip
NEEDED = 4  # right rotations of five
_LONGER = 1.5  # times the longest wrong option

Probes = dict[str, bool | None]

_CHOICE = "{question}\n\n{options}\n\nAnswer with the letter of the right option alone."
_NO_QUESTION = "Which of these is most likely the right answer to a question about an image?"
_OPEN = "{question}\n\nAnswer with a few words alone."


def _shortcut(context: StageContext, writer: StageWriter) -> None:
    settings = context.settings
    if settings.shortcut is None:
        for batch in _batches(accepted_drafts(context)):
            _write(writer, batch, {}, settings.drop_shortcuts)
        return
    depends = {"template": TEMPLATE}
    with StageModel(context, "shortcut", settings.shortcut, STAGE, depends) as model:
        for batch in _batches(accepted_drafts(context)):
            _write(writer, batch, _asked(model, batch), settings.drop_shortcuts)


def _write(
    writer: StageWriter, drafts: list[Draft], asked: Mapping[str, Probes], drop: bool
) -> None:
    for draft in drafts:
        probes: Probes = {LONGEST: length_gives_away(draft), **asked.get(draft.id, {})}
        flags = [name for name, solved in probes.items() if solved]
        reason = ", ".join(flags)
        if flags and drop:
            writer.drop(Dropped(STAGE, draft.id, "shortcut", reason))
            continue
        solved = sorted(probes.items())
        row = {"id": draft.id, "probes": solved, "flagged": bool(flags), "reason": reason}
        writer.keep(row, again=None in probes.values())


SHORTCUT = StageWork(
    SynthStage.SHORTCUT,
    _shortcut,
    ("shortcut", "drop_shortcuts", "seed"),
    (SynthStage.GENERATE, SynthStage.VERIFY),
    (TEMPLATE,),
)


def accepted_drafts(context: StageContext) -> Iterator[Draft]:
    """Drafts that the verifier accepted; both tables have one order."""
    verdicts = read_rows(context.run, SynthStage.VERIFY)
    for draft in map(Draft.of_row, read_rows(context.run, SynthStage.GENERATE)):
        if next(verdicts)["accepted"]:
            yield draft


def length_gives_away(draft: Draft) -> bool:
    """The right option is by far the longest."""
    lengths = [len(option) for option in draft.options]
    own = lengths.pop(LETTERS.index(draft.answer))
    return own > _LONGER * max(lengths) and own - max(lengths) > 12


def rotated(draft: Draft, turn: int) -> tuple[tuple[str, ...], str]:
    """The options turned by ``turn`` places, and the letter of the right one there."""
    options = draft.options[turn:] + draft.options[:turn]
    right = (LETTERS.index(draft.answer) - turn) % len(draft.options)
    return options, LETTERS[right]


def shortcut_prompts(draft: Draft) -> dict[str, Prompt]:
    """By name the eleven prompts of one item: two probes in every rotation, and the question alone."""
    prompts: dict[str, Prompt] = {}
    for turn in range(len(draft.options)):
        options, _ = rotated(draft, turn)
        shown = "\n".join(
            f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=True)
        )
        for probe, question in ((NO_IMAGE, draft.question), (OPTIONS_ONLY, _NO_QUESTION)):
            name = f"{probe}/{turn}/{draft.id}"
            text = _CHOICE.format(question=question, options=shown)
            prompts[name] = Prompt(Request(name, (Text(text),)), letters=len(options))
    name = f"{QUESTION_ONLY}/0/{draft.id}"
    prompts[name] = Prompt(Request(name, (Text(_OPEN.format(question=draft.question)),)))
    return prompts


def _asked(model: StageModel, drafts: list[Draft]) -> dict[str, Probes]:
    prompts = {name: one for draft in drafts for name, one in shortcut_prompts(draft).items()}
    answered = model.ask(prompts, "asking without the image")
    # What the server refuses is no answer, and stays none; where it failed, nobody knows.
    replies: dict[str, str | None] = {name: reply.text for name, reply in answered.replies.items()}
    replies |= {name: None if why.reason == FAILED else "" for name, why in answered.lost.items()}
    return {draft.id: solved_probes(draft, replies) for draft in drafts}


def solved_probes(draft: Draft, replies: Mapping[str, str | None]) -> Probes:
    """By probe whether the answer was guessed; None where replies are missing and would decide it."""
    solved: Probes = {}
    for probe in (NO_IMAGE, OPTIONS_ONLY):
        right = missing = 0
        for turn in range(len(draft.options)):
            options, letter = rotated(draft, turn)
            reply = replies[f"{probe}/{turn}/{draft.id}"]
            missing += reply is None
            right += bool(reply) and grade(reply or "", letter, options).outcome == "right"
        undecided = right < NEEDED <= right + missing
        solved[probe] = None if undecided else right >= NEEDED
    key = draft.options[LETTERS.index(draft.answer)]
    reply = replies[f"{QUESTION_ONLY}/0/{draft.id}"]
    said = None if reply is None else normal(reply).rstrip(".")
    solved[QUESTION_ONLY] = None if said is None else said == normal(key).rstrip(".") != ""
    return solved


def _batches(drafts: Iterator[Draft]) -> Iterator[list[Draft]]:
    batch: list[Draft] = []
    for draft in drafts:
        batch.append(draft)
        if len(batch) >= BATCH // 8:  # eleven prompts an item
            yield batch
            batch = []
    if batch:
        yield batch


# Rules that choose an option without image and model: what they get right, the wording gives away.


CHANCE = 1 / len(LETTERS)


@dataclass(frozen=True)
class BlindItem:
    question: str
    options: tuple[str, ...]
    answer: str  # a letter
    cluster: str  # items of one article are not independent


@dataclass(frozen=True)
class BlindRule:
    """``items``: those on which the rule chooses at all; ``right``: the share that it gets right, where
    options that it cannot tell apart share an item."""

    rule: str
    items: int
    right: float
    interval: list[float] | None  # over articles; None where there is one alone


def blind_rules(items: Sequence[BlindItem]) -> list[dict[str, Any]]:
    """How often each rule is right; guessing is right in one of five. No rule names a letter: the most
    frequent one is known only to who has counted, and the letters were balanced on purpose."""
    rules: Mapping[str, Callable[[BlindItem], Iterable[int] | None]] = {
        "longest option": lambda item: _most([len(one) for one in item.options]),
        "shortest option": lambda item: _most([-len(one) for one in item.options]),
        "most words of the question": _shared_words,
        "smallest number": lambda item: _number(item, -1),
        "largest number": lambda item: _number(item, 1),
    }
    return [asdict(one) for name, rule in rules.items() if (one := _measured(name, rule, items))]


def _measured(
    name: str, rule: Callable[[BlindItem], Iterable[int] | None], items: Sequence[BlindItem]
) -> BlindRule | None:
    points: list[float] = []
    clusters: list[str] = []
    for item in items:
        chosen = rule(item)
        if chosen is not None:
            places = list(chosen)
            points.append((LETTERS.index(item.answer) in places) / len(places))
            clusters.append(item.cluster)
    if not points:
        return None
    found = cluster_rate(points, clusters)
    return BlindRule(name, len(points), sum(points) / len(points), found["interval"])


def _most(values: Sequence[float]) -> list[int]:
    return [place for place, value in enumerate(values) if value == max(values)]


def _shared_words(item: BlindItem) -> list[int] | None:
    asked = content_words(item.question)
    shared = [len(content_words(option) & asked) for option in item.options]
    return _most(shared) if any(shared) else None


def _number(item: BlindItem, sign: int) -> list[int] | None:
    values = numbers_of(item.options)
    return None if values is None else _most([sign * value for value in values])
