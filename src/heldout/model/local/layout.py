"""Rows of a group of requests that show the same pictures: the processor looks at them once.

What the processor makes of a placeholder is read off the text it hands to its tokenizer. Every other
request of the group gets the same in its places, and is tokenised as a whole, so that tokens across the
border of prompt and answer are those the model would see. The first prompt is compared with the
processor's own tokens; where they differ, the group is not laid out this way.
"""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from heldout.image import ImageError, ImageRef, byte_digest, decode, to_rgb
from heldout.model.local.load import Family
from heldout.model.local.writing import UnwritableError, WrittenPrompt
from heldout.model.request import Request
from heldout.store import Dropped

# Requests that show the same pictures, found in windows of a stream.


STAGE = "score"
WINDOW = 512


@dataclass(frozen=True)
class Group:
    requests: tuple[Request, ...]

    def pictures(self) -> list[Image.Image]:
        return [to_rgb(decode(picture.read())) for picture in self.requests[0].images]


def groups(requests: Iterable[Request]) -> Iterator[Group | Dropped]:
    """Groups by the pictures' own bytes: files that hold the same picture are one."""
    stream = iter(requests)
    while window := list(itertools.islice(stream, WINDOW)):
        groups: dict[tuple[str, ...], list[Request]] = {}
        digests: dict[ImageRef, str] = {}
        for request in window:
            try:
                key = tuple(_digest(picture, digests) for picture in request.images)
            except ImageError as error:
                yield Dropped(STAGE, request.id, error.reason, error.detail)
                continue
            groups.setdefault(key, []).append(request)
        for members in groups.values():
            yield Group(tuple(members))


def _digest(picture: ImageRef, known: dict[ImageRef, str]) -> str:
    if picture not in known:
        known[picture] = byte_digest(picture.read())
    return known[picture]


# A request as the numbers a model reads, and the pictures' part that its group shares.


@dataclass(frozen=True)
class Row:
    """``scored``: places in ``ids`` (or in ``reply``, which an encoder–decoder writes after reading
    ``ids``) whose tokens are scored. ``instruction`` is the prompt as a Q-Former reads it."""

    ids: tuple[int, ...]
    scored: tuple[int, ...]
    tokens: tuple[str, ...]
    span_ok: bool
    reply: tuple[int, ...] = ()
    instruction: tuple[int, ...] = ()

    @property
    def length(self) -> int:
        return len(self.ids) + len(self.reply)

    @property
    def targets(self) -> list[int]:
        source = self.reply or self.ids
        return [source[place] for place in self.scored]


@dataclass(frozen=True)
class PictureInputs:
    """The pictures of a group as tensors; ``types`` names the input that marks the places they take,
    ``marked`` the tokens at those places."""

    tensors: Mapping[str, Any] = field(default_factory=dict)
    types: str | None = None
    marked: frozenset[int] = frozenset()


# Which tokens make up the scored text, by their character offsets.


Span = tuple[int, int]


def scored_tokens(
    text: str, offsets: Sequence[Span], spans: Sequence[Span]
) -> tuple[list[int], bool]:
    """Places of the tokens that hold scored characters, and whether they hold nothing else but blanks.

    The first token of a sequence is never scored: nothing stands before it to predict it from.
    """
    places: list[int] = []
    clean = True
    covered = [0] * len(spans)
    at = 0
    for place, (start, end) in enumerate(offsets):
        if start == end:  # a token that the tokenizer added covers no characters
            continue
        while at < len(spans) and spans[at][1] <= start:
            at += 1
        touched = []
        look = at
        while look < len(spans) and spans[look][0] < end:
            touched.append(look)
            look += 1
        if not touched:
            continue
        if place == 0:
            clean = False
            continue
        places.append(place)
        reached = start
        for number in touched:
            first, last = spans[number]
            clean &= not text[reached : max(first, reached)].strip()
            covered[number] = max(covered[number], min(end, last))
            reached = max(reached, last)
        clean &= not text[reached:end].strip()
    complete = all(
        not text[reach:last].strip()
        for reach, (_, last) in zip(covered, spans, strict=True)
        if reach
    )
    return places, clean and complete and all(covered)


