"""Ask every question once: what the journal holds is not asked again, and equal prompts are one."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from heldout.engine import progress
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.model.asking.journal import Journal
from heldout.model.asking.question import STAGE, Question
from heldout.model.asking.template import write
from heldout.model.reply import Asker, Prompt, Reply
from heldout.store import Dropped

NOT_ASKED = "not asked"


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
    made = ask_prompts(asker, prompts, journal, digest, title=title, quiet=quiet)
    named = {question.id: question for question in questions}
    made.dropped = [
        Dropped(STAGE, named[one.id].benchmark_id, one.reason,
                f"{named[one.id].variant}: {one.detail}")
        for one in made.dropped
    ]  # fmt: skip
    return made


def ask_prompts(
    asker: Asker,
    prompts: Mapping[str, Prompt],
    journal: Journal,
    digest: Callable[[ImageRef], str],
    *,
    title: str,
    unit: str = "questions",
    quiet: bool = False,
) -> Answered:
    """Any prompts by their id; what was not answered is Dropped under that id."""
    made = Answered()
    keys = {name: _key(asker.identity, one, digest) for name, one in prompts.items()}
    waiting: dict[str, str] = {}  # key → the first prompt that asks it
    for name, key in keys.items():
        if key not in journal:
            waiting.setdefault(key, name)
    lost: dict[str, Dropped] = {}

    def keep(reply: Reply) -> None:
        journal.keep(keys[reply.id], reply)

    def open_prompts() -> Iterator[Prompt]:
        return (prompts[name] for name in waiting.values())

    done = len(prompts) - len(waiting)
    with (
        journal,
        progress(title, len(prompts), unit, done=done, disabled=quiet) as step,
    ):
        try:
            # Closed before the journal, whatever happens here: replies under way are still kept.
            with contextlib.closing(asker.ask(open_prompts(), keep)) as given:
                for one in given:
                    step()
                    if isinstance(one, Reply):
                        made.fresh.append(one)
                    else:
                        lost[keys[one.id]] = one
        except InputError as error:
            made.ended = error
    for name, key in keys.items():
        if key in journal:
            made.replies[name] = dataclasses.replace(journal.reply(key), id=name)
            continue
        why = lost.get(key)
        reason, detail = (
            (why.reason, why.detail) if why else (NOT_ASKED, "the backend ended before it")
        )
        made.dropped.append(Dropped(STAGE, name, reason, detail))
    return made


def _key(identity: Mapping[str, str], prompt: Prompt, digest: Callable[[ImageRef], str]) -> str:
    content = [
        ["picture", digest(part)] if isinstance(part, ImageRef) else part.text
        for part in prompt.request.content
    ]
    told = json.dumps([dict(identity), content, prompt.letters], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()
