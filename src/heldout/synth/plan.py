"""The requests of a synthesis and their cost, before anything is paid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heldout.model import Journal, ModelEndpoint, Prompt, Text, prompt_key
from heldout.store import Run
from heldout.synth._generate import generate_prompt, verify_prompt
from heldout.synth.context import StageContext
from heldout.synth.draft import LETTERS, Draft, PaperFigure
from heldout.synth.ledger import finished, journal_path, read_rows
from heldout.synth.settings import (
    ASKING_STAGES,
    MODEL_ROLES,
    SynthSettings,
    SynthStage,
)

CHARACTERS_PER_TOKEN = 4.0
PIXELS_PER_TOKEN = (
    784.0  # a patch of 28 × 28, as Qwen2-VL reads images; other models are within a factor of two
)
MOST_IMAGE_TOKENS = 1_280
SECONDS_PER_REQUEST = 10.0
_REPLIES = {"generate": 250, "verify": 500, "shortcut": 5, "judge": 60, "traces": 400}  # tokens
_ACCEPTED = 0.55  # of the published run: 13,087 of 23,788
_PROBES = 2 * len(LETTERS) + 1
_READ = 0.05  # of the items, the pairs that a judge of rewordings reads for each benchmark
_PAIR_TOKENS = 330  # of the prompt with two questions


@dataclass(frozen=True)
class StageCost:
    """Of a plan: requests that are left, and what they will cost; ``done``: requests whose replies the run
    folder holds. Of what was spent: all requests, with no hours. ``price`` in the currency of the
    endpoint's prices; ``hours`` with ``concurrency`` requests at a time, 10 s each."""

    stage: str
    requests: int
    prompt_tokens: int
    reply_tokens: int
    price: float
    hours: float = 0.0
    done: int = 0
    concurrency: int = 0


@dataclass(frozen=True)
class SourceCosts:
    """The cost of a source that has not been read yet. ``figures``: how many could be selected;
    ``whole``: whether all of the source was looked at."""

    figures: int
    images: int
    whole: bool
    costs: tuple[StageCost, ...]


def plan_costs(context: StageContext) -> list[StageCost]:
    """Costs of the stages that ask models, for the figures that were selected. An estimate: replies
    of usual length, the published run's acceptance, no retries; replies that are in the run folder
    already cost nothing."""
    figures = map(PaperFigure.of_row, read_rows(context.run, SynthStage.SELECT))
    return _stage_costs(context.settings, figures, _Earlier.read(context.run, context.settings))


def plan_assumptions(costs: Sequence[StageCost]) -> str:
    """The assumptions of the estimate, as a sentence; empty if no model is asked."""
    if not costs:
        return ""
    replies = ", ".join(f"{_REPLIES[cost.stage]} ({cost.stage})" for cost in costs)
    at_a_time = ", ".join(f"{cost.concurrency} ({cost.stage})" for cost in costs)
    if len({cost.concurrency for cost in costs}) == 1:
        at_a_time = str(costs[0].concurrency)
    judged = any(cost.stage == "judge" for cost in costs)
    read = f"{100 * _READ:.0f} % of items read by the judge for each benchmark; " if judged else ""
    return (
        f"assumed: {SECONDS_PER_REQUEST:g} s a request, {at_a_time} at a time; tokens of a reply: "
        f"{replies}; {100 * _ACCEPTED:.0f} % of items accepted; {read}no second attempts. The work of this "
        f"machine is not counted: reading, code, decontamination (docs/synth.md, Speed and memory)"
    )


def total_cost(costs: Sequence[StageCost]) -> StageCost:
    """All stages together; they run one after the other, so their hours add up."""
    return StageCost(
        "total",
        sum(cost.requests for cost in costs),
        sum(cost.prompt_tokens for cost in costs),
        sum(cost.reply_tokens for cost in costs),
        sum(cost.price for cost in costs),
        sum(cost.hours for cost in costs),
        sum(cost.done for cost in costs),
    )


