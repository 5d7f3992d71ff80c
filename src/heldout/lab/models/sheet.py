"""A sheet: everything one benchmark asks of a model, as numbers that need no tokenizer and no reader.

All small models share a tokenizer, so the product writes its prompts once. Where the models are trained
they only read the sheet; what they say comes back as arrays, and the product makes its tables of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.errors import require

MOST_NEW_TOKENS = 16
LETTERS = "ABCDEF"


@dataclass
class Ragged:
    """Lists of different lengths, one behind the other."""

    values: NDArray[np.int32]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, lists: list[list[int]]) -> Ragged:
        flat = [value for values in lists for value in values]
        starts = np.cumsum([0, *(len(values) for values in lists)])
        return cls(np.asarray(flat, dtype=np.int32), starts.astype(np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, place: int) -> NDArray[np.int32]:
        return self.values[self.starts[place] : self.starts[place + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        return np.diff(self.starts)


def letter_tokens(tokenizer: Any) -> Ragged:
    """Tokens that spell each letter, with and without a blank before it."""
    spelled = [
        [
            tokenizer(spelling, add_special_tokens=False)["input_ids"]
            for spelling in (letter, f" {letter}")
        ]
        for letter in LETTERS
    ]
    return Ragged.of(
        [sorted({ids[0] for ids in spellings if len(ids) == 1}) for spellings in spelled]
    )


@dataclass
class Sheet:
    """``scored``: rows of tokens (pictures stand behind the first one and are not counted), which of them
    are scored, their picture or -1, and whether only their sum is wanted. ``asked``: prompts that wait for
    a reply, likewise.

    ``letters`` are the tokens that spell each letter. ``released`` is the benchmark in words, for planting.
    """

    name: str
    pixels: NDArray[np.uint8]
    scored: Ragged
    places: Ragged
    scored_picture: NDArray[np.int32]
    sums: NDArray[np.bool_]
    asked: Ragged
    asked_picture: NDArray[np.int32]
    letters: Ragged
    keys: list[str]  # of requests to score, then of requests to answer
    lengths: dict[str, int]  # tokens of requests that were only counted
    golds: list[list[str]]  # of requests to answer: variant, what it is about, and what is right
    released: list[dict[str, Any]]

    def save(self, folder: str | Path) -> None:
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {"pixels": self.pixels}
        for name in ("scored", "places", "asked", "letters"):
            ragged: Ragged = getattr(self, name)
            arrays[f"{name}_values"], arrays[f"{name}_starts"] = ragged.values, ragged.starts
        arrays |= {"scored_picture": self.scored_picture, "asked_picture": self.asked_picture}
        arrays["sums"] = self.sums
        np.savez_compressed(folder / f"{self.name}.npz", **arrays)
        record = {
            "keys": self.keys,
            "lengths": self.lengths,
            "golds": self.golds,
            "released": self.released,
        }
        (folder / f"{self.name}.json").write_text(json.dumps(record))

    @classmethod
    def load(cls, folder: str | Path, name: str) -> Sheet:
        folder = Path(folder)
        record = json.loads((folder / f"{name}.json").read_text())
        with np.load(folder / f"{name}.npz") as arrays:
            ragged = {
                name: Ragged(arrays[f"{name}_values"], arrays[f"{name}_starts"])
                for name in ("scored", "places", "asked", "letters")
            }
            return cls(
                name,
                arrays["pixels"],
                ragged["scored"],
                ragged["places"],
                arrays["scored_picture"],
                arrays["sums"],
                ragged["asked"],
                arrays["asked_picture"],
                ragged["letters"],
                record["keys"],
                record["lengths"],
                record["golds"],
                record["released"],
            )


# The small models' tokenizer: byte-level pairs learnt from texts, so that no word is ever unknown.


PAD, BEGIN, END, IMAGE = "<pad>", "<s>", "</s>", "<image>"
SIZE = 1280


def learn_tokenizer(texts: Iterable[str], size: int = SIZE) -> Any:
    """A PreTrainedTokenizerFast. Words keep the blank before them, so that answers decode as written."""
    require("transformers", "hf", "training the lab's models")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[PAD, BEGIN, END, IMAGE],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A",
        pair=f"{BEGIN} $A $B",
        special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))],
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BEGIN,
        eos_token=END,
        extra_special_tokens={"image_token": IMAGE},
        clean_up_tokenization_spaces=False,
    )
