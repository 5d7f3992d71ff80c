"""A model as a judge: any backend that answers, asked once per pair of texts, whatever dies meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heldout.image import ImageRef
from heldout.model.asking.journal import Journal
from heldout.model.asking.prompts import ask_prompts
from heldout.model.reply import Asker, Prompt
from heldout.overlap.text.judge import STAGE, Opinion, Opinions, TextPair
from heldout.overlap.text.judge_prompt import TEMPLATE, judge_prompt, read_opinion
from heldout.store import Run

MAX_TOKENS = 512  # a few sentences and a word; a model that thinks aloud needs more


@dataclass
class ModelJudge:
    """A Judge over ``asker``; replies lie in ``journal``, and are never paid for again."""

    asker: Asker
    journal: Journal
    quiet: bool = False

    @classmethod
    def of(cls, run: Run, asker: Asker, *, quiet: bool = False) -> ModelJudge:
        """With its journal in the run folder."""
        return cls(asker, Journal(run.path / "stages" / STAGE / "replies.jsonl"), quiet)

    @property
    def identity(self) -> Mapping[str, str]:
        return {**self.asker.identity, "template": TEMPLATE}

    def compare(self, pairs: Sequence[TextPair]) -> Opinions:
        given: dict[TextPair, Opinion] = {}
        prompts: dict[str, Prompt] = {}
        names: dict[TextPair, str] = {}
        for number, pair in enumerate(pairs):
            made = judge_prompt(str(number), pair)
            if isinstance(made, Opinion):
                given[pair] = made
            else:
                names[pair] = str(number)
                prompts[str(number)] = made
        replied = ask_prompts(
            self.asker, prompts, self.journal, _no_picture, stage=STAGE,
            title=f"asking {self.identity['model']} about paraphrases", unit="pairs",
            quiet=self.quiet,
        )  # fmt: skip
        for pair, name in names.items():
            if name in replied.replies:
                given[pair] = read_opinion(replied.replies[name])
            else:
                lost = replied.lost[name]
                given[pair] = Opinion("unsure", lost.detail, lost.reason, lost=True)
        return Opinions(given, len(replied.fresh), replied.ended)


def _no_picture(ref: ImageRef) -> str:
    return ref.name  # a pair of texts shows none