def source_costs(settings: SynthSettings, most: int, run: Run | None = None) -> SourceCosts:
    """Costs by a first look at the source, of which no more than ``most`` figures are read; writes nothing and
    asks no model. ``run``: where an earlier call may have selected figures and kept replies,
    which cost nothing."""
    from heldout.synth._from_scenes import FIGURES
    from heldout.synth._select import bucket_of, figure_labels
    from heldout.synth.ingest import SCENES, read_figures, refusal

    if settings.source == SCENES:
        count = settings.limit or FIGURES
        return SourceCosts(count, count, True, ())
    earlier = None if run is None else _Earlier.read(run, settings)
    if run is not None and _are_selected(run, settings):
        figures = list(map(PaperFigure.of_row, read_rows(run, SynthStage.SELECT)))
        return _source_costs(settings, figures, True, earlier)
    limit = most if settings.limit is None else min(most, settings.limit)
    usable = (
        figure
        for figure in read_figures(settings, Path())
        if isinstance(figure, PaperFigure)
        and refusal(figure, settings) is None
        and bucket_of(*figure_labels(figure), settings) is not None
    )
    figures = list(itertools.islice(usable, limit))
    whole = next(usable, None) is None or limit == settings.limit
    return _source_costs(settings, figures, whole, earlier)


def _source_costs(
    settings: SynthSettings, figures: Sequence[PaperFigure], whole: bool, earlier: _Earlier | None
) -> SourceCosts:
    images = sum(len(figure.images) for figure in figures)
    costs = tuple(_stage_costs(settings, figures, earlier))
    return SourceCosts(len(figures), images, whole, costs)


def _are_selected(run: Run, settings: SynthSettings) -> bool:
    """Whether the run's table of selected figures is the one that these settings lead to."""
    from heldout.engine import LocalEngine
    from heldout.synth._select import SELECT
    from heldout.synth.ingest import INGEST

    context = StageContext(run, settings, LocalEngine(1))  # never started
    return all(finished(run, work.stage, work.key(context)) for work in (INGEST, SELECT))


class _Earlier:
    """What earlier calls left in the run folder: drafts, verdicts, and replies by the role that was asked.
    Without a run: nothing."""

    def __init__(self) -> None:
        self.path = Path()
        self.drafts: dict[str, Draft] | None = None
        self.accepted: dict[str, bool] = {}
        self.judged = False  # the stage that asks the judge is finished
        self.asked: dict[str, int] = {}  # requests by a role of which no prompt can be made again
        self._replies: dict[str, tuple[Journal, Mapping[str, str]]] = {}

    @classmethod
    def read(cls, run: Run, settings: SynthSettings) -> _Earlier:
        earlier = cls()
        earlier.path = run.path
        if finished(run, SynthStage.GENERATE):
            rows = map(Draft.of_row, read_rows(run, SynthStage.GENERATE))
            earlier.drafts = {draft.figure: draft for draft in rows}
        if finished(run, SynthStage.VERIFY):
            verdicts = read_rows(run, SynthStage.VERIFY)
            earlier.accepted = {row["id"]: row["accepted"] for row in verdicts}
        known = run.manifest().get("synth", {})
        for role in MODEL_ROLES:
            endpoint: ModelEndpoint | None = getattr(settings, role)
            asked_as = known.get(role, {}).get("asked_as")
            path = journal_path(run, role)
            if endpoint is None or asked_as is None or not path.exists():
                continue
            now = {"max_new_tokens": str(endpoint.max_tokens), "seed": str(settings.seed)}
            now |= {} if endpoint.model is None else {"model": endpoint.model}
            earlier._replies[role] = journal, _ = (Journal(path), {**asked_as, **now})
            if {**asked_as, **now} == asked_as:
                earlier.asked[role] = len(journal)
                if role == "judge" and finished(run, SynthStage.DECONTAMINATE):
                    earlier.judged = True
        return earlier

    def left(self, role: str, requests: int, tokens: int) -> _Asked:
        """``requests`` of so many ``tokens`` each, less those whose replies are kept."""
        done = self.asked.get(role, 0)
        left = max(0, requests - done)
        return _Asked(left, left * tokens, done)

    def has(self, role: str, prompt: Prompt) -> bool:
        if role not in self._replies:
            return False
        journal, identity = self._replies[role]
        return prompt_key(identity, prompt, lambda image: image.name) in journal


@dataclass
class _Asked:
    """Requests of one role: those to be made with their tokens, and those that were."""

    requests: int = 0
    prompt_tokens: int = 0
    done: int = 0

    def add(self, tokens: int, done: bool) -> None:
        self.done += done
        self.requests += not done
        self.prompt_tokens += 0 if done else tokens


