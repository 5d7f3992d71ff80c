"""What differs between families of vision–language models. Most differ in nothing that matters here."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
    #: How many places the model itself puts before the tokens it is given, for its pictures.
    places_before: int = 0
    #: The part that reads a text without a picture, and what follows one that was read already.
    reader: str | None = None
    #: What the processor writes after a prompt.
    closing: str = ""
    #: The prompt is read in both directions: the model is told where the answer begins.
    answer_types: bool = False
    #: A tokenizer of its own reads the prompt for the part that looks at the picture.
    instruction: bool = False
    #: The pictures' part is a batch of pictures, so that one run serves every row.
    tower: str | None = None


_FAMILIES = {
    "blip-2": Family(
        most_pictures=1, picture_first=True, reader="language_model", tower="vision_model"
    ),
    "instructblip": Family(
        prefix=False,
        most_pictures=1,
        picture_first=True,
        reader="language_model",
        instruction=True,
        tower="vision_model",
    ),
    # CheXagent-8b: a BLIP-2 with code of its own, and no token for pictures.
    "chexagent": Family(
        form=" USER: <s>{} ASSISTANT: <s>",
        picture_first=True,
        reader="language_model",
        tower="vision_model",
    ),
    # InternVL in the layout of its first release, with code of its own.
    "internvl_chat": Family(reader="language_model"),
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
    family = _FAMILIES.get(getattr(config, "model_type", ""), Family())
    if family.picture_first and image_token_id(config) is None:
        return replace(
            family,
            places_before=getattr(config, "num_query_tokens", 0),
            most_pictures=getattr(config, "num_max_images", family.most_pictures),
        )
    return family


def text_config(config: Any) -> Any:
    """The language model's part of a configuration."""
    return getattr(config, "llm_config", None) or config.get_text_config()


def image_token_id(config: Any) -> int | None:
    """The id that stands once for every place a picture takes in the sequence."""
    for name in ("image_token_id", "image_token_index"):
        found = getattr(config, name, None)
        if isinstance(found, int):
            return found
    return None
