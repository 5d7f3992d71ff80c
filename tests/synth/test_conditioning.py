"""The generators of the paper's Table 2: what each of them is shown, and that their replies do not mix."""

from __future__ import annotations

from pathlib import Path

import pytest
from item_serving import ItemServer
from test_fence import figure, words

from heldout.image import ImageRef
from heldout.synth import Conditioning, SynthStage, synth
from heldout.synth._generate import ARCHETYPES, generate_prompt

FIRST = (SynthStage.INGEST, SynthStage.SELECT, SynthStage.GENERATE)
SHOWN = {  # images, mentions, rubric
    Conditioning.CONTEXT: (1, True, True),
    Conditioning.IMAGE_CAPTION: (1, False, False),
    Conditioning.CAPTION: (0, False, False),
}


@pytest.mark.parametrize("conditioning", list(Conditioning))
def test_a_generator_sees_what_its_name_says(conditioning: Conditioning) -> None:
    shown = figure("Cells of the cortex.", ("Figure 1 shows the mention.",))
    parts = generate_prompt(shown, Path(), conditioning).request.content
    text = words(*parts)
    images = sum(isinstance(part, ImageRef) for part in parts)
    rubric = all(question in text for question in ARCHETYPES.values())
    assert (images, "the mention" in text, rubric) == SHOWN[conditioning]
    assert "Cells of the cortex." in text


def test_every_generator_pays_for_its_own_replies(
    captioned: Path, item_server: ItemServer, tmp_path: Path
) -> None:
    """The text-only one is sent no image; a run that goes back to an earlier one asks nobody again."""
    generator = {"url": item_server.url("plain", "writer")}
    made = {}
    for conditioning in (*Conditioning, Conditioning.CONTEXT):
        made[conditioning] = synth(
            source=str(captioned),
            generator=generator,
            conditioning=conditioning,
            labels=("all",),
            stages=FIRST,
            limit=4,
            out=tmp_path / "run",
            quiet=True,
        )
        spent = {cost.stage: cost for cost in made[conditioning].spent}["generate"]
        seen = SHOWN[conditioning][0]
        assert (spent.requests, spent.prompt_tokens) == (4, 4 * (200 + 300 * seen))
    assert item_server.counts()["answered"] == 3 * 4
    assert item_server.counts()["most"] == 1