def _stage_costs(
    settings: SynthSettings, selected: Iterable[PaperFigure], earlier: _Earlier | None = None
) -> list[StageCost]:
    earlier = earlier or _Earlier()
    work = {role: _Asked() for role in MODEL_ROLES}
    unknown = accepted = image_tokens = figures = 0
    for figure in selected:
        figures += 1
        image_tokens += _image_tokens(figure)
        prompt = generate_prompt(figure, earlier.path, settings.conditioning)
        written = earlier.has("generator", prompt)
        work["generator"].add(_tokens(prompt, figure), written)
        draft = (earlier.drafts or {}).get(figure.id)
        if draft is None and written and earlier.drafts is not None:
            continue  # no readable reply
        usual = Draft("x", figure.id, "x" * 150, ("x" * 30,) * len(LETTERS), "A")
        prompt = verify_prompt(draft or usual, figure, earlier.path)
        judged = earlier.has("verifier", prompt)
        work["verifier"].add(_tokens(prompt, figure), judged)
        if draft is None or draft.id not in earlier.accepted or not judged:
            unknown += 1
        elif earlier.accepted[draft.id]:
            from heldout.synth.shortcut import shortcut_prompts  # with what its tests need

            accepted += 1
            for probe in shortcut_prompts(draft).values():
                work["shortcut"].add(_tokens(probe, figure), earlier.has("shortcut", probe))
    guessed = math.ceil(round(unknown * _ACCEPTED, 6))
    work["shortcut"].requests += guessed * _PROBES
    work["shortcut"].prompt_tokens += guessed * _PROBES * 120
    items = accepted + guessed
    pairs = 0 if earlier.judged else math.ceil(items * _READ) * len(settings.against)
    work["judge"] = earlier.left("judge", pairs, _PAIR_TOKENS)
    work["traces"] = earlier.left("traces", items, image_tokens // max(1, figures) + 150)
    return list(_costs(settings, work))


def _costs(settings: SynthSettings, work: Mapping[str, _Asked]) -> Iterator[StageCost]:
    for (role, asked), stage in zip(work.items(), ASKING_STAGES, strict=True):
        endpoint: ModelEndpoint | None = getattr(settings, role)
        if endpoint is None or stage not in settings.stages_to_run:
            continue
        name = _stage_of(role, str(stage))
        requests, prompt_tokens = asked.requests, asked.prompt_tokens
        replies = requests * _REPLIES[name]
        price = (prompt_tokens * endpoint.price_in + replies * endpoint.price_out) / 1e6
        rounds = math.ceil(requests / endpoint.concurrency)
        seconds = rounds * SECONDS_PER_REQUEST
        if endpoint.requests_per_second is not None:
            seconds = max(seconds, requests / endpoint.requests_per_second)
        if endpoint.tokens_per_minute is not None:
            seconds = max(seconds, 60 * (prompt_tokens + replies) / endpoint.tokens_per_minute)
        yield StageCost(
            name,
            requests,
            prompt_tokens,
            replies,
            price,
            seconds / 3600,
            asked.done,
            endpoint.concurrency,
        )


def _tokens(prompt: Prompt, figure: PaperFigure) -> int:
    letters = sum(len(part.text) for part in prompt.request.content if isinstance(part, Text))
    images = _image_tokens(figure) if prompt.request.images else 0
    return math.ceil(letters / CHARACTERS_PER_TOKEN) + images


def _image_tokens(figure: PaperFigure) -> int:
    return sum(
        min(MOST_IMAGE_TOKENS, math.ceil(image.width * image.height / PIXELS_PER_TOKEN))
        for image in figure.images
    )


def _stage_of(role: str, stage: str) -> str:
    """Judge and traces belong to stages that do more, and are counted under their own names."""
    return role if role in ("judge", "traces") else stage


def spent_costs(run: Run) -> list[StageCost]:
    """What was spent, from the manifest: the real counterpart of ``plan_costs``."""
    known = run.manifest().get("synth", {})
    return [
        StageCost(
            _stage_of(role, spent["stage"]),
            spent["requests"],
            spent["prompt_tokens"],
            spent["reply_tokens"],
            spent["price"],
        )
        for role in MODEL_ROLES
        if (spent := known.get(role, {}).get("spent")) is not None
    ]


def costs_as_json(costs: list[StageCost]) -> list[dict[str, Any]]:
    return [asdict(cost) for cost in costs]
