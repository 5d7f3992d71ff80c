"""Shortcut: items that can be solved without the image are flagged or dropped.

A model answers without the image, and with the options alone, in every rotation of the options; a
probe flags an item that is right in four or five of five. A model that guesses independently is flagged on .7 %
of items, one that has a favourite among the options and guesses otherwise on 20 %: a flag means that the item can be
solved, not that it is known. Whether a model does better than guessing is shown by the rate over all accepted
items, which is one in five for both. With the question alone the model must write the right option itself.
Code looks for an answer that its length gives away.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

from heldout.benchmark import grade, normal
from heldout.model import FAILED, STOPPED, Prompt, Reply, Request, Text
from heldout.stats import cluster_mean_test, holm
from heldout.store import Dropped, Run
from heldout.synth._balance import numbers_of
from heldout.synth._corpus_of_items import BalancedItem, balanced_items
from heldout.synth._generate import figure_images
from heldout.synth._mechanical import answer_is_overlong, content_words
from heldout.synth.context import StageContext, StageModel, StageWork
from heldout.synth.draft import LETTERS, Draft
from heldout.synth.ledger import BATCH, StageWriter, finished, read_rows
from heldout.synth.planting import cluster_rate
from heldout.synth.settings import SynthStage

STAGE = "shortcut"
TEMPLATE = "heldout-shortcut/1"
RULES = "heldout-shortcut-rules/2"  # raise with any change of what is flagged or kept of it
NO_IMAGE, OPTIONS_ONLY, QUESTION_ONLY, OVERLONG = (
    "no-image",
    "options-only",
    "question-only",
    "overlong-answer",
)
NEEDED = 4  # right rotations of five
CHANCE: float = 1 / len(LETTERS)
# Flagged by guessing anew in every rotation: four or five of five.
FLAGGED_BY_CHANCE: float = len(LETTERS) * CHANCE**NEEDED * (1 - CHANCE) + CHANCE ** len(LETTERS)

Probes = dict[str, bool | None]

_CHOICE = "{question}\n\n{options}\n\nAnswer with the letter of the right option alone."
_NO_QUESTION = "Which of these is most likely the right answer to a question about an image?"
_OPEN = "{question}\n\nAnswer with a few words alone."


def _shortcut(context: StageContext, writer: StageWriter) -> None:
    settings = context.settings
    if settings.shortcut is None:
        for batch in _batches(accepted_drafts(context)):
            _write(writer, batch, {}, settings.drop_shortcuts)
        return
    depends = {"template": TEMPLATE}
    with StageModel(context, "shortcut", settings.shortcut, STAGE, depends) as model:
        for batch in _batches(accepted_drafts(context)):
            _write(writer, batch, _asked(model, batch), settings.drop_shortcuts)


def _write(
    writer: StageWriter, drafts: list[Draft], asked: Mapping[str, Probed], drop: bool
) -> None:
    for draft in drafts:
        probed = asked.get(draft.id, {})
        probes: Probes = {OVERLONG: answer_is_overlong(draft)}
        probes |= {name: probe_replies.solved for name, probe_replies in probed.items()}
        reason = ", ".join(name for name, solved in probes.items() if solved)
        dropped = bool(reason) and drop
        if dropped:
            writer.drop(Dropped(STAGE, draft.id, "shortcut", reason))
        row = {
            "id": draft.id,
            "probes": sorted(probes.items()),
            "flagged": bool(reason),
            "reason": reason,
            "right": sorted((name, probe_replies.right) for name, probe_replies in probed.items()),
            "dropped": dropped,
        }
        writer.keep(row, again=None in probes.values() and not dropped)


SHORTCUT = StageWork(
    SynthStage.SHORTCUT,
    _shortcut,
    ("shortcut", "drop_shortcuts", "seed"),
    (SynthStage.GENERATE, SynthStage.VERIFY),
    (TEMPLATE, RULES),
)


def accepted_drafts(context: StageContext) -> Iterator[Draft]:
    """Drafts that the verifier accepted; both tables have one order."""
    verdicts = read_rows(context.run, SynthStage.VERIFY)
    for draft in map(Draft.of_row, read_rows(context.run, SynthStage.GENERATE)):
        if next(verdicts)["accepted"]:
            yield draft


def rotated(draft: Draft, turn: int) -> tuple[tuple[str, ...], str]:
    """The options turned by ``turn`` places, and the letter of the right one there."""
    options = draft.options[turn:] + draft.options[:turn]
    right = (LETTERS.index(draft.answer) - turn) % len(draft.options)
    return options, LETTERS[right]


def shortcut_prompts(draft: Draft) -> dict[str, Prompt]:
    """By name the eleven prompts of one item: two probes in every rotation, and the question alone."""
    prompts: dict[str, Prompt] = {}
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
    return prompts


def _asked(model: StageModel, drafts: list[Draft]) -> dict[str, Probed]:
    prompts = {name: prompt for draft in drafts for name, prompt in shortcut_prompts(draft).items()}
    answered = model.ask(prompts, "asking without the image")
    # A refusal by the server counts as no answer; after a failure the answer is unknown.
    replies: dict[str, str | None] = {name: reply.text for name, reply in answered.replies.items()}
    replies |= {name: None if why.reason == FAILED else "" for name, why in answered.lost.items()}
    return {draft.id: solved_probes(draft, replies) for draft in drafts}


class ProbeReplies(NamedTuple):
    """``solved``: whether the item is flagged, None where replies are missing that would decide it;
    ``right``: the share of right replies, None where one is missing."""

    solved: bool | None
    right: float | None


Probed = dict[str, ProbeReplies]


def solved_probes(draft: Draft, replies: Mapping[str, str | None]) -> Probed:
    """What the replies to the probes of one item come to."""
    solved: Probed = {}
    for probe in (NO_IMAGE, OPTIONS_ONLY):
        right = missing = 0
        for turn in range(len(draft.options)):
            options, letter = rotated(draft, turn)
            reply = replies[f"{probe}/{turn}/{draft.id}"]
            missing += reply is None
            right += bool(reply) and grade(reply or "", letter, options).outcome == "right"
        undecided = right < NEEDED <= right + missing
        solved[probe] = ProbeReplies(
            None if undecided else right >= NEEDED, None if missing else right / len(draft.options)
        )
    key = draft.options[LETTERS.index(draft.answer)]
    reply = replies[f"{QUESTION_ONLY}/0/{draft.id}"]
    answer_text = None if reply is None else normal(reply).rstrip(".")
    same = None if answer_text is None else answer_text == normal(key).rstrip(".") != ""
    solved[QUESTION_ONLY] = ProbeReplies(same, None if same is None else float(same))
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


# Rates of the probes over all accepted items, flagged, dropped or neither.


@dataclass(frozen=True)
class ProbeRate:
    """One probe on the accepted items. ``undecided``: items of which replies are missing that would decide
    the flag. ``right``: share of right replies on the ``answered`` items, of which no reply is missing,
    with an ``interval`` over articles by ``method``. ``chance``: what guessing gets; ``p``: whether the
    share differs from it, two-sided, Student's t over articles, Holm over the probes; None where nothing
    is guessed, or all items are of one article."""

    probe: str
    items: int
    flagged: int
    undecided: int
    answered: int
    right: float | None
    interval: list[float] | None
    method: str
    chance: float | None
    p: float | None


def probe_rates(run: Run) -> list[ProbeRate]:
    """Empty where no shortcut was looked for. The rule that code applies has no replies."""
    if not finished(run, SynthStage.SHORTCUT):
        return []
    articles = {row["id"]: row["article"] for row in read_rows(run, SynthStage.SELECT)}
    figures = {row["id"]: row["figure"] for row in read_rows(run, SynthStage.GENERATE)}
    flags: dict[str, list[bool | None]] = defaultdict(list)
    right: dict[str, list[float]] = defaultdict(list)
    clusters: dict[str, list[str]] = defaultdict(list)
    for row in read_rows(run, SynthStage.SHORTCUT):
        for probe, solved in row["probes"]:
            flags[probe].append(solved)
        for probe, share in row.get("right") or ():
            if share is not None:
                right[probe].append(share)
                clusters[probe].append(articles[figures[row["id"]]])
    tested = [probe for probe in (NO_IMAGE, OPTIONS_ONLY) if len(set(clusters.get(probe, ()))) > 1]
    raw = [
        cluster_mean_test([share - CHANCE for share in right[probe]], clusters[probe]).p
        for probe in tested
    ]
    p_values = dict(zip(tested, holm(raw), strict=True))
    rates = []
    for probe, solved in flags.items():
        rate = cluster_rate(right[probe], clusters[probe])
        rates.append(
            ProbeRate(
                probe,
                len(solved),
                solved.count(True),
                solved.count(None),
                len(right[probe]),
                rate["rate"],
                rate["interval"],
                rate["method"],
                CHANCE if probe in (NO_IMAGE, OPTIONS_ONLY) else None,
                p_values.get(probe),
            )
        )
    return rates


# Rules that choose an option without image and model: what they get right is given away by the wording.


@dataclass(frozen=True)
class BlindItem:
    question: str
    options: tuple[str, ...]
    answer: str  # a letter
    cluster: str  # items of one article are not independent


@dataclass(frozen=True)
class BlindRule:
    """``items``: those on which the rule chooses at all; ``right``: the share that it gets right, where
    options that it cannot tell apart share an item."""

    rule: str
    items: int
    right: float
    interval: list[float] | None  # over articles; None where there is one alone
    method: str  # of the interval


def blind_rules(items: Sequence[BlindItem]) -> list[dict[str, Any]]:
    """How often each rule is right; guessing is right in one of five. No rule names a letter: the most frequent
    letter is known only by counting, and the letters were balanced on purpose."""
    rules: Mapping[str, Callable[[BlindItem], Iterable[int] | None]] = {
        "longest option": lambda item: _most([len(option) for option in item.options]),
        "shortest option": lambda item: _most([-len(option) for option in item.options]),
        "most words of the question": _shared_words,
        "smallest number": lambda item: _number(item, -1),
        "largest number": lambda item: _number(item, 1),
    }
    return [
        asdict(blind_rule)
        for name, rule in rules.items()
        if (blind_rule := _measured(name, rule, items))
    ]


def _measured(
    name: str, rule: Callable[[BlindItem], Iterable[int] | None], items: Sequence[BlindItem]
) -> BlindRule | None:
    points: list[float] = []
    clusters: list[str] = []
    for item in items:
        chosen = rule(item)
        if chosen is not None:
            places = list(chosen)
            points.append((LETTERS.index(item.answer) in places) / len(places))
            clusters.append(item.cluster)
    if not points:
        return None
    rate = cluster_rate(points, clusters)
    return BlindRule(name, len(points), sum(points) / len(points), rate["interval"], rate["method"])


def _most(values: Sequence[float]) -> list[int]:
    return [place for place, value in enumerate(values) if value == max(values)]


def _shared_words(item: BlindItem) -> list[int] | None:
    asked = content_words(item.question)
    shared = [len(content_words(option) & asked) for option in item.options]
    return _most(shared) if any(shared) else None


def _number(item: BlindItem, sign: int) -> list[int] | None:
    values = numbers_of(item.options)
    return None if values is None else _most([sign * value for value in values])


# Reasoning traces for published items: kept only where they can be parsed and their answer is right.


TRACE_TEMPLATE = "heldout-trace/1"
_WHOLE = re.compile(
    r"\s*<think>(.+?)</think>\s*<answer>\s*\(?([A-E])\b[^<]*</answer>\s*", re.DOTALL
)
_ASK = """\
{question}
{options}

