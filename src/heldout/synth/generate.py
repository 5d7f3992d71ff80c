"""Generate: one five-option item per figure, in strict JSON; what cannot be read is asked for
again, a few times."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from heldout.errors import counted
from heldout.model.endpoint.chat import FAILED
from heldout.model.reply import Reply
from heldout.store import Dropped
from heldout.synth.context import StageContext, StageWork
from heldout.synth.draft import LETTERS, Draft, PaperFigure
from heldout.synth.endpoints import StageModel, answered_by
from heldout.synth.json_reply import UnreadableError, read_object
from heldout.synth.ledger import BATCH, StageWriter, read_rows
from heldout.synth.prompts import GENERATE_TEMPLATE, PLACEHOLDER, generate_prompt
from heldout.synth.settings import SynthStage

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
    if {value["question"].strip(), *(one.strip() for one in options.values())} == {PLACEHOLDER}:
        raise UnreadableError(REPEATED, "the reply is the empty form that the prompt shows")
    extra = sorted(set(value) - {"question", "options", "answer"})
    facts = {"repaired": "yes"} if repaired else {}
    facts |= {"extra_keys": ", ".join(extra)[:200]} if extra else {}
    texts = tuple(_one_line(options[letter]) for letter in LETTERS)
    return Draft(
        figure.id, figure.id, _one_line(value["question"]), texts, answer, generator=identity,
        raw=reply.text, extra=facts,
    )  # fmt: skip


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
