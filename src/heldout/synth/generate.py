"""Generate: one five-option item per figure, in strict JSON; what cannot be read is asked for
again, a few times.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from heldout.benchmark import CutError, grade, without_thoughts
from heldout.errors import counted
from heldout.model import CUT, FAILED, REFUSED, Reply
from heldout.store import Dropped
from heldout.synth.context import StageContext, StageWork
from heldout.synth.draft import LETTERS, Draft, PaperFigure
from heldout.synth.endpoints import StageModel, answered_by
from heldout.synth.ledger import BATCH, StageWriter, read_rows
from heldout.synth.prompts import GENERATE_TEMPLATE, PLACEHOLDER, generate_prompt
from heldout.synth.settings import SynthStage

# JSON out of a model's reply: as it stands, or repaired where only its wrapping is wrong.


MOST_CHARACTERS = 200_000
_FENCED = re.compile(r"```(?:json)?\s*(.*?)```", re.DOTALL | re.IGNORECASE)
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")


class UnreadableError(Exception):
    """``reason`` is one of a few words that can be counted; the message says what was wrong."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def read_object(reply: Reply) -> tuple[dict[str, Any], bool]:
    """The one JSON object of a reply, and whether it had to be repaired. Duplicate keys are no
    object: nobody could say which of the two values was meant."""
    if reply.finish == REFUSED:
        raise UnreadableError("refused", f"{reply.text:.120}")
    if reply.finish == CUT:
        raise UnreadableError("cut off", "the reply reached its longest length")
    try:
        text = without_thoughts(reply.text).strip()
    except CutError as error:
        raise UnreadableError("cut off", "the reply ends inside its thoughts") from error
    if not text:
        raise UnreadableError("empty reply", "the model said nothing")
    if len(text) > MOST_CHARACTERS:
        raise UnreadableError("too long", f"{len(text):,} characters")
    try:
        return _checked(_loads(text)), False
    except ValueError:
        pass
    for candidate in _candidates(text):
        try:
            return _checked(_loads(candidate)), True
        except ValueError:
            continue
    refused = "{" not in text and grade(text, "an object").outcome == "refused"
    raise UnreadableError("refused" if refused else "malformed JSON", f"{text:.120}")


def _candidates(text: str) -> list[str]:
    """What may be the object: inside a code fence, or from the first brace to the last; then
    without trailing commas and with straight quotes."""
    texts = [match.strip() for match in _FENCED.findall(text)]
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        texts.append(text[start : end + 1])
    repaired = [_TRAILING_COMMA.sub(r"\1", one) for one in texts]
    straight = [one.replace("“", '"').replace("”", '"') for one in repaired]
    return list(dict.fromkeys([*texts, *repaired, *straight]))


def _loads(text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({key for key, _ in pairs}) < len(pairs):
            raise ValueError("a key stands twice")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


def _checked(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


STAGE = "generate"
REPEATED = "form repeated"


def _generate(context: StageContext, writer: StageWriter) -> None:
    settings = context.settings
    if settings.source == "scenes" and settings.generator is None:
        from heldout.synth.from_scenes import scene_drafts

        figures = map(PaperFigure.of_row, read_rows(context.run, SynthStage.SELECT))
        for draft in scene_drafts(settings, context.run.path, figures):
            writer.keep(draft.as_row())
        return
    assert settings.generator is not None
    depends = {"template": GENERATE_TEMPLATE, "conditioning": str(settings.conditioning)}
    with StageModel(context, "generator", settings.generator, STAGE, depends) as model:
        for batch in batches(map(PaperFigure.of_row, read_rows(context.run, SynthStage.SELECT))):
            for made in _drafts(context, model, batch):
                if isinstance(made, Dropped):
                    writer.drop(made, again=made.reason == FAILED)
                else:
                    writer.keep(made.as_row())


GENERATE = StageWork(
    SynthStage.GENERATE,
    _generate,
    ("source", "generator", "conditioning", "attempts", "plant", "seed"),
    (SynthStage.SELECT,),
    (GENERATE_TEMPLATE,),
)


def _drafts(
    context: StageContext, model: StageModel, figures: Iterable[PaperFigure]
) -> Iterator[Draft | Dropped]:
    """In the order of the figures. A reply that cannot be read is asked for again with what was
    wrong."""
    settings, run = context.settings, context.run.path
    waiting = {figure.id: figure for figure in figures}
    problems: dict[str, UnreadableError] = {}
    made: dict[str, Draft | Dropped] = {}
    for attempt in range(settings.attempts):
        prompts = {
            name: generate_prompt(
                figure, run, settings.conditioning, problem_of(problems.get(name), attempt)
            )
            for name, figure in waiting.items()
            if name not in made
        }
        if not prompts:
            break
        answered = model.ask(prompts, "generating", "items")
        made |= answered.lost
        for name, reply in answered.replies.items():
            try:
                made[name] = read_draft(reply, waiting[name], answered_by(model.identity, reply))
            except UnreadableError as error:
                problems[name] = error
    for name in waiting:
        if name not in made:
            tries = counted(settings.attempts, "attempt", "attempts")
            detail = f"{problems[name]} ({tries})"
            made[name] = Dropped(STAGE, name, problems[name].reason, detail)
        yield made[name]


def read_draft(reply: Reply, figure: PaperFigure, identity: str) -> Draft:
    """The item of a reply. Whether it is any good is not asked here; whether it is one, is."""
    value, repaired = read_object(reply)
    options = value.get("options")
    if isinstance(options, list):
        options, repaired = dict(zip(LETTERS, options, strict=False)), True
    if not isinstance(options, dict) or not isinstance(value.get("question"), str):
        raise UnreadableError("not an item", "expected the keys question, options and answer")
    if sorted(options) != list(LETTERS) or not all(isinstance(o, str) for o in options.values()):
        raise UnreadableError("not five options", f"options {', '.join(map(str, options))}"[:120])
    answer = str(value.get("answer", "")).strip()
    if answer not in tuple(LETTERS):
        raise UnreadableError("answer is no letter", f"{answer:.60}")
    if {value["question"].strip(), *(option.strip() for option in options.values())} == {
        PLACEHOLDER
    }:
        raise UnreadableError(REPEATED, "the reply is the empty form that the prompt shows")
    extra = sorted(set(value) - {"question", "options", "answer"})
    facts = {"repaired": "yes"} if repaired else {}
    facts |= {"extra_keys": ", ".join(extra)[:200]} if extra else {}
    texts = tuple(_one_line(options[letter]) for letter in LETTERS)
    return Draft(
        figure.id,
        figure.id,
        _one_line(value["question"]),
        texts,
        answer,
        generator=identity,
        raw=reply.text,
        extra=facts,
    )


def problem_of(error: UnreadableError | None, attempt: int) -> str:
    """What the model is told about its earlier replies: our words alone, because its own may repeat what a
    caption ordered. The count makes every attempt another prompt."""
    return "" if error is None else f"{error.reason}, attempt {attempt}"


def batches(figures: Iterable[PaperFigure]) -> Iterator[list[PaperFigure]]:
    batch: list[PaperFigure] = []
    for figure in figures:
        batch.append(figure)
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _one_line(text: str) -> str:
    return " ".join(text.split())
