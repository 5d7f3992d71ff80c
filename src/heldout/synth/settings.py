"""SynthSettings: every setting of ``heldout synth``, once, for the command line, the audit file and
Python."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from heldout.model import ModelEndpoint
from heldout.settings import Settings


class SynthStage(StrEnum):
    """The stages in the order in which an item goes through them."""

    INGEST = "ingest"
    SELECT = "select"
    GENERATE = "generate"
    VERIFY = "verify"
    SHORTCUT = "shortcut"
    BALANCE = "balance"
    DECONTAMINATE = "decontaminate"
    PUBLISH = "publish"


NOT_SELECTED = "label not selected"  # why select drops a figure of another kind
SCENES = "scenes"  # a source that is rendered, not read
# Settings that are models, in the order in which they are asked, and the stages that ask them.
MODEL_ROLES = ("generator", "verifier", "shortcut", "judge", "traces")
ASKING_STAGES = (
    SynthStage.GENERATE,
    SynthStage.VERIFY,
    SynthStage.SHORTCUT,
    SynthStage.DECONTAMINATE,
    SynthStage.PUBLISH,
)


class Conditioning(StrEnum):
    """What the generator sees of a figure: Table 2 of the MedVLSynther paper compares them."""

    CONTEXT = (
        "context"  # images, caption and the paragraphs that mention the figure, under the rubric
    )
    IMAGE_CAPTION = "image-caption"  # images and caption, PMC-VQA's style
    CAPTION = "caption"  # the caption alone, PMC-VQA's text-only style


class Normalisation(StrEnum):
    """How points become a score between 0 and 1."""

    BONUS_ONLY = "bonus-only"  # the paper's equation 2: bonuses and penalties over bonus weights
    WITH_ESSENTIALS = (
        "with-essentials"  # what its published code does: essentials count on both sides
    )


class SynthSettings(Settings):
    """Settings of ``heldout synth``."""

    source: str
    """JATS XML with image folders, PMC .tar.gz packages, Biomedica WebDataset shards, a folder of captioned
    figures, or ``scenes`` for rendered figures with exact truth."""
    generator: ModelEndpoint | None = None
    """Writes the items. Not needed for ``scenes``."""
    verifier: ModelEndpoint | None = None
    """Checks the items; should be another model than the generator."""
    shortcut: ModelEndpoint | None = None
    """Answers without the image, with the options alone and with the question alone."""
    against: tuple[str, ...] = ()
    """Benchmarks that the dataset must not overlap."""
    stages: tuple[SynthStage, ...] = ()
    """Stages to run, in order; earlier ones must have been run in this folder. Default: all; without
    against all but decontaminate."""
    limit: Annotated[int, Field(ge=1)] | None = None
    """Select at most this many figures."""
    seed: int = 42
    """Seed of every draw; 42 is that of the published run."""
    name: str = "heldout-synth"
    """Name of the published dataset."""

    plant: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of items with a planted fault, to measure the funnel; only with the source ``scenes``."""

    # ingest and select
    shortest_side: Annotated[int, Field(ge=1)] = 28
    """Shortest side of an image in pixels."""
    most_images: Annotated[int, Field(ge=1)] = 6
    """Most images of one caption."""
    any_licence: bool = False
    """Keep figures that could not be published: of a forbidding or unknown licence, of another owner, or
    without the attribution that their licence requires."""
    labels: tuple[str, ...] = ()
    """Primary or secondary labels to keep; default: clinical imaging with its subtypes, light
    microscopy, and microscopy of no stated kind."""
    quota: Annotated[int, Field(ge=1)] | None = None
    """Most figures per label; default: equal shares of the limit."""
    image_shares: tuple[float, ...] = (0.90, 0.02, 0.02, 0.02, 0.02, 0.02)
    """Share of figures with one, two, … images."""

    # generate and verify
    conditioning: Conditioning = Conditioning.CONTEXT
    """What the generator sees."""
    attempts: Annotated[int, Field(ge=1, le=10)] = 3
    """Most requests for one item whose reply cannot be read."""
    normalisation: Normalisation = Normalisation.BONUS_ONLY
    """How rubric points become a score."""
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.9670
    """Least score of an accepted item."""
    same_model: bool = False
    """Allow the verifier to be the generator."""

    # shortcut and balance
    drop_shortcuts: bool = False
    """Drop items that can be solved without the image, instead of flagging them."""
    subsets: tuple[int, ...] = (1_000, 2_000, 5_000, 10_000)
    """Sizes of the nested subsets."""

    # decontaminate
    image_encoder: str | None = "pixels"
    """Encoder for near neighbours of images; ``none``: compare hashes only."""
    text_encoder: str | None = None
    """Encoder for reworded texts; default: the best one installed."""
    judge: ModelEndpoint | None = None
    """Reads items whose question may be a rewording of a benchmark's, and says whether both ask the same."""
    traces: ModelEndpoint | None = None
    """Writes a reasoning trace per item; kept only where it can be parsed and its answer is right."""

    @field_validator("source", mode="before")
    @classmethod
    def _path_as_text(cls, value: Any) -> Any:
        return _text(value)

    @field_validator("stages", mode="before")
    @classmethod
    def _between_commas(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value

    @field_validator("labels", "against", mode="before")
    @classmethod
    def _several(cls, value: Any) -> Any:
        """A single text is a list of one, not a list of letters."""
        if isinstance(value, str | os.PathLike):
            return (_text(value),)
        return tuple(map(_text, value)) if isinstance(value, list | tuple) else value

    @property
    def stages_to_run(self) -> tuple[SynthStage, ...]:
        """Those asked for, or all that these settings allow."""
        cleaned = SynthStage.DECONTAMINATE
        return self.stages or tuple(
            synth_stage for synth_stage in SynthStage if synth_stage != cleaned or self.against
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if abs(sum(self.image_shares) - 1.0) > 1e-9 or min(self.image_shares) < 0:
            raise ValueError("image_shares: expected shares of 0 or more that add up to 1")
        if self.plant and self.source != "scenes":
            raise ValueError("plant: faults are planted into the source 'scenes' only")
        if list(self.stages) != sorted(set(self.stages), key=list(SynthStage).index):
            raise ValueError(f"stages: expected each once, in the order {', '.join(SynthStage)}")
        return self


def _text(value: Any) -> Any:
    return os.fspath(value) if isinstance(value, os.PathLike) else value
