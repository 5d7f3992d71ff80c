"""Forward passes that give logits at scored places only: over whole rows, or after a prefix read once."""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from heldout.model.local.entropy import moments, renyi
from heldout.model.local.layout import PictureInputs, Row
from heldout.model.local.load import Family

# Forward passes of one backend, and what is computed from their logits.
#
# Prompts, spans, groups, batches and replies use a backend only through these methods. Logits stay on the
# backend's device and in its type until one of the last four methods turns them into numbers.


Made = TypeVar("Made")


@dataclass(frozen=True)
class Prefix:
    """What a model keeps of tokens it has read: keys and values, how many, and where the next one
    stands (pictures take less room in multi-dimensional positions than in the sequence)."""

    cache: Any
    length: int
    shift: int | None


class Passes(Protocol):
    """``whole`` and ``after`` give one line of logits per scored token, in the rows' order."""

    @property
    def stops(self) -> tuple[int, ...]:
        """Tokens that end a reply."""
        ...

    def whole(self, rows: Sequence[Row], features: PictureInputs, *, share: bool = True) -> Any:
        """Full sequences; every row shows the same pictures."""
        ...

    def read(self, ids: Sequence[int], features: PictureInputs) -> Prefix | None:
        """The common beginning of a group, read once; None where what is kept cannot be shared."""
        ...

    def after(self, prefix: Prefix, rows: Sequence[Row]) -> Any:
        """What follows the prefix in each row."""
        ...

    def spread(self, prefix: Prefix, rows: int) -> Any:
        """A cache of ``rows`` replies that begin with the prefix; ``step`` writes into it."""
        ...

    def step(self, cache: Any, rows: Sequence[Sequence[int]], start: int, shift: int | None) -> Any:
        """Logits after the next tokens of every row, all of one length, that stand from ``start`` on."""
        ...

    def generate(self, row: Row, features: PictureInputs, most: int) -> tuple[list[int], Any]:
        """One row, greedily and from its beginning: its tokens, and the logits of the first."""
        ...

    def lines(self, logits: Any, targets: Sequence[int]) -> list[list[float]]:
        """log p of each target, and the mean and standard deviation of log p over the vocabulary."""
        ...

    def entropies(
        self, row: Row, features: PictureInputs, places: Sequence[int]
    ) -> NDArray[np.float64]:
        """(places, orders): Rényi entropies of what follows each of these places."""
        ...

    def likeliest(self, logits: Any) -> list[int]:
        """The token with the largest logit, line by line."""
        ...

    def logprobs(self, line: Any) -> NDArray[np.float32]:
        """log p of every token of the vocabulary, of one line."""
        ...

    def fitting(self, run: Callable[[], Made]) -> Made | None:
        """What ``run`` returns; None if it ran out of memory, which is freed."""
        ...


# Which rows go through the model together, and what to do when they do not fit.


BATCH_TOKENS = 16_384  # rows × longest row of one forward pass
# Scored places of one batch: each has a line of logits as wide as the vocabulary.
MOST_SCORED = 2048

Numbered = tuple[int, Row]


def batches(rows: Sequence[Numbered], budget: int) -> Iterator[list[Numbered]]:
    """Rows of like length together, so that rows × longest stays within ``budget`` tokens."""
    batch: list[Numbered] = []
    scored = 0
    for number, row in sorted(rows, key=lambda pair: -pair[1].length):
        widest = batch[0][1].length if batch else row.length
        if batch and ((len(batch) + 1) * widest > budget or scored + len(row.scored) > MOST_SCORED):
            yield batch
            batch, scored = [], 0
        batch.append((number, row))
        scored += len(row.scored)
    if batch:
        yield batch


def halving(
    batch: list[Numbered], run: Callable[[list[Numbered]], Any], passes: Passes
) -> Iterator[tuple[list[Numbered], Any]]:
    """Each part of the batch with what ``run`` gave for it; None for a row that does not fit alone."""
    output = passes.fitting(lambda: run(batch))
    if output is not None or len(batch) == 1:
        yield batch, output
        return
    middle = len(batch) // 2
    yield from halving(batch[:middle], run, passes)
    yield from halving(batch[middle:], run, passes)


def common_prefix(rows: Sequence[Row]) -> int:
    """How many tokens all rows begin with, leaving each the place that predicts its first scored one."""
    return min(shared_tokens(rows), *(row.scored[0] - 1 for row in rows))


