"""OnnxModel: the onnxruntime backend. It needs numpy, Pillow, jinja2, onnxruntime and tokenizers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.errors import InputError, require
from heldout.model.local._answering import Parts
from heldout.model.local._forward import BATCH_TOKENS, Made, Prefix
from heldout.model.local.layout import Layout, PictureInputs, Row
from heldout.model.local.load import family_of
from heldout.model.local.local_model import RunningModel
from heldout.model.local.templates import render_template
from heldout.model.local.writing import Writer
from heldout.model.onnx.graphs import (
    CARD,
    CHAT_TEMPLATE,
    FEATURES,
    IDS,
    LOGITS,
    PICTURES,
    PIXELS,
    PLACES,
    ROWS,
    SLOTS,
    TOKENIZER,
    Graphs,
    OnnxCard,
    Preparation,
    moments,
    open_graphs,
    past_names,
    present_names,
    read_card,
    renyi,
)
from heldout.model.request import TEMPLATE

# Chat template, pictures and their places: what a LLaVA processor does, without transformers.


# A picture as the numbers a vision tower reads, as transformers' Pillow processors make them.


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
                f"{file}: {most:,} tokens, and the decoder has {card.decoder.vocabulary:,}: the "
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
        file = folder / CHAT_TEMPLATE
        if CHAT_TEMPLATE in card.files:
            self.chat_template = file.read_bytes().decode("utf-8")

    def apply_chat_template(
        self, messages: Sequence[dict[str, Any]], *, add_generation_prompt: bool, tokenize: bool
    ) -> str:
        assert not tokenize and self.chat_template is not None
        return render_template(
            self.chat_template,
            messages,
            add_generation_prompt=add_generation_prompt,
            **self._named,
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


# Forward passes through the three graphs. The decoder gathers the wanted places before its head.


Floats = NDArray[np.float32]
Caches = list[Any]  # keys and values, layer by layer


class OnnxPasses:
    """The Passes of a folder of graphs."""

    def __init__(self, graphs: Graphs, card: OnnxCard) -> None:
        self._graphs = graphs
        self._card = card
        self._past = past_names(card.decoder.layers)
        self._present = present_names(card.decoder.layers)
        self._seen: tuple[PictureInputs, Floats] | None = None

    @property
    def stops(self) -> tuple[int, ...]:
        return tuple(self._card.decoder.stops)

    def whole(self, rows: Sequence[Row], features: PictureInputs, *, share: bool = True) -> Any:
        """Full sequences, padded on the right: causality hides the padding."""
        wanted = [(n, place - 1) for n, row in enumerate(rows) for place in row.scored]
        return self._decode([row.ids for row in rows], self._none(), wanted, features)[0]

    def read(self, ids: Sequence[int], features: PictureInputs) -> Prefix | None:
        _, caches = self._decode([ids], self._none(), [], features, keep=True)
        return Prefix(caches, len(ids), None)

    def after(self, prefix: Prefix, rows: Sequence[Row]) -> Any:
        rest = [row.ids[prefix.length :] for row in rows]
        wanted = [
            (n, place - 1 - prefix.length) for n, row in enumerate(rows) for place in row.scored
        ]
        return self._decode(rest, prefix.cache, wanted)[0]

    def spread(self, prefix: Prefix, rows: int) -> Any:
        """The graph itself repeats the keys and values of one row for many."""
        return list(prefix.cache)

    def step(self, cache: Any, rows: Sequence[Sequence[int]], start: int, shift: int | None) -> Any:
        wanted = [(number, len(row) - 1) for number, row in enumerate(rows)]
        logits, cache[:] = self._decode(rows, cache, wanted, keep=True)
        return logits

    def generate(self, row: Row, features: PictureInputs, most: int) -> tuple[list[int], Any]:
        logits, cache = self._decode(
            [row.ids], self._none(), [(0, len(row.ids) - 1)], features, keep=True
        )
        first, tokens = logits[0], self.likeliest(logits)
        while len(tokens) < most and tokens[-1] not in self.stops:
            tokens += self.likeliest(self.step(cache, [tokens[-1:]], 0, None))
        return tokens, first

    def lines(self, logits: Any, targets: Sequence[int]) -> list[list[float]]:
        rows: list[list[float]] = moments(logits, targets).tolist()
        return rows

    def entropies(
        self, row: Row, features: PictureInputs, places: Sequence[int]
    ) -> NDArray[np.float64]:
        wanted = [(0, place) for place in places]
        return renyi(self._decode([row.ids], self._none(), wanted, features)[0])

    def likeliest(self, logits: Any) -> list[int]:
        places: list[int] = logits.argmax(-1).tolist()
        return places

    def logprobs(self, line: Any) -> NDArray[np.float32]:
        less = line - line.max()
        array: NDArray[np.float32] = less - np.log(np.exp(less).sum(dtype=np.float64))
        return array.astype(np.float32)

    def fitting(self, run: Callable[[], Made]) -> Made | None:
        try:
            return run()
        except MemoryError:
            return None
        except Exception as error:  # onnxruntime reports only as text that it ran out of memory
            if "alloc" not in str(error).lower():
                raise
            return None

    def _decode(
        self,
        rows: Sequence[Sequence[int]],
        past: Caches,
        wanted: Sequence[tuple[int, int]],
        features: PictureInputs | None = None,
        *,
        keep: bool = False,
    ) -> tuple[Floats, Caches]:
        """Logits at the wanted (row, place) pairs; with ``keep`` also the keys and values so far."""
        word = 0 if self._card.image_token_id else 1  # any that is no place of a picture
        ids = np.full((len(rows), max(map(len, rows))), word, np.int64)
        for number, row in enumerate(rows):
            ids[number, : len(row)] = row
        pictures = self._pictures(features)
        slots = self._slots(ids, len(pictures))
        feeds: dict[str, Any] = {
            IDS: np.where(slots < 0, ids, word),
            SLOTS: slots,
            PICTURES: pictures if len(pictures) else np.zeros((1, pictures.shape[1]), np.float32),
            ROWS: np.array([row for row, _ in wanted], np.int64),
            PLACES: np.array([place for _, place in wanted], np.int64),
            **dict(zip(self._past, past, strict=True)),
        }
        names = [LOGITS, *(self._present if keep else ())]
        logits, *present = self._graphs.decoder.run(names, feeds)
        return logits, present

    def _pictures(self, features: PictureInputs | None) -> Floats:
        """One line for every place of the pictures; those of the last group are not looked at again."""
        if features is None or not features.tensors:
            return np.zeros((0, self._card.decoder.width), np.float32)
        if self._seen is None or self._seen[0] is not features:
            (towered,) = self._graphs.vision.run([FEATURES], {PIXELS: features.tensors[PIXELS]})
            (projected,) = self._graphs.projector.run([PICTURES], {FEATURES: towered})
            self._seen = features, projected.reshape(-1, projected.shape[-1])
        return self._seen[1]

    def _slots(self, ids: NDArray[np.int64], lines: int) -> NDArray[np.int64]:
        """Which line of the pictures stands at each place, -1 for a word; every row shows all of them."""
        marked = ids == self._card.image_token_id
        counts = marked.sum(1)
        if lines and not (counts == lines).all():
            raise ValueError(f"{lines} lines of pictures at {counts.tolist()} places of the rows")
        return np.where(marked & (lines > 0), marked.cumsum(1) - 1, -1)

    def _none(self) -> Caches:
        shape = self._card.decoder
        empty = np.zeros((1, shape.heads, 0, shape.head_width), np.float32)
        return [empty] * len(self._past)


_DTYPES = ("auto", "float32")


class OnnxModel(RunningModel):
    """A Scorer. ``batch_tokens`` bounds rows × tokens of one forward pass; ``sharing`` off reads every
    row from its beginning, for comparison."""

    @classmethod
    def load(
        cls,
        folder: str | Path,
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = BATCH_TOKENS,
        sharing: bool = True,
    ) -> OnnxModel:
        for package in ("onnxruntime", "tokenizers"):
            require(package, "onnx", "running a model onnx:FOLDER")
        if dtype not in _DTYPES:
            raise InputError(
                f"dtype {dtype}: graphs of onnx:FOLDER calculate in float32; leave it out"
            )
        folder = Path(folder).expanduser()
        card = read_card(folder)
        tokenizer = LightTokenizer.open(folder, card)
        processor = LightProcessor(folder, card, tokenizer)
        graphs = open_graphs(folder, card, device)
        family = family_of(card)
        writer = Writer(processor, tokenizer, family)
        layout = Layout(
            processor,
            tokenizer,
            family,
            placeholder=writer.placeholder,
            image_id=card.image_token_id,
        )
        identity = {
            "backend": "onnxruntime",
            "model": folder.resolve().name,
            # The card holds the hash of every other file.
            "revision": f"onnx {hashlib.sha256((folder / CARD).read_bytes()).hexdigest()[:16]}",
            "dtype": "float32",
            "template": TEMPLATE,
            "form": writer.form,
            "processor": "Pillow",
            "provider": graphs.provider,
            "source": f"{card.source.name} {card.source.revision}",
        }
        return cls(
            Parts(
                identity=identity,
                family=family,
                writer=writer,
                layout=layout,
                passes=OnnxPasses(graphs, card),
                tokenizer=tokenizer,
                image_id=card.image_token_id,
                context=card.decoder.context,
                batch_tokens=batch_tokens,
                sharing=sharing,
                replies=False,
            )
        )
