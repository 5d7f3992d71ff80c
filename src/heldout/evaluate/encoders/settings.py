"""EncoderSettings: how a dual encoder is evaluated, once, for the command line and Python."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

SAVED = "saved:"


class EncoderTask(StrEnum):
    """What an encoder is evaluated by."""

    ZERO_SHOT = "zero-shot"  # the nearest class prompt
    PROBE = "probe"  # a linear classifier on the features of a training set
    IMAGE_TO_TEXT = "image-to-text"  # an image's own caption among all captions
    TEXT_TO_IMAGE = "text-to-image"  # a caption's own image among all images


class EncoderSettings(BaseModel):
    """Settings of ``heldout impact --encoder``."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    encoder: str
    """Encoder of pictures and texts (transformers:NAME, open_clip:MODEL/TAG), or ``saved:DIR`` with
    image and text embeddings in LAION's layout."""
    tasks: tuple[EncoderTask, ...] | None = None
    """Tasks to measure; default: all that benchmark and encoder allow."""
    label: str | None = None
    """Column with the class of an item; default: the answer, where items have no question and answers
    repeat."""
    caption: str | None = None
    """Column with an item's caption or captions; default: the first that is called so."""
    templates: str = "imagenet-80"
    """Prompts around a class name: imagenet-80 (as published), openai-7, simple, a text file with one
    template per line, or one template; ``{}`` stands for the class."""
    class_names: Path | None = None
    """Table or text file of classes and their names (label, name): every class there is a candidate."""
    class_embeddings: Path | None = None
    """With ``saved:``: text embeddings of class prompts with a column label, averaged per class."""
    train: str | None = None
    """Corpus with labels that the probe is trained on."""
    embeddings: Path | None = None
    """Folder that keeps the training features, where other runs find them; default: the run."""
    strengths: tuple[Annotated[float, Field(gt=0)], ...] = (
        0.1,
        1.0,
        10.0,
        100.0,
        1_000.0,
        10_000.0,
    )
    """Inverse regularisation of the probe to choose from, on a tenth of the training set."""
    iterations: Annotated[int, Field(ge=1)] = 1_000
    """Most steps of the probe's solver, as published."""
    queries: Annotated[int, Field(ge=2)] = 200
    """Items of one random draw from a subset, as published."""
    seed: int = 0
    """Seed of every random draw."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.is_saved and not self.encoder.removeprefix(SAVED):
            raise ValueError("encoder: expected a folder after 'saved:'")
        if self.class_embeddings is not None and not self.is_saved:
            raise ValueError("class_embeddings: a model embeds class prompts itself; leave it out")
        if self.tasks is not None and not self.tasks:
            raise ValueError(f"tasks: expected some of {', '.join(EncoderTask)}")
        if EncoderTask.PROBE in (self.tasks or ()) and self.train is None:
            raise ValueError("train: a probe needs a training set with labels; name its corpus")
        if not self.strengths:
            raise ValueError("strengths: expected one number or more")
        return self

    @property
    def is_saved(self) -> bool:
        return self.encoder.startswith(SAVED)
