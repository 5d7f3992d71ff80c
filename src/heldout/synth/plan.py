"""What a synthesis will ask for, and what that costs, before anything is paid."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from heldout.model.reply import Prompt
from heldout.model.request import Text
from heldout.store import Run
from heldout.synth.context import StageContext
from heldout.synth.draft import LETTERS, Draft, PaperFigure
from heldout.synth.ledger import read_rows
from heldout.synth.prompts import generate_prompt, verify_prompt
from heldout.synth.settings import MODEL_ROLES, ModelEndpoint, SynthSettings, SynthStage

CHARACTERS_PER_TOKEN = 4.0
PIXELS_PER_TOKEN = (
    784.0  # a patch of 28 × 28, as Qwen2-VL reads images; other models are within a factor of two
)
MOST_IMAGE_TOKENS = 1_280
SECONDS_PER_REQUEST = 10.0
_REPLIES = {SynthStage.GENERATE: 250, SynthStage.VERIFY: 500, SynthStage.SHORTCUT: 5}  # tokens
_ACCEPTED = 0.55  # of the published run: 13,087 of 23,788
_PROBES = 2 * len(LETTERS) + 1


@dataclass(frozen=True)
class StageCost:
    """``price`` in the currency of the endpoint's prices; ``hours`` at its concurrency, 10 s a request; 0
    for what was spent."""

    stage: str
    requests: int
    prompt_tokens: int
    reply_tokens: int
    price: float
    hours: float


@dataclass(frozen=True)
class SourceCosts:
    """What a source that nobody has read yet would cost. ``figures``: how many could be selected;
    ``whole``: whether all of the source was looked at."""

    figures: int
    images: int
    whole: bool
    costs: tuple[StageCost, ...]


def plan_costs(context: StageContext) -> list[StageCost]:
    """Costs of the stages that ask models, for the figures that were selected. An estimate: replies
    of usual length, the published run's acceptance, no retries; replies that are in the run folder
    already cost nothing."""
    return _stage_costs(
        context.settings, map(PaperFigure.of_row, read_rows(context.run, SynthStage.SELECT))
    )


def source_costs(settings: SynthSettings, most: int) -> SourceCosts:
    """Costs by a first look at the source, of which no more than ``most`` figures are read; writes
    nothing and asks nobody."""
    from heldout.synth.from_scenes import FIGURES
    from heldout.synth.ingest import SCENES, read_figures, refusal
    from heldout.synth.select import bucket_of, figure_labels

    if settings.source == SCENES:
        count = settings.limit or FIGURES
        return SourceCosts(count, count, True, ())
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
    images = sum(len(figure.images) for figure in figures)
    return SourceCosts(len(figures), images, whole, tuple(_stage_costs(settings, figures)))


def _stage_costs(settings: SynthSettings, selected: Iterable[PaperFigure]) -> list[StageCost]:
    generate = verify = figures = 0
    for figure in selected:
        figures += 1
        generate += _tokens(generate_prompt(figure, Path(), settings.conditioning), figure)
        generate -= 0 if settings.conditioning != "caption" else _image_tokens(figure)
        draft = Draft("x", figure.id, "x" * 150, ("x" * 30,) * len(LETTERS), "A")
        verify += _tokens(verify_prompt(draft, figure, Path()), figure)
    accepted = math.ceil(figures * _ACCEPTED)
    return list(
        _costs(settings, (
            (SynthStage.GENERATE, settings.generator, figures, generate),
            (SynthStage.VERIFY, settings.verifier, figures, verify),
            (SynthStage.SHORTCUT, settings.shortcut, accepted * _PROBES, accepted * _PROBES * 120),
        ))
    )  # fmt: skip


def _costs(
    settings: SynthSettings, work: tuple[tuple[SynthStage, ModelEndpoint | None, int, int], ...]
) -> Iterator[StageCost]:
    for stage, endpoint, requests, prompt_tokens in work:
        if endpoint is None or stage not in settings.stages_to_run:
            continue
        replies = requests * _REPLIES[stage]
        price = (prompt_tokens * endpoint.price_in + replies * endpoint.price_out) / 1e6
        seconds = requests * SECONDS_PER_REQUEST / endpoint.concurrency
        if endpoint.requests_per_second is not None:
            seconds = max(seconds, requests / endpoint.requests_per_second)
        if endpoint.tokens_per_minute is not None:
            seconds = max(seconds, 60 * (prompt_tokens + replies) / endpoint.tokens_per_minute)
        yield StageCost(str(stage), requests, prompt_tokens, replies, price, seconds / 3600)


def _tokens(prompt: Prompt, figure: PaperFigure) -> int:
    letters = sum(len(part.text) for part in prompt.request.content if isinstance(part, Text))
    return math.ceil(letters / CHARACTERS_PER_TOKEN) + _image_tokens(figure)


def _image_tokens(figure: PaperFigure) -> int:
    return sum(
        min(MOST_IMAGE_TOKENS, math.ceil(image.width * image.height / PIXELS_PER_TOKEN))
        for image in figure.images
    )


def spent_costs(run: Run) -> list[StageCost]:
    """What was spent, from the manifest: the real counterpart of ``plan_costs``."""
    known = run.manifest().get("synth", {})
    return [
        StageCost(
            role if role == "traces" else spent["stage"], spent["requests"], spent["prompt_tokens"],
            spent["reply_tokens"], spent["price"], 0.0,
        )
        for role in MODEL_ROLES
        if (spent := known.get(role, {}).get("spent")) is not None
    ]  # fmt: skip


def costs_as_json(costs: list[StageCost]) -> list[dict[str, Any]]:
    return [asdict(cost) for cost in costs]
