"""Chat template, pictures and their places: what a LLaVA processor does, without transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.errors import InputError
from heldout.model.onnx.graphs import CHAT_TEMPLATE, TOKENIZER, OnnxCard, Preparation

# A picture as the numbers a vision tower reads, as transformers' Pillow processors make them.


Floats = NDArray[np.float32]


def prepare(picture: Image.Image, how: Preparation) -> Floats:
    """An RGB picture as (3, height, width)."""
    resized = picture.resize(_size(picture, how), Image.Resampling(how.resample))
    pixels = _cropped(np.asarray(resized), how.height, how.width)
    scaled = (pixels.astype(np.float64) * how.rescale_factor).astype(np.float32)
    mean, std = np.asarray(how.mean, np.float32), np.asarray(how.std, np.float32)
    normal = (scaled - mean) / std
    return np.ascontiguousarray(normal.transpose(2, 0, 1), dtype=np.float32)


def _size(picture: Image.Image, how: Preparation) -> tuple[int, int]:
    """(width, height) to resize to."""
    if how.shortest_edge is None:
        return how.width, how.height
    short = min(picture.size)
    width, height = (
        how.shortest_edge if side == short else int(how.shortest_edge * side / short)
        for side in picture.size
    )
    return width, height


def _cropped(pixels: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """The middle of a picture; black around one that is smaller."""
    short = [
        max(0, wanted - had) for wanted, had in zip((height, width), pixels.shape, strict=False)
    ]
    if any(short):
        around = [((missing + 1) // 2, missing // 2) for missing in short]
        pixels = np.pad(pixels, [*around, (0, 0)])
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    return pixels[top : top + height, left : left + width]


# The tokenizer of a folder: what prompts, layout and replies need, with the library ``tokenizers``.


class LightTokenizer:
    """Named as in transformers, so that the same code reads either."""

    def __init__(self, tokenizer: Any, card: OnnxCard) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.special_tokens_map = dict(card.named_tokens)
        self.all_special_tokens = list(card.special_tokens)
        self.bos_token = card.named_tokens.get("bos_token")
        self.eos_token = card.named_tokens.get("eos_token")

    @classmethod
    def open(cls, folder: Path, card: OnnxCard) -> LightTokenizer:
        from tokenizers import Tokenizer

        file = folder / TOKENIZER
        try:
            tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises plain Exceptions
            raise InputError(f"{file}: not a tokenizer that can be read ({error})") from error
        token_id = tokenizer.token_to_id(card.image_token)
        if token_id != card.image_token_id:
            raise InputError(
                f"{file}: the picture's token {card.image_token!r} has the id {token_id}, and the graphs "
                f"expect {card.image_token_id}: the tokenizer is of another model"
            )
        if (most := tokenizer.get_vocab_size()) > card.decoder.vocabulary:
            raise InputError(
                f"{file}: {most:,} tokens, and the decoder knows {card.decoder.vocabulary:,}: the "
                f"tokenizer is of another model"
            )
        return cls(tokenizer, card)

    @property
    def eos_token_id(self) -> int | None:
        return self._id(self.eos_token)

    @property
    def pad_token_id(self) -> int | None:
        return self._id(self.special_tokens_map.get("pad_token"))

    @property
    def all_special_ids(self) -> list[int]:
        return [
            number for name in self.all_special_tokens if (number := self._id(name)) is not None
        ]

    @property
    def added_tokens_decoder(self) -> dict[int, Any]:
        return dict(self._tokenizer.get_added_tokens_decoder())

    def get_added_vocab(self) -> dict[str, int]:
        return {token.content: number for number, token in self.added_tokens_decoder.items()}

    def convert_ids_to_tokens(self, number: int) -> str | None:
        tokens: str | None = self._tokenizer.id_to_token(number)
        return tokens

    def __call__(
        self, text: str | Sequence[str], *, add_special_tokens: bool = True, **_: Any
    ) -> dict[str, Any]:
        """``input_ids`` and ``offset_mapping``; nothing is padded or cut."""
        texts = [text] if isinstance(text, str) else list(text)
        encoded = self._tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
        result = {
            "input_ids": [encoding.ids for encoding in encoded],
            "offset_mapping": [encoding.offsets for encoding in encoded],
        }
        return {name: rows[0] for name, rows in result.items()} if isinstance(text, str) else result

    def decode(self, numbers: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return str(self._tokenizer.decode(list(numbers), skip_special_tokens=skip_special_tokens))

    def _id(self, token: str | None) -> int | None:
        token_id: int | None = None if token is None else self._tokenizer.token_to_id(token)
        return token_id


class LightProcessor:
    """Named as in transformers, so that the same code reads either."""

    def __init__(self, folder: Path, card: OnnxCard, tokenizer: LightTokenizer) -> None:
        self._card = card
        self.tokenizer: Any = tokenizer  # layout replaces it by one that records texts
        self._named = dict(tokenizer.special_tokens_map)
        self.image_token = card.image_token
        self.chat_template: str | None = None
        self._template: Any = None
        file = folder / CHAT_TEMPLATE
        if CHAT_TEMPLATE in card.files:
            self.chat_template = file.read_bytes().decode("utf-8")
            try:
                self._template = _compiled(self.chat_template)
            except Exception as error:  # a template is code of the model's author
                message = f"{type(error).__name__}: {error}"
                raise InputError(
                    f"{file}: not a chat template that can be read ({message})"
                ) from error

    def apply_chat_template(
        self, messages: Sequence[dict[str, Any]], *, add_generation_prompt: bool, tokenize: bool
    ) -> str:
        assert not tokenize
        return str(
            self._template.render(
                messages=messages,
                tools=None,
                documents=None,
                add_generation_prompt=add_generation_prompt,
                **self._named,
            )
        )

    def __call__(
        self,
        *,
        text: Sequence[str],
        images: Sequence[Sequence[Image.Image]],
        add_special_tokens: bool = True,
        **_: Any,
    ) -> dict[str, Any]:
        """One text with its pictures, each at as many places as the graphs expect."""
        places = self.image_token * self._card.places
        written = [prompt.replace(self.image_token, places) for prompt in text]
        encoded = self.tokenizer(written, add_special_tokens=add_special_tokens)
        pixels = np.stack(
            [prepare(image, self._card.preparation) for row in images for image in row]
        )
        return {"input_ids": np.asarray(encoded["input_ids"]), "pixel_values": pixels}


def _compiled(template: str) -> Any:
    """In a sandbox, with what transformers gives to templates."""
    import jinja2
    import jinja2.ext
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise jinja2.exceptions.TemplateError(message)

    def as_json(value: Any, **how: Any) -> str:
        return json.dumps(value, **{"ensure_ascii": False, **how})

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.filters["tojson"] = as_json
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(template)
