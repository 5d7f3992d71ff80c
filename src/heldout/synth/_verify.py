"""Verify: a referee and a critic in one reply, beside what code can check; acceptance by the rubric's rule.

An essential or a bonus is met if the verifier calls it met and code does not contradict; a penalty applies
if either finds it. Where the two disagree, the table holds both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from heldout.errors import InputError, counted
from heldout.model import FAILED, Reply
from heldout.store import Dropped
from heldout.synth._generate import (
    PLACEHOLDER,
    REPEATED,
    VERIFY_TEMPLATE,
    UnreadableError,
    problem_of,
    read_object,
    verify_prompt,
)
from heldout.synth._mechanical import CodeCheck, check_by_code
from heldout.synth.context import StageContext, StageModel, StageWork, answered_by, short_identity
from heldout.synth.draft import REPLACED, Draft, PaperFigure
from heldout.synth.ledger import BATCH, StageWriter, read_rows
from heldout.synth.rubric import BY_KEY, CRITERIA, RUBRIC, Category, Criterion, RubricScore
from heldout.synth.settings import Normalisation, SynthSettings, SynthStage

STAGE = "verify"
INSUFFICIENT = "insufficient evidence"
UNGRADABLE = "ungradable: "
RULES = "heldout-verdict/2"  # raise with any change of what counts; replies stay paid for


def _verify(context: StageContext, writer: StageWriter) -> None:
    settings = context.settings
    if settings.source == "scenes" and settings.verifier is None:
        from heldout.synth._from_scenes import scene_verdicts

        for row in scene_verdicts(context):
            write_verdict(writer, row)
        return
    assert settings.verifier is not None
    depends = {"template": VERIFY_TEMPLATE, "rubric": RUBRIC}
    with StageModel(context, "verifier", settings.verifier, STAGE, depends) as model:
        _refuse_same_model(context, model.names)
        for drafts in draft_batches(context):
            rows = list(_verdicts(context, model, drafts))
            _refuse_same_model(context, model.names)  # a reply may name another model
            for row, problem in rows:
                write_verdict(writer, row, problem)


def write_verdict(writer: StageWriter, row: dict[str, Any], problem: str = "") -> None:
    """Every verdict is kept; a rejected item is also among what was dropped."""
    writer.keep(row, again=row["reason"] == f"{UNGRADABLE}{FAILED}")
    if not row["accepted"]:
        writer.drop(Dropped(STAGE, row["id"], row["reason"], problem or faults_told(row["rubric"])))


VERIFY = StageWork(
    SynthStage.VERIFY,
    _verify,
    ("source", "verifier", "attempts", "normalisation", "threshold", "same_model", "seed"),
    (SynthStage.SELECT, SynthStage.GENERATE),
    (VERIFY_TEMPLATE, RUBRIC, RULES),
)


def draft_batches(context: StageContext) -> Iterator[list[tuple[Draft, PaperFigure]]]:
    """Drafts with their figures, in the order of the figures, a batch at a time."""
    figures = map(PaperFigure.of_row, read_rows(context.run, SynthStage.SELECT))
    figure = next(figures, None)
    batch: list[tuple[Draft, PaperFigure]] = []
    for draft in map(Draft.of_row, read_rows(context.run, SynthStage.GENERATE)):
        while figure is not None and figure.id != draft.figure:
            figure = next(figures, None)
        if figure is None:
            raise InputError(
                f"the figure of {draft.id} is not among those selected: run generate again"
            )
        batch.append((draft, figure))
        if len(batch) >= BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def _refuse_same_model(context: StageContext, verifier: set[str]) -> None:
    """By the names that the two servers give their models, also in replies: one model may stand behind two
    addresses or two names."""
    generator = context.run.manifest()["synth"].get("generator", {})
    names = {
        generator.get("model"),
        *(entry["model"] for entry in generator.get("answered_by", ())),
    }
    same = ", ".join(sorted(verifier & names))
    if same and not context.settings.same_model:
        raise InputError(
            f"generator and verifier are the same model, {same}: a model overlooks its own mistakes. "
            f"Give another verifier, or the setting same_model"
        )


def _verdicts(
    context: StageContext, model: StageModel, drafts: list[tuple[Draft, PaperFigure]]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Rows of the stage's table, each with what kept an item from being graded."""
    settings, run = context.settings, context.run.path
    opinions: dict[str, Mapping[str, tuple[bool, str]]] = {}
    names: dict[str, str] = {}
    problems: dict[str, UnreadableError] = {}
    lost: dict[str, Dropped] = {}
    for attempt in range(settings.attempts):
        prompts = {
            draft.id: verify_prompt(draft, figure, run, problem_of(problems.get(draft.id), attempt))
            for draft, figure in drafts
            if draft.id not in opinions
            and draft.id not in lost
            and (attempt == 0 or problems[draft.id].reason != INSUFFICIENT)
        }
        if not prompts:
            break
        answered = model.ask(prompts, "verifying", "items")
        lost |= answered.lost
        for name, reply in answered.replies.items():
            try:
                names[name] = answered_by(model.identity, reply)
                opinions[name] = read_opinion(reply)
                problems.pop(name, None)
            except UnreadableError as error:
                problems[name] = error
    for draft, figure in drafts:
        code = check_by_code(draft, figure)
        if draft.id in opinions:
            row = verdict_row(draft, code, opinions[draft.id], settings, names[draft.id])
            yield row, ""
        else:
            identity = names.get(draft.id, short_identity(model.identity))
            if (why := lost.get(draft.id)) is not None:
                yield ungradable_row(draft, why.reason, identity), why.detail + _seen(code)
                continue
            problem = problems[draft.id]
            asked = 1 if problem.reason == INSUFFICIENT else settings.attempts
            tries = counted(asked, "attempt", "attempts")
            message = f"{problem} ({tries}){_seen(code)}"
            yield ungradable_row(draft, problem.reason, identity), message


