"""EncoderSettings: how a dual encoder is evaluated, once, for the command line and Python."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, model_validator

from heldout.errors import InputError
from heldout.settings import Settings

SAVED = "saved:"


class EncoderTask(StrEnum):
    """What an encoder is evaluated by."""

    ZERO_SHOT = "zero-shot"  # the nearest class prompt
    PROBE = "probe"  # a linear classifier on the features of a training set
    IMAGE_TO_TEXT = "image-to-text"  # an image's own caption among all captions
    TEXT_TO_IMAGE = "text-to-image"  # a caption's own image among all images


class EncoderSettings(Settings):
    """Settings of ``heldout impact --encoder``."""

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
    template per line, or one template; ``{}`` is replaced by the class."""
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


# Prompt templates: the sentences a class name is put into.


# CLIP's prompts for ImageNet, word for word (github.com/openai/CLIP, Prompt_Engineering_for_ImageNet).
IMAGENET_80 = (
    "a bad photo of a {}.",
    "a photo of many {}.",
    "a sculpture of a {}.",
    "a photo of the hard to see {}.",
    "a low resolution photo of the {}.",
    "a rendering of a {}.",
    "graffiti of a {}.",
    "a bad photo of the {}.",
    "a cropped photo of the {}.",
    "a tattoo of a {}.",
    "the embroidered {}.",
    "a photo of a hard to see {}.",
    "a bright photo of a {}.",
    "a photo of a clean {}.",
    "a photo of a dirty {}.",
    "a dark photo of the {}.",
    "a drawing of a {}.",
    "a photo of my {}.",
    "the plastic {}.",
    "a photo of the cool {}.",
    "a close-up photo of a {}.",
    "a black and white photo of the {}.",
    "a painting of the {}.",
    "a painting of a {}.",
    "a pixelated photo of the {}.",
    "a sculpture of the {}.",
    "a bright photo of the {}.",
    "a cropped photo of a {}.",
    "a plastic {}.",
    "a photo of the dirty {}.",
    "a jpeg corrupted photo of a {}.",
    "a blurry photo of the {}.",
    "a photo of the {}.",
    "a good photo of the {}.",
    "a rendering of the {}.",
    "a {} in a video game.",
    "a photo of one {}.",
    "a doodle of a {}.",
    "a close-up photo of the {}.",
    "a photo of a {}.",
    "the origami {}.",
    "the {} in a video game.",
    "a sketch of a {}.",
    "a doodle of the {}.",
    "a origami {}.",
    "a low resolution photo of a {}.",
    "the toy {}.",
    "a rendition of the {}.",
    "a photo of the clean {}.",
    "a photo of a large {}.",
    "a rendition of a {}.",
    "a photo of a nice {}.",
    "a photo of a weird {}.",
    "a blurry photo of a {}.",
    "a cartoon {}.",
    "art of a {}.",
    "a sketch of the {}.",
    "a embroidered {}.",
    "a pixelated photo of a {}.",
    "itap of the {}.",
    "a jpeg corrupted photo of the {}.",
    "a good photo of a {}.",
    "a plushie {}.",
    "a photo of the nice {}.",
    "a photo of the small {}.",
    "a photo of the weird {}.",
    "the cartoon {}.",
    "art of the {}.",
    "a drawing of the {}.",
    "a photo of the large {}.",
    "a black and white photo of a {}.",
    "the plushie {}.",
    "a dark photo of a {}.",
    "itap of a {}.",
    "graffiti of the {}.",
    "a toy {}.",
    "itap of my {}.",
    "a photo of a cool {}.",
    "a photo of a small {}.",
    "a tattoo of the {}.",
)
# The seven that the same notebook selects from them.
OPENAI_7 = (
    "itap of a {}.",
    "a bad photo of the {}.",
    "a origami {}.",
    "a photo of the large {}.",
    "a {} in a video game.",
    "art of the {}.",
    "a photo of the small {}.",
)
NAMED = {"imagenet-80": IMAGENET_80, "openai-7": OPENAI_7, "simple": ("a photo of a {}.",)}


def read_templates(setting: str) -> tuple[str, ...]:
    """Templates by their name, from a file with one per line, or the one that ``setting`` is."""
    if setting in NAMED:
        return NAMED[setting]
    if "{}" in setting:
        return (setting,)
    path = Path(setting)
    if not path.is_file():
        raise InputError(
            f"templates '{setting}': expected one of {', '.join(NAMED)}, a text file with one template "
            f"per line, or a template with {{}} where the class name goes"
        )
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable text file ({error})") from error
    templates = tuple(dict.fromkeys(line for line in lines if line and not line.startswith("#")))
    for number, line in enumerate(lines, 1):
        if line in templates and line.count("{}") != 1:
            raise InputError(
                f"{path} line {number}: expected one {{}} where the class name goes, found '{line}'"
            )
    if not templates:
        raise InputError(f"{path}: expected one template per line; it holds none")
    return templates


def prompts(template: str, name: str) -> str:
    return template.replace("{}", name)