# Inputs of single tokens, which every row has of its own.
_PER_TOKEN = {
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "mm_token_type_ids",
    "labels",
    "qformer_input_ids",
    "qformer_attention_mask",
}


class _Overheard:
    """A tokenizer that records the texts it is given."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.texts: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        text = args[0] if args else kwargs.get("text")
        self.texts += [text] if isinstance(text, str) else list(text or [])
        return self._tokenizer(*args, **kwargs)


class Layout:
    def __init__(
        self,
        processor: Any,
        tokenizer: Any,
        family: Family,
        *,
        placeholder: str,
        image_id: int | None,
        replies: bool = False,
    ) -> None:
        self._processor = processor
        self._tokenizer = tokenizer
        self._family = family
        self._placeholder = placeholder
        self._image_id = image_id
        self._replies = replies
        self._turns = threading.Lock()  # only one recording at a time
        token = None if image_id is None else tokenizer.convert_ids_to_tokens(image_id)
        self._run = re.compile(f"(?:{re.escape(token)})+") if token else None
        self._token = token or ""
        added = sorted(map(str, tokenizer.get_added_vocab()), key=len, reverse=True)
        self._expansion = "((?:\\s|" + "|".join(map(re.escape, added)) + ")+)"

    def lay_out(
        self, written: Sequence[WrittenPrompt], pictures: Sequence[Image.Image]
    ) -> tuple[PictureInputs, list[Row]]:
        """Rows of texts that all show ``pictures``; UnwritableError where tokens cannot be aligned."""
        with self._turns:
            return self._lay_out(written, pictures)

    def _lay_out(
        self, written: Sequence[WrittenPrompt], pictures: Sequence[Image.Image]
    ) -> tuple[PictureInputs, list[Row]]:
        if not pictures:
            return PictureInputs(), self._rows(written, [], 0)
        features, overheard, ids = self._look(written[0], pictures)
        if self._family.picture_first:
            places = [""] * len(pictures)
            first = 0 if self._image_id is None else ids.count(self._image_id)
        else:
            places = self._expanded(written[0], overheard)
            first = 0
        prompt = WrittenPrompt(written[0].segments, "", ())
        for short in (True, False):
            if list(self._rows([prompt], places, first, short=short)[0].ids) == ids:
                return features, self._rows(written, places, first, short=short)
        raise UnwritableError(
            "tokens cannot be aligned",
            "the processor's tokens of the prompt are not those of the text it was overheard on",
        )

    def _look(
        self, written: WrittenPrompt, pictures: Sequence[Image.Image]
    ) -> tuple[PictureInputs, str, list[int]]:
        """The processor's output for the first prompt: the pictures, its text and its tokens."""
        before = self._family.picture_first
        text = ("" if before else self._placeholder).join(written.segments)
        overheard = _Overheard(self._tokenizer)
        self._processor.tokenizer = overheard
        try:
            processed = self._processor(
                text=text if before else [text],
                images=list(pictures) if before else [list(pictures)],
                return_tensors="pt",
                **({} if self._adds_special(text) else {"add_special_tokens": False}),
            )
        except Exception as error:  # processors raise many kinds of errors on unusual pictures
            detail = f"the model's processor: {type(error).__name__}: {error}"
            raise UnwritableError("picture not processed", detail) from error
        finally:
            self._processor.tokenizer = self._tokenizer
        ids = processed["input_ids"][0].tolist()
        tensors = {name: value for name, value in processed.items() if name not in _PER_TOKEN}
        types = next((n for n in ("mm_token_type_ids", "token_type_ids") if n in processed), None)
        marked = frozenset(
            number
            for number, kind in zip(
                ids, processed[types][0].tolist() if types else [], strict=False
            )
            if kind
        )
        return PictureInputs(tensors, types, marked), (overheard.texts or [text])[0], ids

    def _expanded(self, written: WrittenPrompt, overheard: str) -> list[str]:
        """The text that the processor wrote in place of each picture."""
        parts = [re.escape(segment) for segment in written.segments]
        pattern = self._expansion.join(parts) + re.escape(self._family.closing)
        match = re.fullmatch(pattern, overheard, re.DOTALL)
        if match is None:
            raise UnwritableError(
                "tokens cannot be aligned",
                "the processor writes more than tokens of its own in the place of a picture",
            )
        return list(match.groups())

    def _rows(
        self,
        written: Sequence[WrittenPrompt],
        places: Sequence[str],
        first: int,
        *,
        short: bool = True,
    ) -> list[Row]:
        """``short``: each run of a picture's token is tokenised as one token, because tokenising thousands is
        slow."""
        runs = []
        if short and self._run is not None:
            runs = [len(run) // len(self._token) for p in places for run in self._run.findall(p)]
            places = [self._run.sub(lambda _: self._token, place) for place in places]
        prompts, texts, spans = [], [], []
        for item in written:
            text, starts = "", []
            for number, segment in enumerate(item.segments):
                starts.append(len(text))
                text += segment + (places[number] if number < len(places) else "")
            text += self._family.closing if places or first else ""
            starts.append(len(text))
            prompts.append(text)
            texts.append(text + item.answer)
            spans.append([(starts[n] + begin, starts[n] + end) for n, begin, end in item.spans])
        if self._replies:
            return self._paired(written, prompts, runs, first)
        encoded = self._encode(texts)
        rows = []
        for number, text in enumerate(texts):
            numbers, offsets = encoded["input_ids"][number], encoded["offset_mapping"][number]
            scored, clean = scored_tokens(text, offsets, spans[number])
            tokens = tuple(self._tokenizer.decode([numbers[place]]) for place in scored)
            ids, moved = self._lengthen(numbers, runs, first)
            rows.append(Row(ids, tuple(moved[place] for place in scored), tokens, clean))
        return self._instructed(rows, prompts)

    def _paired(
        self, written: Sequence[WrittenPrompt], prompts: list[str], runs: list[int], first: int
    ) -> list[Row]:
        """An encoder–decoder reads the prompt and writes the answer as a text of its own."""
        prompted = self._encode(prompts)["input_ids"]
        rows = []
        for item, numbers in zip(written, prompted, strict=True):
            reply = self._tokenizer(item.answer.strip(), add_special_tokens=False)["input_ids"]
            tokens = tuple(self._tokenizer.decode([number]) for number in reply)
            ids, _ = self._lengthen(numbers, runs, first)
            rows.append(Row(ids, tuple(range(len(reply))), tokens, True, tuple(reply)))
        return self._instructed(rows, prompts)

    def _instructed(self, rows: list[Row], prompts: list[str]) -> list[Row]:
        if not self._family.instruction:
            return rows
        read = self._processor.qformer_tokenizer(prompts)["input_ids"]
        return [
            Row(row.ids, row.scored, row.tokens, row.span_ok, row.reply, tuple(numbers))
            for row, numbers in zip(rows, read, strict=True)
        ]

    def _encode(self, texts: list[str]) -> Any:
        return self._tokenizer(
            texts,
            add_special_tokens=self._adds_special(texts[0]),
            return_offsets_mapping=True,
            padding=False,
            truncation=False,
        )

    def _adds_special(self, text: str) -> bool:
        """Whether to add special tokens: a template that writes the first token itself must not get a second
        one."""
        bos = self._tokenizer.bos_token
        return not (bos and text.startswith(bos))

    def _lengthen(
        self, numbers: Sequence[int], runs: Sequence[int], first: int
    ) -> tuple[tuple[int, ...], list[int]]:
        """The tokens with every run at its full length, and the new place of each token."""
        assert self._image_id is not None or not first
        ids: list[int] = [self._image_id or 0] * first
        moved = []
        left = iter(runs)
        for number in numbers:
            moved.append(len(ids))
            ids.extend([number] * (next(left, 1) if number == self._image_id else 1))
        return tuple(ids), moved
