"""Chat template, pictures and their places: what a LLaVA processor does, without transformers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.errors import InputError
from heldout.model.onnx.card import TEMPLATE, Card
from heldout.model.onnx.pictures import prepare
from heldout.model.onnx.tokenizer import LightTokenizer


class LightProcessor:
    """Named as in transformers, so that the same code reads either."""

    def __init__(self, folder: Path, card: Card, tokenizer: LightTokenizer) -> None:
        self._card = card
        self.tokenizer: Any = tokenizer  # Layout puts one in its place that it can listen to
        self._named = dict(tokenizer.special_tokens_map)
        self.image_token = card.image_token
        self.chat_template: str | None = None
        self._template: Any = None
        file = folder / TEMPLATE
        if TEMPLATE in card.files:
            self.chat_template = file.read_bytes().decode("utf-8")
            try:
                self._template = _compiled(self.chat_template)
            except Exception as error:  # a template is a program of the model's author
                told = f"{type(error).__name__}: {error}"
                raise InputError(
                    f"{file}: not a chat template that can be read ({told})"
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
        written = [one.replace(self.image_token, places) for one in text]
        encoded = self.tokenizer(written, add_special_tokens=add_special_tokens)
        pixels = np.stack([prepare(one, self._card.preparation) for row in images for one in row])
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
