"""Settings of the experiments of ``heldout lab``, once each, for the command line and Python."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from heldout.overlap import NEAREST
from heldout.settings import Settings

Side = Literal["query", "corpus"]  # which of the two is transformed


class TransformSettings(Settings):
    """Settings of ``heldout lab transforms``."""

    encoders: tuple[str, ...] = ("pixels",)
    """Encoders to study, as in ``overlap``."""
    queries: Annotated[int, Field(ge=1)] | None = None
    """Images to query with; default: all."""
    side: Side = "corpus"
    """What is transformed: the query, as in the published study, or the corpus' copy, as in an audit."""
    transforms: tuple[str, ...] = ()
    """Only these transforms; default: all."""
    verify: bool = False
    """Also let registration judge the nearest images (slower)."""
    among: tuple[str, ...] = ()
    """Other corpora to search in as well."""
    nearest: Annotated[int, Field(ge=1)] = NEAREST
    """Shortlist of each image, as in ``overlap``."""
    pairs: Annotated[int, Field(ge=0)] = 0
    """With ``verify``: about how many pairs of different images to judge."""
    group: str | None = None
    """Judge only pairs of different images that agree in this column, such as a modality."""
    degrees: dict[str, float] | None = None
    """Also measure rates at these similarities, ``hard`` and ``soft``; default: the degrees measured for
    each encoder."""
    fpr_targets: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5)
    """False-positive rates at which recall is reported."""
    block: Annotated[int, Field(ge=1)] = 1024
    """Images of the collection that are compared at a time."""
    seed: int = 0
    """Seed of every random draw."""


class DegreeSettings(Settings):
    """Settings of ``heldout lab degrees``."""

    queries: Annotated[int, Field(ge=1)] = 200
    """Images to make light copies of, in all."""
    pictures: Annotated[int, Field(ge=2)] | None = None
    """Most images of a collection; default: all."""
    seed: int = 0
    """Seed of every random draw."""


class LeakSettings(Settings):
    """Settings of ``heldout lab leaks``."""

    seeds: Annotated[int, Field(ge=1)] = 10
    """Corpora of each world."""
    worlds: tuple[str, ...] = ("scenes", "films")
    """Worlds to render."""
    each: Annotated[int, Field(ge=1)] = 2
    """Items of every kind in a corpus; the benchmark has an image for each of them."""
    reworded: Annotated[int, Field(ge=1)] = 20
    """Questions of a corpus in other words and without their picture, drawn among those that the benchmark asks of no
    other picture; fewer where there are not so many."""
    items: Annotated[int, Field(ge=1)] = 144
    """Items of a corpus."""
    encoder: str = "pixels"
    """As in ``overlap``."""
    nearest: Annotated[int, Field(ge=1)] = NEAREST
    """Neighbours of each image to verify."""
    text_encoder: str | None = None
    """As in ``overlap``: wordllama, minilm …"""


class GridSettings(Settings):
    """Settings of ``heldout lab train``."""

    bases: tuple[str, ...] = ()
    """Only these bases; default: all."""
    arms: tuple[str, ...] = ()
    """Only these arms, by name or pattern such as ``*-d10``; default: all."""
    keeps: tuple[str, ...] = ()
    """Save these models as checkpoints."""
    size: Literal["small", "medium", "larger", "toy"] = "medium"
    """Size of the models; medium: 3.3 million weights, small: 1.9."""
    images: Annotated[int, Field(ge=4)] = 96
    """Images of each benchmark."""
    pictures: Annotated[int, Field(ge=8)] = 30_000
    """Images rendered to train on, per world."""
    steps: Annotated[int, Field(ge=1)] = 2600
    """Steps of a base's training."""
    batch: Annotated[int, Field(ge=2)] = 256
    """Rows of one step."""
    real: str | None = None
    """Folder of SLAKE, for the tier of real data."""
    device: str = "auto"
    """auto, cpu, cuda …"""
    minutes: Annotated[float, Field(ge=0.01)] = 60.0
    """Begin no further model after so many minutes."""
    seed: int = 0
    """Seed of the benchmarks."""


class PowerSettings(Settings):
    """Settings of ``heldout lab power``."""

    detectors: tuple[str, ...] = ()
    """Only these detectors; default: all."""
    ways: tuple[Literal["raw", "other seeds", "same base"], ...] = (
        "raw",
        "other seeds",
        "same base",
    )
    """Detectors by themselves, compared with clean models of other seeds, or with those of the same base."""
    drawn: bool = False
    """Draw the references of other seeds, for each base anew; default: the first ones by name serve all."""
    permutations: Annotated[int, Field(ge=99)] = 999
    """Most permutations of a test."""
    seed: int = 0
    """Seed of every random draw."""


class ConformSettings(Settings):
    """Settings of ``heldout lab conform``."""

    cells: Annotated[int, Field(ge=20)] = 200
    """Clean tables on which false alarms are counted; fewer than 105 cannot show that a test is too careful."""
    power_cells: Annotated[int, Field(ge=4)] = 20
    """Tables of each dose on which power is counted."""
    doses: tuple[Annotated[float, Field(ge=0)], ...] = (0.0, 0.5, 1.0, 2.0, 4.0)
    """Planted doses, rising."""
    permutations: Annotated[int, Field(ge=99)] = 199
    """Most permutations of a test."""
    seed: int = 0
    """Seed of every random draw."""

    @model_validator(mode="after")
    def _rising(self) -> Self:
        if len(self.doses) < 2 or list(self.doses) != sorted(set(self.doses)):
            raise ValueError(f"doses: expected at least two, rising; got {self.doses}")
        return self


class ConfoundSettings(Settings):
    """Settings of ``heldout lab confound``: the constants of the published simulation."""

    items: Annotated[int, Field(ge=2)] = 1061
    """Items of the benchmark."""
    closed: Annotated[int, Field(ge=0)] = 424
    """Of them, closed questions."""
    closed_scale: Annotated[float, Field(gt=0)] = 900.0
    """Mean of the exponential easiness of closed questions."""
    noise: Annotated[float, Field(ge=0)] = 2.0
    """Standard deviation of the noise."""
    gains: tuple[float, ...] = (0.05, 0.05, 1.0, 1.0, 1.0)
    """Gain of each model."""
    offsets: tuple[float, ...] = ()
    """Offset of each model; default: all 0."""
    low_gain: float = 0.05
    """Gain of the outliers in the sweep."""
    high_gain: float = 1.0
    """Gain of the probe and of its two anchors in the sweep."""
    most_outliers: Annotated[int, Field(ge=0)] = 4
    """Most outliers in the sweep."""
    repeats: Annotated[int, Field(ge=1)] = 200
    """Draws per cohort in the sweep."""
    tail: float = 100.0
    """Δ above which an item is in the tail."""
    flag: float = 0.05
    """Share of items in the tail above which a model is flagged."""
    seed: int = 20260531
    """Seed of every random draw."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.closed > self.items:
            raise ValueError(f"closed: {self.closed} closed questions among {self.items} items")
        if len(self.gains) < 3:
            raise ValueError(f"gains: got {len(self.gains)}; a cohort has at least 3 models")
        if self.offsets and len(self.offsets) != len(self.gains):
            raise ValueError(f"offsets: got {len(self.offsets)} for {len(self.gains)} gains")
        return self
