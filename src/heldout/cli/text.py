"""The text flags of `heldout overlap`."""

from __future__ import annotations

from typing import Annotated

import typer

from heldout.errors import InputError
from heldout.overlap.text import TextSearch

Text = Annotated[
    bool,
    typer.Option(
        "--text", help="Also look for the questions, options, answers and captions in the corpora."
    ),
]
TextEncoder = Annotated[
    str | None,
    typer.Option(
        "--text-encoder",
        metavar="E",
        help="With --text: also look for paraphrases, by wordllama (small, needs the extra text) or "
        "transformers:NAME, for example transformers:BAAI/bge-m3.",
    ),
]


def text_search(asked: bool, encoder: str | None) -> TextSearch | None:
    if encoder is not None and not asked:
        raise InputError("--text-encoder finds paraphrases in a text search: add --text")
    return TextSearch(encoder=encoder) if asked else None
