"""The prompts of a benchmark's first items, for a person to look at before a model does."""

from __future__ import annotations

from collections.abc import Sequence

from heldout.benchmark import Benchmark
from heldout.image import ImageRef
from heldout.model.asking.plan import parse_variants
from heldout.model.asking.template import write
from heldout.model.asking.variants import expand


def shown_prompts(
    benchmark: Benchmark, count: int, variants: str = "original"
) -> list[dict[str, str]]:
    """Prompt and key of the first ``count`` items, word for word as a model is asked; an item that
    cannot be asked has its reason instead."""
    examples = benchmark.examples[:count]
    asked = expand(benchmark, examples, parse_variants(variants))
    shown = [
        {
            "id": question.benchmark_id,
            "variant": question.variant,
            "prompt": "".join(
                f"{_named(part, question.images)}\n" if isinstance(part, ImageRef) else part.text
                for part in write(question).content
            ),
            "answer": question.gold,
        }
        for question in asked.questions
    ]
    shown += [
        {"id": lost.id, "variant": variants, "not asked": f"{lost.reason} ({lost.detail})"}
        for lost in asked.dropped
    ]
    order = {example.id: place for place, example in enumerate(examples)}
    return sorted(shown, key=lambda prompt: order[prompt["id"]])


def _named(picture: ImageRef, pictures: Sequence[ImageRef]) -> str:
    """Pictures of one row may share a name: where there are several, each has its number."""
    number = f" {list(pictures).index(picture) + 1}" if len(pictures) > 1 else ""
    return f"[picture{number}: {picture.name}]"
