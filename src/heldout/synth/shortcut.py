"""Shortcut: items that can be solved without the image are flagged or dropped.

A model answers without the image, and with the options alone, in every rotation of the options:
guessing is right in one of five, so an item that is right in four or five of five rotations (p =
.007 by chance) has a shortcut. With the question alone the model must write the right option
itself. Code looks for an answer that its length gives away.
"""

from __future__ import annotations

from collections.abc import Iterator

from heldout.benchmark.grading import grade
from heldout.benchmark.normal import normal
from heldout.model.asking.journal import Journal
from heldout.model.asking.prompts import ask_prompts
from heldout.model.reply import Asker, Prompt
from heldout.model.request import Request, Text
from heldout.store import Dropped
from heldout.synth.context import StageContext, StageWork
from heldout.synth.draft import LETTERS, Draft
from heldout.synth.endpoints import open_endpoint
from heldout.synth.ledger import BATCH, StageWriter, folder, read_rows
from heldout.synth.settings import SynthStage

STAGE = "shortcut"
TEMPLATE = "heldout-shortcut/1"
NO_IMAGE, OPTIONS_ONLY, QUESTION_ONLY, LONGEST = (
    "no-image", "options-only", "question-only", "longest-option",
)  # fmt: skip
NEEDED = 4  # right rotations of five
_LONGER = 1.5  # times the longest wrong option

_CHOICE = "{question}\n\n{options}\n\nAnswer with the letter of the right option alone."
_NO_QUESTION = "Which of these is most likely the right answer to a question about an image?"
_OPEN = "{question}\n\nAnswer with a few words alone."


def _shortcut(context: StageContext, writer: StageWriter) -> None:
    settings = context.settings
    asker: Asker | None = None
    if settings.shortcut is not None:
        asker = open_endpoint(settings.shortcut, settings.seed)
        context.run.update("synth", {"shortcut": {**asker.identity, "template": TEMPLATE}})
    journal = Journal(folder(context.run) / "replies" / "shortcut.jsonl")
    for batch in _batches(accepted_drafts(context)):
        probes = {draft.id: {LONGEST: length_gives_away(draft)} for draft in batch}
        if asker is not None:
            for name, found in _asked(context, asker, journal, batch).items():
                probes[name] |= found
        for draft in batch:
            flags = [name for name, solved in probes[draft.id].items() if solved]
            reason = ", ".join(flags)
            if flags and settings.drop_shortcuts:
                writer.drop(Dropped(STAGE, draft.id, "shortcut", reason))
                continue
            solved = sorted(probes[draft.id].items())
            row = {"id": draft.id, "probes": solved, "flagged": bool(flags), "reason": reason}
            writer.keep(row)


SHORTCUT = StageWork(
    SynthStage.SHORTCUT,
    _shortcut,
    ("shortcut", "drop_shortcuts", "seed"),
    (SynthStage.GENERATE, SynthStage.VERIFY),
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


def _asked(
    context: StageContext, asker: Asker, journal: Journal, drafts: list[Draft]
) -> dict[str, dict[str, bool]]:
    prompts: dict[str, Prompt] = {}
    for draft in drafts:
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
    answered = ask_prompts(
        asker, prompts, journal, lambda image: image.name, stage=STAGE, title="asking without the image",
        quiet=context.quiet,
    )  # fmt: skip
    if answered.ended is not None:
        raise answered.ended
    replies = {name: reply.text for name, reply in answered.replies.items()}
    return {draft.id: _solved(draft, replies) for draft in drafts}


def _solved(draft: Draft, replies: dict[str, str]) -> dict[str, bool]:
    """A reply that never came counts as not solved."""
    solved = {}
    for probe in (NO_IMAGE, OPTIONS_ONLY):
        right = 0
        for turn in range(len(draft.options)):
            options, letter = rotated(draft, turn)
            reply = replies.get(f"{probe}/{turn}/{draft.id}", "")
            right += bool(reply) and grade(reply, letter, options).outcome == "right"
        solved[probe] = right >= NEEDED
    key = draft.options[LETTERS.index(draft.answer)]
    reply = replies.get(f"{QUESTION_ONLY}/0/{draft.id}", "")
    solved[QUESTION_ONLY] = normal(reply).rstrip(".") == normal(key).rstrip(".") and bool(reply)
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