def shared_tokens(rows: Sequence[Row]) -> int:
    """How many tokens all rows begin with."""
    first, last = min(row.ids for row in rows), max(row.ids for row in rows)
    pairs = enumerate(zip(first, last, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(first), len(last)))


# Rows that show the same picture: the part of the model that looks at it looks once.


@contextlib.contextmanager
def one_look(model: Any, name: str | None, rows: int) -> Iterator[None]:
    """In this block the vision tower called ``name`` is given the first row's pictures for all ``rows``."""
    tower = None
    if name is not None and rows > 1:
        tower = getattr(model, name, None) or getattr(getattr(model, "model", None), name, None)
    if tower is None:
        yield
        return

    def first(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        if args:
            return (args[0][: len(args[0]) // rows], *args[1:]), kwargs
        pixels = kwargs["pixel_values"]
        return args, {**kwargs, "pixel_values": pixels[: len(pixels) // rows]}

    def every(_module: Any, _args: Any, output: Any) -> Any:
        for key, value in output.items():
            if hasattr(value, "repeat"):
                output[key] = value.repeat(rows, *([1] * (value.dim() - 1)))
        return output

    hooks = [
        tower.register_forward_pre_hook(first, with_kwargs=True),
        tower.register_forward_hook(every),
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Forward:
    """The Passes of a transformers model."""

    def __init__(self, model: Any, family: Family, pad: int) -> None:
        self._model = model
        self._family = family
        self._pad = pad
        # A model that always looks at its picture is continued by the part that does not; the same part
        # reads a text without one.
        self._reader = getattr(model, family.reader) if family.reader else model
        self._head = model.get_output_embeddings() or self._reader.get_output_embeddings()

    def whole(
        self,
        rows: Sequence[Row],
        features: PictureInputs,
        *,
        share: bool = True,
        places: Sequence[Sequence[int]] | None = None,
    ) -> Any:
        """Full sequences, padded on the right; every row shows the same pictures. ``places``: whose next token is
        wanted, in place of the scored ones."""
        import torch

        inputs = self._text_inputs(rows, features)
        for name, value in features.tensors.items():
            inputs[name] = self._placed(_repeated(value, len(rows)))
        looks = len(rows) if share and self._family.tower and features.tensors else 1
        before = places if places is not None else [_before(row) for row in rows]
        wanted = [(n, place) for n, own in enumerate(before) for place in own]
        width = max(len(row.reply or row.ids) for row in rows)
        with (
            torch.inference_mode(),
            one_look(self._model, self._family.tower, looks),
            self._gathering(wanted, width) as taken,
        ):
            return taken(self._call(features, inputs, cached=False)[0].logits)

    def read(self, ids: Sequence[int], features: PictureInputs) -> Prefix | None:
        """The common beginning of a group, read once; None where what is kept cannot be shared."""
        import torch

        row = Row(tuple(ids), (), (), True)
        inputs = self._text_inputs([row], features)
        inputs |= {name: self._placed(value) for name, value in features.tensors.items()}
        with torch.inference_mode(), self._gathering([], len(ids)):
            cache = self._call(features, inputs, cached=True)[1]
        layers = getattr(cache, "layers", None)
        if not layers or any(getattr(layer, "keys", None) is None for layer in layers):
            return None
        deltas = getattr(self._model.base_model, "rope_deltas", None)
        if deltas is None:
            deltas = getattr(getattr(self._model, "model", None), "rope_deltas", None)
        shift = None
        if deltas is not None:  # without a picture, those of an earlier one would be used
            shift = int(deltas.flatten()[0]) if features.tensors else 0
        return Prefix(cache, len(ids), shift)

    def after(self, prefix: Prefix, rows: Sequence[Row]) -> Any:
        """What follows the prefix in each row, padded on the right: causality hides the padding."""
        import torch

        rest = [row.ids[prefix.length :] for row in rows]
        width = max(map(len, rest))
        inputs: dict[str, Any] = {"input_ids": self._padded(rest, self._pad)}
        if prefix.shift is not None:
            start = prefix.length + prefix.shift
            places = torch.arange(start, start + width, device=self._model.device)
            inputs["position_ids"] = places.expand(3, len(rows), width)
        wanted = [(n, p - prefix.length) for n, row in enumerate(rows) for p in _before(row)]
        cache = _spread(prefix.cache, len(rows))
        with torch.inference_mode(), self._gathering(wanted, width) as taken:
            return taken(self._reader(**inputs, past_key_values=cache, use_cache=True).logits)

    @property
    def stops(self) -> tuple[int, ...]:
        """Tokens that end a reply, as the checkpoint's generation settings name them."""
        for part in (
            self._model,
            self._reader,
        ):  # a class with code of its own may have no settings
            named = getattr(getattr(part, "generation_config", None), "eos_token_id", None)
            if named is not None:
                return tuple(named) if isinstance(named, list | tuple) else (named,)
        return ()

    def spread(self, prefix: Prefix, rows: int) -> Any:
        """A cache of ``rows`` replies that begin with the prefix; ``step`` writes into it."""
        return _spread(prefix.cache, rows)

    def step(self, cache: Any, rows: Sequence[Sequence[int]], start: int, shift: int | None) -> Any:
        """Logits after the next tokens of every row, all of one length, that stand from ``start`` on."""
        import torch

        width = len(rows[0])
        inputs: dict[str, Any] = {"input_ids": self._padded(rows, self._pad)}
        if shift is not None:
            begin = start + shift
            places = torch.arange(begin, begin + width, device=self._model.device)
            inputs["position_ids"] = places.expand(3, len(rows), width)
        wanted = [(number, width - 1) for number in range(len(rows))]
        with torch.inference_mode(), self._gathering(wanted, width) as taken:
            return taken(self._reader(**inputs, past_key_values=cache, use_cache=True).logits)

    def generate(self, row: Row, features: PictureInputs, most: int) -> tuple[list[int], Any]:
        """One row by the model's own generation, greedily: its tokens, and the logits of the first."""
        import torch

        inputs = self._text_inputs([row], features)
        inputs |= {name: self._placed(value) for name, value in features.tensors.items()}
        model = self._model
        if not features.tensors and self._reader is not model:
            model = self._reader
            inputs["eos_token_id"] = list(self.stops) or None
        with torch.inference_mode():
            output = model.generate(
                **inputs,
                max_new_tokens=most,
                do_sample=False,
                num_beams=1,
                repetition_penalty=1.0,
                output_logits=True,
                return_dict_in_generate=True,
            )
        # Some families repeat the prompt, or a token to begin with, before what they wrote.
        return output.sequences[0].tolist()[-len(output.logits) :], output.logits[0][0]

    def lines(self, logits: Any, targets: Sequence[int]) -> list[list[float]]:
        import torch

        sums = moments(logits, torch.tensor(targets, device=self._model.device))
        lines: list[list[float]] = torch.stack(sums, 1).tolist()
        return lines

    def entropies(
        self, row: Row, features: PictureInputs, places: Sequence[int]
    ) -> NDArray[np.float64]:
        values: NDArray[np.float64] = (
            renyi(self.whole([row], features, places=[places])).cpu().numpy()
        )
        return values

    def likeliest(self, logits: Any) -> list[int]:
        chosen: list[int] = logits.argmax(-1).tolist()
        return chosen

    def logprobs(self, line: Any) -> NDArray[np.float32]:
        array: NDArray[np.float32] = line.float().log_softmax(-1).cpu().numpy()
        return array

    def fitting(self, run: Callable[[], Made]) -> Made | None:
        import torch

        try:
            return run()
        except torch.OutOfMemoryError:
            pass
        # Outside of the handler: the exception holds the tensors that filled the memory.
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        return None

    def _call(
        self, features: PictureInputs, inputs: dict[str, Any], *, cached: bool
    ) -> tuple[Any, Any]:
        """The model's output, and what its language model keeps of the tokens it has read.

        Some classes neither accept ``use_cache`` nor return the cache: their language model is called instead.
        """
        model = self._model if features.tensors else self._reader
        if model is self._reader:
            output = model(**inputs, use_cache=cached)
            return output, getattr(output, "past_key_values", None)
        kept = []

        def ask(_module: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return args, {**kwargs, "use_cache": cached}

        hooks = [
            self._reader.register_forward_pre_hook(ask, with_kwargs=True),
            self._reader.register_forward_hook(
                lambda _module, _args, output: kept.append(getattr(output, "past_key_values", None))
            ),
        ]
        try:
            output = model(**inputs, **({"use_cache": cached} if _takes_cache(model) else {}))
        finally:
            for hook in hooks:
                hook.remove()
        return output, kept[-1]

    def _text_inputs(self, rows: Sequence[Row], features: PictureInputs) -> dict[str, Any]:
        import torch

        inputs = {"input_ids": self._padded([row.ids for row in rows], self._pad)}
        inputs["attention_mask"] = self._padded([[1] * len(row.ids) for row in rows], 0)
        if features.types and self._family.answer_types:
            kinds = [_answer_types(row) for row in rows]
            inputs[features.types] = self._padded(kinds, 1)
        elif features.types:
            marked = torch.tensor(sorted(features.marked), device=self._model.device)
            inputs[features.types] = torch.isin(inputs["input_ids"], marked).long()
        if self._family.instruction and features.tensors:
            asked = [row.instruction for row in rows]
            inputs["qformer_input_ids"] = self._padded(asked, 0)
            inputs["qformer_attention_mask"] = self._padded([[1] * len(ids) for ids in asked], 0)
        if rows[0].reply:
            start = self._start()
            replies = [(start, *row.reply[:-1]) for row in rows]
            inputs["decoder_input_ids"] = self._padded(replies, self._pad)
            inputs["decoder_attention_mask"] = self._padded([[1] * len(r) for r in replies], 0)
        return inputs

    def _start(self) -> int:
        """The token an encoder–decoder's reply begins with."""
        for config in (self._model.config, self._model.config.get_text_config()):
            start = getattr(config, "decoder_start_token_id", None)
            if start is not None:
                return int(start)
        return self._pad

    @contextlib.contextmanager
    def _gathering(self, wanted: Sequence[tuple[int, int]], width: int) -> Iterator[Any]:
        """Only the wanted (row, place) pairs go through the head; most of its work is elsewhere.

        A model may put its pictures before the ``width`` tokens it is given: places count from its end.
        """
        import torch

        device = self._model.device
        rows = torch.tensor([row for row, _ in wanted], dtype=torch.long, device=device)
        places = torch.tensor([place for _, place in wanted], dtype=torch.long, device=device)
        gathered = []

        def gather(_module: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
            gathered.append(True)
            before = args[0].shape[1] - width
            return (args[0][rows, places + before].unsqueeze(0), *args[1:])

        def taken(logits: Any) -> Any:
            return logits[0] if gathered else logits[rows, places + logits.shape[1] - width]

        if self._head is None:
            yield taken
            return
        hook = self._head.register_forward_pre_hook(gather)
        try:
            yield taken
        finally:
            hook.remove()

    def _padded(self, rows: Sequence[Sequence[int]], fill: int) -> Any:
        import torch

        width = max(map(len, rows))
        filled = [[*row, *([fill] * (width - len(row)))] for row in rows]
        return torch.tensor(filled, dtype=torch.long, device=self._model.device)

    def _placed(self, value: Any) -> Any:
        import torch

        if not isinstance(value, torch.Tensor):
            return value
        dtype = self._model.dtype if value.is_floating_point() else value.dtype
        return value.to(self._model.device, dtype)


def _takes_cache(model: Any) -> bool:
    known = inspect.signature(model.forward).parameters
    return "use_cache" in known or any(p.kind is p.VAR_KEYWORD for p in known.values())


def _before(row: Row) -> list[int]:
    """Where a scored token is predicted: one place earlier; an encoder–decoder's input is shifted."""
    return [place if row.reply else place - 1 for place in row.scored]


def _answer_types(row: Row) -> list[int]:
    first = row.scored[0] if row.scored else len(row.ids)
    return [0] * first + [1] * (len(row.ids) - first)


def _repeated(value: Any, times: int) -> Any:
    """Pictures lie one after the other along the first axis, row by row."""
    if times == 1 or not hasattr(value, "repeat"):
        return value
    return value.repeat(times, *([1] * (value.dim() - 1)))


def _spread(cache: Any, rows: int) -> Any:
    """A view of the cache for many rows. The next tokens are put behind a copy, never into it."""
    spread = copy.copy(cache)
    spread.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in spread.layers:
        layer.keys = layer.keys.expand(rows, -1, -1, -1)
        layer.values = layer.values.expand(rows, -1, -1, -1)
    return spread
