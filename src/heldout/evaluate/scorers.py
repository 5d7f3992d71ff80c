"""Published scorers under their own names, to be compared with strict grading reply by reply.

Each does what its authors' script does, mistakes included; they decide nothing here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from heldout.benchmark import LONGEST
from heldout.model import Question


class ScorerVerdict(NamedTuple):
    """``read``: what the scorer takes the reply's answer to be."""

    right: bool
    read: str


class PublishedScorer(NamedTuple):
    """``about``: its origin and how it decides, for tables and documents."""

    name: str
    about: str
    score: Callable[[str, str, str, Sequence[str]], ScorerVerdict]

    def __call__(self, reply: str, question: Question) -> ScorerVerdict:
        """Whether the scorer calls ``reply`` right."""
        gold = question.gold
        text = question.options[ord(gold) - ord("A")] if question.options else gold
        # A reply of a million opening tags would keep the patterns busy for hours.
        return self.score(reply[-LONGEST:], gold, text, question.options)


_TAGGED = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_FIRST_LINE = re.compile(r"\s*([^\n\r]+)")
_STATED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"answer:\s*(.*)\s*",
        r"answer is:\s*(.*)\s*",
        r"answer is\s*(.*)\s*",
        r"is:\s*(.*)\s*",
    )
)
_TAGS = ("<think>", "</think>", "<answer>", "</answer>")


def _extracted(reply: str) -> str:
    """The last <answer>, else what follows the last "answer:", "answer is" or "is:", else all of it."""
    tagged = _TAGGED.findall(reply)
    if tagged:
        line = _FIRST_LINE.search(tagged[-1].strip())
        text = line[1].strip() if line else tagged[-1].strip()
    else:
        text = reply.strip()
        for pattern in _STATED:
            stated = pattern.findall(reply)
            if stated:
                text = stated[-1].strip()
                break
    for tag in _TAGS:
        text = text.replace(tag, "")
    return text.strip()


def _medvlthinker(reply: str, gold: str, text: str, options: Sequence[str]) -> ScorerVerdict:
    read = _extracted(reply)
    wanted = {f"{gold}. {text}".strip().lower(), gold.strip().lower(), text.strip().lower()}
    return ScorerVerdict(read.lower() in wanted, read)


def _substring(reply: str, gold: str, text: str, options: Sequence[str]) -> ScorerVerdict:
    scorer_verdict = _medvlthinker(reply, gold, text, options)
    return scorer_verdict._replace(
        right=scorer_verdict.right or text.lower() in scorer_verdict.read.lower()
    )


def _mmstar(reply: str, gold: str, text: str, options: Sequence[str]) -> ScorerVerdict:
    words, wanted = reply.lower().strip().replace("\n", " "), gold.lower().strip()
    for start in ("", "(", "option ", "the answer is "):
        if words.startswith(start) and words[len(start) : len(start) + 1] == wanted:
            return ScorerVerdict(True, words[: len(start) + 1])
    return ScorerVerdict(False, words[:40])


def _realworldqa(reply: str, gold: str, text: str, options: Sequence[str]) -> ScorerVerdict:
    words = reply.lower().strip().rstrip(".")
    return ScorerVerdict(words == gold.lower().strip(), words[:40])


def _llava_scienceqa(reply: str, gold: str, text: str, options: Sequence[str]) -> ScorerVerdict:
    read = llava_choice(reply)
    return ScorerVerdict(read == gold, read or "FAILED")


def llava_choice(reply: str, letters: str = "ABCDE") -> str | None:
    """The letter that LLaVA's ScienceQA script reads; None for what it calls FAILED."""
    words = reply.replace("\n", ". ")
    if words.strip() in tuple(letters):
        return words.strip()
    if words[:1] in tuple(letters) and words[1:3] == ". ":
        return words[0]
    for pattern in (rf"The answer is ([{letters}])\.", rf"The answer is ([{letters}])"):
        match = re.search(pattern, words)
        if match:
            return match[1]
    return None


SCORERS: dict[str, PublishedScorer] = {
    published_scorer.name: published_scorer
    for published_scorer in (
        PublishedScorer(
            "medvlthinker",
            "MedVLThinker's and MedVLSynther's regrading: the last <answer>, or what follows \"answer "
            'is", '
            'has to equal letter, text or "letter. text", case aside',
            _medvlthinker,
        ),
        PublishedScorer(
            "medvlthinker-substring",
            "the same with its rule for LLaVA-Med: the right option's text anywhere in the answer is right",
            _substring,
        ),
        PublishedScorer(
            "mmstar",
            'MMStar\'s exact match: the first character, or the one after "(", "option " or '
            '"the answer is ", is the right letter',
            _mmstar,
        ),
        PublishedScorer(
            "realworldqa",
            "lmms-eval's RealWorldQA: the whole reply, less a closing full stop, is the key",
            _realworldqa,
        ),
        PublishedScorer(
            "llava-scienceqa",
            'LLaVA\'s ScienceQA script: a letter alone, at the start, or in the first "The answer is X"',
            _llava_scienceqa,
        ),
    )
}


def explained(
    outcome: str, parsed: str, rule: str, verdict: ScorerVerdict, options: Sequence[str]
) -> str:
    """Why strict grading and a scorer differ on one reply, in words."""
    chosen = f"{parsed} ({rule})" if parsed else rule
    if parsed and options and len(parsed) == 1 and ord(parsed) - ord("A") < len(options):
        text = options[ord(parsed) - ord("A")]
        chosen = f"{parsed}, '{text:.40}' ({rule})"
    message = " ".join(verdict.read.split())
    read = f"'{message[:60]}{'…' if len(message) > 60 else ''}'"
    if verdict.right:
        return f"strict: {outcome}, {chosen}; the scorer accepts {read}"
    return f"strict: {outcome}, {chosen}; the scorer compares {read} with the key and refuses it"
