"""Ask every question of a benchmark once, and say of each what became of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.model.asking.journal import Journal
from heldout.model.asking.prompts import ask_prompts
from heldout.model.asking.question import STAGE, Question
from heldout.model.asking.template import write
from heldout.model.reply import Asker, Prompt, Reply
from heldout.store import Dropped


@dataclass
class Answered:
    """Replies by the question's id. ``fresh``: what this call asked for, and paid for. ``ended``: what
    put an end to the asking; what had been answered by then is here all the same."""

    replies: dict[str, Reply] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)
    fresh: list[Reply] = field(default_factory=list)
    ended: InputError | None = None


def ask_questions(
    asker: Asker,
    questions: Sequence[Question],
    journal: Journal,
    digest: Callable[[ImageRef], str],
    *,
    thought: bool = False,
    title: str,
    quiet: bool = False,
) -> Answered:
    """``digest`` names a picture by its content, so that a changed one is another prompt."""
    prompts = {q.id: Prompt(write(q, thought=thought), len(q.options)) for q in questions}
    given = ask_prompts(asker, prompts, journal, digest, stage=STAGE, title=title, quiet=quiet)
    dropped = [
        Dropped(STAGE, one.benchmark_id, lost.reason, f"{one.variant}: {lost.detail}")
        for one in questions
        if (lost := given.lost.get(one.id)) is not None
    ]
    return Answered(given.replies, dropped, given.fresh, given.ended)
