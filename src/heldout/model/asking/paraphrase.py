"""A paraphrase provider: a model behind any backend rewords the questions that ``slot-paraphrase`` needs.

MM-Detect translates to and fro; a model that is asked to keep terms and names loses fewer of the words that
are masked. What it wrote is kept in the run, so that every model under test reads the same rewording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from heldout.benchmark import Example
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.model.asking.prompts import Journal, ask_prompts
from heldout.model.asking.variants import NO_PARAPHRASE, caption_of
from heldout.model.request import CUT, REFUSED, Asker, Prompt, Reply, Request, Text
from heldout.store import Dropped, Run

STAGE = "paraphrase"
TEMPLATE = "heldout-paraphrase/1"
_PROMPT = """\
Sentence: {text}

Reword the sentence so that it means and asks exactly the same in other words and another order. Keep \
every name, number and technical term exactly as it is written. Reply with the reworded sentence alone, on \
one line."""
_LONGEST = 4  # times the original: more is no rewording


@dataclass
class Paraphrases:
    """By item id; ``missing`` says of every other item why it has none."""

    texts: dict[str, str] = field(default_factory=dict)
    missing: dict[str, Dropped] = field(default_factory=dict)

    def explain(self, dropped: Dropped) -> Dropped:
        """Why an item that was left out for want of a paraphrase has none."""
        why = self.missing.get(dropped.id)
        if why is None or dropped.reason != NO_PARAPHRASE:
            return dropped
        variant = dropped.detail.partition(":")[0]
        return Dropped(dropped.stage, dropped.id, why.reason, f"{variant}: {why.detail}")


def write_paraphrases(
    examples: Sequence[Example], provider: Asker, run: Run, *, quiet: bool = False
) -> Paraphrases:
    """Call inside run.writing(). A provider that dies ends the command; what it wrote is kept."""
    prompts = {
        example.id: Prompt(Request(example.id, (Text(_PROMPT.format(text=text)),)), 0)
        for example in examples
        if (text := caption_of(example))
    }
    journal = Journal(run.path / "stages" / "ask" / "paraphrases.jsonl")
    given = ask_prompts(
        provider, prompts, journal, _no_pictures, stage=STAGE, title="rewording", quiet=quiet
    )
    if given.ended is not None:
        raise given.ended
    made = Paraphrases(missing=dict(given.lost))
    originals = {example.id: caption_of(example) for example in examples}
    for name, reply in given.replies.items():
        read = read_paraphrase(reply, originals[name])
        if isinstance(read, Dropped):
            made.missing[name] = read
        else:
            made.texts[name] = read
    run.update("paraphrases", {"template": TEMPLATE, "provider": dict(provider.identity)})
    return made


def read_paraphrase(reply: Reply, original: str) -> str | Dropped:
    text = " ".join(reply.text.split()).strip("\"'“”")
    text = text.removeprefix("Sentence: ")
    if reply.finish == REFUSED:
        return Dropped(STAGE, reply.id, "paraphrase refused", f"{text:.120}")
    if reply.finish == CUT:
        return Dropped(STAGE, reply.id, "paraphrase cut off", f"it ends {text[-60:]!r}")
    if not text:
        return Dropped(STAGE, reply.id, "empty paraphrase", "the provider said nothing")
    if len(text) > _LONGEST * len(original) + 40:
        return Dropped(STAGE, reply.id, "not a paraphrase", f"{len(text):,} characters: {text:.80}")
    return text


def _no_pictures(ref: ImageRef) -> str:
    raise InputError(f"a paraphrase is of words alone, not of {ref.name}")
