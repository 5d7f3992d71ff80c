"""What differs between families of vision–language models. Most differ in nothing that matters here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Family:
    """``form``: the prompt of a model without a chat template, with ``{}`` where the question stands."""

    form: str = "Question: {} Answer:"
    #: What comes before the answer is read the same whatever follows, so that it can be read once.
    prefix: bool = True
    needs_picture: bool = False
    most_pictures: int | None = None
    #: The pictures' tokens stand before the text and before its first special token.
    picture_first: bool = False
    #: What the processor writes after a prompt.
    closing: str = ""
    #: The prompt is read in both directions: the model is told where the answer begins.
    answer_types: bool = False
    #: A tokenizer of its own reads the prompt for the part that looks at the picture.
    instruction: bool = False
    #: The pictures' part is a batch of pictures, so that one run serves every row.
    tower: str | None = None


_FAMILIES = {
    "blip-2": Family(needs_picture=True, most_pictures=1, picture_first=True, tower="vision_model"),
    "instructblip": Family(
        prefix=False,
        needs_picture=True,
        most_pictures=1,
        picture_first=True,
        instruction=True,
        tower="vision_model",
    ),
    "paligemma": Family(
        form="answer en {}",
        prefix=False,
        needs_picture=True,
        closing="\n",
        answer_types=True,
        tower="vision_tower",
    ),
}


def family_of(config: Any) -> Family:
    return _FAMILIES.get(getattr(config, "model_type", ""), Family())


def image_token_id(config: Any) -> int | None:
    """The id that stands once for every place a picture takes in the sequence."""
    for name in ("image_token_id", "image_token_index"):
        found = getattr(config, name, None)
        if isinstance(found, int):
            return found
    return None
