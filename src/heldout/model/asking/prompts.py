"""Every prompt once: what the journal holds is not asked again, and equal prompts are one."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from heldout.engine import progress
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.model.asking.journal import Journal
from heldout.model.endpoint.chat import ChatEndpoint
from heldout.model.reply import Asker, Prompt, Reply
from heldout.store import Dropped

NOT_ASKED = "not asked"


@dataclass
class Replied:
    """Replies by the prompt's name, and for every other prompt why it has none. ``fresh``: what this call
    asked for, and paid for. ``paid``: by key what these prompts cost in all, now or in an earlier call.
    ``ended``: what put an end to the asking; what had been answered by then is here all the same."""

    replies: dict[str, Reply] = field(default_factory=dict)
    lost: dict[str, Dropped] = field(default_factory=dict)
    fresh: list[Reply] = field(default_factory=list)
    paid: dict[str, Reply] = field(default_factory=dict)
    ended: InputError | None = None


def ask_prompts(
    asker: Asker,
    prompts: Mapping[str, Prompt],
    journal: Journal,
    digest: Callable[[ImageRef], str],
    *,
    stage: str,
    title: str,
    unit: str = "questions",
    quiet: bool = False,
) -> Replied:
    """A prompt's name is the id of its request. ``digest`` names a picture by its content, so that a
    changed one is another prompt."""
    made = Replied()
    keys = {name: prompt_key(asker.identity, one, digest) for name, one in prompts.items()}
    waiting: dict[str, str] = {}  # key → the first prompt that asks it
    for name, key in keys.items():
        if key not in journal:
            waiting.setdefault(key, name)
    lost: dict[str, Dropped] = {}
    if isinstance(asker, ChatEndpoint) and asker.answered is None:
        known = (name for name, key in keys.items() if key in journal)
        asker.answered = next((prompts[name] for name in known), None)

    def keep(reply: Reply) -> None:
        journal.keep(keys[reply.id], reply)

    def open_prompts() -> Iterator[Prompt]:
        return (prompts[name] for name in waiting.values())

    done = len(prompts) - len(waiting)
    with journal, progress(title, len(prompts), unit, done=done, disabled=quiet) as step:
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
                if key not in made.paid:
                    made.paid[key] = journal.reply(key)
                made.replies[name] = dataclasses.replace(made.paid[key], id=name)
            else:
                why = lost.get(key) or Dropped(
                    stage, name, NOT_ASKED, "the backend ended before it"
                )
                made.lost[name] = Dropped(stage, name, why.reason, why.detail)
    return made


def prompt_key(
    identity: Mapping[str, str], prompt: Prompt, digest: Callable[[ImageRef], str]
) -> str:
    """A digest of all that a reply depends on."""
    content = [
        ["picture", digest(part)] if isinstance(part, ImageRef) else part.text
        for part in prompt.request.content
    ]
    depends: list[Any] = [dict(identity), content, prompt.letters]
    if prompt.schema is not None:  # a prompt without one keeps the key it always had
        schema = json.dumps(prompt.schema, sort_keys=True)
        depends.append({"schema": hashlib.sha256(schema.encode()).hexdigest()})
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()
