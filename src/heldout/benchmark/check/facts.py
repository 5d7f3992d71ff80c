"""Facts about a benchmark that are neither good nor bad: sizes, clusters, languages, strata."""

from __future__ import annotations

import unicodedata
from collections import Counter
from typing import Any

import numpy as np

from heldout.benchmark.benchmark import Benchmark
from heldout.benchmark.example import canonical_value
from heldout.benchmark.source import ALIASES
from heldout.image import Digests

_SCRIPTS = ("LATIN", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "CYRILLIC", "ARABIC", "HEBREW",
            "DEVANAGARI", "GREEK", "THAI")  # fmt: skip


def benchmark_facts(benchmark: Benchmark) -> dict[str, Any]:
    sizes = np.array(list(benchmark.cluster_sizes().values()))
    readable = [d for d in benchmark.digests.values() if isinstance(d, Digests)]
    return {
        "items": len(benchmark),
        "images": len({d.pixels for d in readable}) + len(benchmark.images) - len(readable),
        "images_readable": len(readable),
        "items_per_image": _per_image(benchmark),
        "clusters": len(sizes),
        "cluster_key": benchmark.cluster_key,
        "items_per_cluster": {"mean": round(float(sizes.mean()), 2), "max": int(sizes.max())},
        "multiple_choice": sum(bool(example.options) for example in benchmark),
        "scripts": dict(scripts(benchmark).most_common()),
        "languages": _column(benchmark, ALIASES["lang"]),
        "answer_types": _column(benchmark, ("answer_type",)),
        "split": benchmark.split,
        "splits": _column(benchmark, ALIASES["split"]),
        "dropped": len(benchmark.dropped),
    }


def _per_image(benchmark: Benchmark) -> dict[str, float]:
    """How many items show one picture: the cluster structure every interval has to respect."""
    shown: Counter[str] = Counter()
    for example in benchmark:
        pictures = {
            found.pixels if isinstance(found := benchmark.digests[ref], Digests) else ref.name
            for ref in example.images
        }
        shown.update(pictures)
    mean = sum(shown.values()) / len(shown) if shown else 0.0
    return {"mean": round(mean, 2), "max": max(shown.values(), default=0)}


def scripts(benchmark: Benchmark) -> Counter[str]:
    """The writing system of each question: a language model of nothing, but it never guesses."""
    return Counter(_script(example.question or example.answer or "") for example in benchmark)


def _script(text: str) -> str:
    counts: Counter[str] = Counter()
    for character in text[:400]:
        if character.isalpha():
            name = unicodedata.name(character, "OTHER")
            counts[next((script for script in _SCRIPTS if name.startswith(script)), "OTHER")] += 1
    return counts.most_common(1)[0][0].lower() if counts else "none"


def _column(benchmark: Benchmark, names: tuple[str, ...]) -> dict[str, int]:
    for name in names:
        values = Counter(canonical_value(example.metadata.get(name)) for example in benchmark)
        values.pop(None, None)
        if values:
            return {str(key): count for key, count in values.most_common(12)}
    return {}
