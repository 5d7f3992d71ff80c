"""The dataset card: README.md with the front matter that the Hugging Face hub reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup

from heldout.errors import counted
from heldout.report.environment import templates
from heldout.report.synthesis import SynthesisFacts
from heldout.report.synthesis_samples import Sample
from heldout.report.visible import visible
from heldout.synth.rubric import CRITERIA, RUBRIC

_SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"))
_SHOWN = 2  # items on the card
_SPECIAL = re.compile(r"([\\`*_{}\[\]|#<>~])")
_ROLES = {
    "generator": "Written by",
    "verifier": "Verified by",
    "shortcut": "Answered without the image by",
    "traces": "Reasoning traces by",
}


def dataset_card(facts: SynthesisFacts, samples: Sequence[Sample]) -> str:
    """Statistics, figures, licences, how it was made, and what it is not good for."""
    licences: Mapping[str, int] = facts.statistics.get("licence", {})
    template = templates().get_template("dataset_card.md.j2")
    return template.render(
        facts=facts,
        known=facts.statistics,
        samples=[one for one in samples if not one.why][:_SHOWN],
        roles=_ROLES,
        rubric=RUBRIC,
        criteria=len(CRITERIA),
        # The folders of the machine that it was read on are nobody's business.
        source=Path(str(facts.settings.get("source", ""))).name.replace("`", "'"),
        removed=sum(sum(one.get("removed", {}).values()) for one in facts.contamination),
        size=next((name for most, name in _SIZES if facts.published < most), "n>1M"),
        pretty_name=Markup(json.dumps(facts.name)),
        licence=hub_licence(licences),
        limited=[name for name in licences if "NC" in name or "SA" in name],
        figures={one.name for one in facts.figures},
        planted=[one for one in facts.recall if not one.sound],
        counted=counted,
        md=_markdown,
        basename=lambda path: Path(path).name,
    )


def hub_licence(licences: Mapping[str, int]) -> str:
    """One licence by the hub's name for it; several, or one that the hub does not know, are ``other``."""
    ids = {_hub_name(name) for name in licences}
    return (ids.pop() if len(ids) == 1 else "") or "other"


def _hub_name(name: str) -> str:
    if name == "CC0":
        return "cc0-1.0"
    match = re.fullmatch(r"CC (BY(?:-NC|-SA)*) (\d\.\d)", name)
    return f"cc-{match[1].lower()}-{match[2]}" if match else ""


def _markdown(words: object) -> Markup:
    """Somebody else's words as plain Markdown text on one line."""
    text = str(visible(" ".join(str(words).split())))
    return Markup(_SPECIAL.sub(r"\\\1", text.replace("&", "&amp;")))