def _seen(code: Mapping[str, CodeCheck]) -> str:
    """Faults found by code without a verdict: an item that was not graded may still be faulty."""
    faults = [
        f"{key}: {check.note or 'not met'}"
        for key, check in code.items()
        if check.met is (BY_KEY[key].category is Category.PENALTY)
    ]
    return f"; by code: {'; '.join(faults)}" if faults else ""


def read_opinion(reply: Reply) -> dict[str, tuple[bool, str]]:
    """By criterion whether the verifier calls it met, and its note. An incomplete reply is not a
    verdict."""
    value, _ = read_object(reply)
    if "error" in value:
        raise UnreadableError(
            INSUFFICIENT, f"{value['error']:.120}" if isinstance(value["error"], str) else ""
        )
    missing = [key for key in BY_KEY if key not in value]
    if missing:
        raise UnreadableError("criteria missing", f"no verdict on {', '.join(missing)}")
    opinion = {}
    for key in BY_KEY:
        line = value[key]
        met = line.get("met") if isinstance(line, dict) else line
        if not isinstance(met, bool):
            raise UnreadableError("criteria unreadable", f"{key}: expected met to be true or false")
        note = str(line.get("note", "")) if isinstance(line, dict) else ""
        opinion[key] = (met, " ".join(note.replace(REPLACED, " ").split())[:200])
    if {note for _, note in opinion.values()} == {PLACEHOLDER}:
        # Small models copy the template; then every essential would be met.
        raise UnreadableError(REPEATED, "the reply is the empty form that the prompt shows")
    return opinion


def verdict_row(
    draft: Draft,
    code: Mapping[str, CodeCheck],
    opinion: Mapping[str, tuple[bool, str]],
    settings: SynthSettings,
    identity: str,
) -> dict[str, Any]:
    """One row of the stage's table: every criterion with both opinions, both scores, and the decision."""
    lines: list[dict[str, Any]] = []
    for criterion in CRITERIA:
        check = code.get(criterion.key, CodeCheck(None))
        met, note = opinion[criterion.key]
        lines.append(
            {
                "criterion": criterion.key,
                "code": check.met,
                "verifier": met,
                "met": counts(criterion, check.met, met),
                "note": "; ".join(part for part in (check.note, note) if part),
            }
        )
    judged = RubricScore({line["criterion"]: bool(line["met"]) for line in lines})
    accepted = judged.accepted(settings.normalisation, settings.threshold)
    reason = ""
    if judged.failed_essentials:
        reason = f"essential: {judged.failed_essentials[0]}"
    elif not accepted:
        reason = "score below the threshold"
    return {
        "id": draft.id,
        "accepted": accepted,
        "reason": reason,
        "score_bonus_only": judged.score(Normalisation.BONUS_ONLY),
        "score_with_essentials": judged.score(Normalisation.WITH_ESSENTIALS),
        "rubric": lines,
        "verifier": identity,
    }


def faults_told(rubric: Sequence[Mapping[str, Any]]) -> str:
    """Every criterion that is not met and every penalty that applies, with the notes on them."""
    messages = []
    for line in rubric:
        penalty = BY_KEY[line["criterion"]].category is Category.PENALTY
        if line["met"] is penalty:
            note = line["note"] or ("applies" if penalty else "not met")
            messages.append(f"{line['criterion']}: {note}")
    return "; ".join(messages)


def counts(criterion: Criterion, code: bool | None, opinion: bool) -> bool:
    """The combined result of code and verifier: a fault that either of them sees is a fault."""
    if criterion.category is Category.PENALTY:
        return opinion or code is True
    return opinion and code is not False


def ungradable_row(draft: Draft, reason: str, identity: str) -> dict[str, Any]:
    return {
        "id": draft.id,
        "accepted": False,
        "reason": f"{UNGRADABLE}{reason}",
        "score_bonus_only": None,
        "score_with_essentials": None,
        "rubric": [],
        "verifier": identity,
    }
