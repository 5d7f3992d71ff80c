"""The tokenizer of a folder: what prompts, layout and replies ask of one, by the library ``tokenizers``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heldout.errors import InputError
from heldout.model.onnx.card import TOKENIZER, Card


class LightTokenizer:
    """Named as in transformers, so that the same code reads either."""

    def __init__(self, tokenizer: Any, card: Card) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        self._tokenizer = tokenizer
        self.special_tokens_map = dict(card.named_tokens)
        self.all_special_tokens = list(card.special_tokens)
        self.bos_token = card.named_tokens.get("bos_token")
        self.eos_token = card.named_tokens.get("eos_token")

    @classmethod
    def open(cls, folder: Path, card: Card) -> LightTokenizer:
        from tokenizers import Tokenizer

        file = folder / TOKENIZER
        try:
            tokenizer = Tokenizer.from_file(str(file))
        except Exception as error:  # the library raises plain Exceptions
            raise InputError(f"{file}: not a tokenizer that can be read ({error})") from error
        found = tokenizer.token_to_id(card.image_token)
        if found != card.image_token_id:
            raise InputError(
                f"{file}: the picture's token {card.image_token!r} has the id {found}, and the graphs "
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
        found: str | None = self._tokenizer.id_to_token(number)
        return found

    def __call__(
        self, text: str | Sequence[str], *, add_special_tokens: bool = True, **_: Any
    ) -> dict[str, Any]:
        """``input_ids`` and ``offset_mapping``; nothing is padded or cut."""
        texts = [text] if isinstance(text, str) else list(text)
        encoded = self._tokenizer.encode_batch(texts, add_special_tokens=add_special_tokens)
        made = {
            "input_ids": [one.ids for one in encoded],
            "offset_mapping": [one.offsets for one in encoded],
        }
        return {name: rows[0] for name, rows in made.items()} if isinstance(text, str) else made

    def decode(self, numbers: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return str(self._tokenizer.decode(list(numbers), skip_special_tokens=skip_special_tokens))

    def _id(self, token: str | None) -> int | None:
        found: int | None = None if token is None else self._tokenizer.token_to_id(token)
        return found