Think about the question step by step inside <think> and </think>, from what the images show. \
Then give the letter of \
the right option inside <answer> and </answer>."""


NO_REPLY, CUT_OFF, OTHER_FORM, WRONG = "no reply", "cut off", "other form", "wrong answer"


@dataclass(frozen=True)
class Traces:
    """``kept``: by item the trace that leads to the right answer; ``left_out``: by reason how many items
    have none, of ``asked`` for which a trace was asked for."""

    asked: int = 0
    kept: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, int] = field(default_factory=dict)


def read_traces(context: StageContext, ranks: Mapping[str, int]) -> Traces:
    """Nothing asked and nothing kept where no model writes traces."""
    settings = context.settings.traces
    if settings is None:
        return Traces()
    kept: dict[str, str] = {}
    left_out: Counter[str] = Counter()
    items = (item for item in balanced_items(context.run) if item.draft.id in ranks)
    depends = {"template": TRACE_TEMPLATE}
    with StageModel(context, "traces", settings, "publish", depends) as model:
        while batch := list(itertools.islice(items, BATCH)):
            prompts = {item.draft.id: _prompt(context, item) for item in batch}
            answered = model.ask(prompts, "writing traces", "traces")
            for item in batch:
                reply = answered.replies.get(item.draft.id)
                trace, why = read_trace(reply, item.draft.answer) if reply else ("", NO_REPLY)
                if trace:
                    kept[item.draft.id] = trace
                else:
                    left_out[why] += 1
    return Traces(len(kept) + left_out.total(), kept, dict(left_out.most_common()))


def read_trace(reply: Reply, answer: str) -> tuple[str, str]:
    """The reasoning, if the whole reply has the form and ends in the right answer; else why not."""
    if reply.finish != STOPPED:
        return "", CUT_OFF
    match = _WHOLE.fullmatch(reply.text)
    trace = " ".join(match[1].split()) if match else ""
    if match is None or not trace or "<think>" in trace or "<answer>" in trace:
        return "", OTHER_FORM
    return (trace, "") if match[2] == answer else ("", WRONG)


def _prompt(context: StageContext, item: BalancedItem) -> Prompt:
    shown = "\n".join(
        f"{letter}. {option}" for letter, option in zip(LETTERS, item.draft.options, strict=True)
    )
    text = _ASK.format(question=item.draft.question, options=shown)
    images = figure_images(item.figure, context.run.path)
    return Prompt(Request(item.draft.id, (*images, Text(text))))
