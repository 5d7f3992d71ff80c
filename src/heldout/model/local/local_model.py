"""LocalModel: the transformers backend. Items that share a picture share what the model made of it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from heldout.image import ImageError
from heldout.model.local.answering import LocalAsker, Parts
from heldout.model.local.batches import Numbered, batches, common_prefix, halving
from heldout.model.local.family import family_of, image_token_id, text_config
from heldout.model.local.forward import Forward
from heldout.model.local.groups import STAGE, Group, groups
from heldout.model.local.layout import Layout
from heldout.model.local.load import Loaded, load
from heldout.model.local.moments import moments
from heldout.model.local.rows import Features, Row
from heldout.model.local.writing import UnwritableError, Writer, Written
from heldout.model.prompt import TEMPLATE
from heldout.model.request import Request, Score
from heldout.store.dropped import Dropped

BATCH_TOKENS = 16_384


class _Ready(NamedTuple):
    """Requests laid out together, and the rows they became."""

    requests: list[Request]
    features: Features
    rows: list[Row]


class LocalModel:
    """A Scorer. ``batch_tokens`` bounds rows × tokens of one forward pass; ``sharing`` off reads every
    row from its beginning, for comparison."""

    def __init__(
        self, loaded: Loaded, name: str, *, batch_tokens: int = BATCH_TOKENS, sharing: bool = True
    ) -> None:
        model, processor, tokenizer, revision, code = loaded
        config = model.config
        self._family = family_of(config)
        self._writer = Writer(processor, tokenizer, self._family)
        self._tokenizer = tokenizer
        self._replies = _writes_replies(config)
        self._image_id = image_token_id(config)
        self._layout = Layout(
            processor,
            tokenizer,
            self._family,
            placeholder=self._writer.placeholder,
            image_id=self._image_id,
            replies=self._replies,
        )
        pad = tokenizer.pad_token_id
        self._forward = Forward(model, self._family, 0 if pad is None else pad)
        self._device = model.device
        self._context = getattr(text_config(config), "max_position_embeddings", None)
        if self._context is not None:
            self._context -= self._family.places_before
        self._batch_tokens = batch_tokens
        self._sharing = sharing
        self._identity = {
            "backend": "transformers",
            "model": Path(name).name if Path(name).is_dir() else name,
            "revision": revision,
            "dtype": str(model.dtype).removeprefix("torch."),
            "template": TEMPLATE,
            "form": self._writer.form,
            "processor": type(processor.image_processor).__name__,
            **({"remote_code": code} if code else {}),
        }

    @classmethod
    def load(
        cls,
        name: str,
        revision: str | None = None,
        dtype: str = "auto",
        device: str = "auto",
        batch_tokens: int = BATCH_TOKENS,
        trust_remote_code: bool = False,
        sharing: bool = True,
    ) -> LocalModel:
        loaded = load(
            name,
            revision=revision,
            dtype=dtype,
            device=device,
            trust_remote_code=trust_remote_code,
        )
        return cls(loaded, name, batch_tokens=batch_tokens, sharing=sharing)

    def asker(self, max_new_tokens: int, *, logprobs: bool = False) -> LocalAsker:
        """The same model, asked for replies instead of scores."""
        parts = Parts(
            self._identity, self._family, self._writer, self._layout, self._forward,
            self._tokenizer, self._image_id, self._context, self._batch_tokens, self._sharing,
            self._replies,
        )  # fmt: skip
        return LocalAsker(parts, max_new_tokens, logprobs=logprobs)

    @property
    def identity(self) -> Mapping[str, str]:
        return self._identity

    def count(self, requests: Sequence[Request]) -> list[int]:
        """Tokens of each request, pictures included; 0 for one that cannot be scored."""
        places: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(request.id, []).append(place)
        counts = [0] * len(requests)
        for group in groups(requests):
            if isinstance(group, Dropped):
                continue
            for ready in self._prepare(group):
                if isinstance(ready, _Ready):
                    for request, row in zip(ready.requests, ready.rows, strict=True):
                        counts[places[request.id].pop(0)] = row.length
        return counts

    def tokens(self, request: Request) -> list[str]:
        """Every token of the prompt the model reads, in words; none where it cannot be scored."""
        for group in groups([request]):
            for ready in [] if isinstance(group, Dropped) else self._prepare(group):
                if isinstance(ready, _Ready):
                    return [self._tokenizer.decode([number]) for number in ready.rows[0].ids]
        return []

    def score(self, requests: Iterable[Request]) -> Iterator[Score | Dropped]:
        # The next pictures are decoded and processed while the model is at work on these.
        with ThreadPoolExecutor(1) as ahead:
            waiting: Any = None
            for group in groups(requests):
                if isinstance(group, Dropped):
                    yield group
                    continue
                following = ahead.submit(self._prepare, group)
                if waiting is not None:
                    yield from self._score(waiting.result())
                waiting = following
            if waiting is not None:
                yield from self._score(waiting.result())

    def _prepare(self, group: Group) -> list[_Ready | Dropped]:
        prepared: list[_Ready | Dropped] = []
        requests: list[Request] = []
        written: list[Written] = []
        for request in group.requests:
            try:
                written.append(self._writer.write(request))
                requests.append(request)
            except UnwritableError as problem:
                prepared.append(Dropped(STAGE, request.id, problem.reason, problem.detail))
        if not requests:
            return prepared
        try:
            pictures = group.pictures()
        except ImageError as error:
            return prepared + [
                Dropped(STAGE, request.id, error.reason, error.detail) for request in requests
            ]
        try:
            return [*prepared, _Ready(requests, *self._layout.lay_out(written, pictures))]
        except UnwritableError:
            pass  # one of them may be the odd one: each on its own, by the processor itself
        for request, text in zip(requests, written, strict=True):
            try:
                prepared.append(_Ready([request], *self._layout.lay_out([text], pictures)))
            except UnwritableError as problem:
                prepared.append(Dropped(STAGE, request.id, problem.reason, problem.detail))
        return prepared

    def _score(self, prepared: Sequence[_Ready | Dropped]) -> Iterator[Score | Dropped]:
        for ready in prepared:
            if isinstance(ready, Dropped):
                yield ready
                continue
            fitting: list[Numbered] = []
            for number, row in enumerate(ready.rows):
                if not row.scored:
                    detail = "no token of the answer has a token before it"
                    yield Dropped(STAGE, ready.requests[number].id, "nothing to score", detail)
                elif self._context is not None and row.length > self._context and not row.reply:
                    detail = f"{row.length:,} tokens, the model reads {self._context:,}"
                    yield Dropped(STAGE, ready.requests[number].id, "prompt too long", detail)
                else:
                    fitting.append((number, row))
            if fitting:
                yield from self._run(ready, fitting)

    def _run(self, ready: _Ready, rows: list[Numbered]) -> Iterator[Score | Dropped]:
        import torch

        forward, features = self._forward, ready.features
        prefix = None
        shared = self._shared([row for _, row in rows], features)
        if shared:
            try:
                prefix = forward.read(rows[0][1].ids[:shared], features)
            except torch.OutOfMemoryError:
                prefix = None

        def run(batch: list[Numbered]) -> Any:
            members = [row for _, row in batch]
            if prefix is not None:
                return self._lines(forward.after(prefix, members), members)
            logits = forward.whole(members, features, share=self._sharing)
            return self._lines(logits, members)

        for planned in batches(rows, self._batch_tokens):
            for batch, lines in halving(planned, run):
                yield from self._told(ready, batch, lines)

    def _shared(self, rows: Sequence[Row], features: Features) -> int:
        """How many tokens to read once for all rows; 0 where that is not valid or saves nothing."""
        if not (self._sharing and self._family.prefix and len(rows) > 1 and features.tensors):
            return 0
        if self._replies:
            return 0
        shared = common_prefix(rows)
        shown = any(self._image_id in row.ids[shared:] for row in rows)
        return 0 if shown else max(shared, 0)

    def _lines(self, logits: Any, rows: Sequence[Row]) -> list[list[float]]:
        import torch

        targets = [target for row in rows for target in row.targets]
        found = moments(logits, torch.tensor(targets, device=self._device))
        lines: list[list[float]] = torch.stack(found, 1).tolist()
        return lines

    def _told(
        self, ready: _Ready, batch: list[Numbered], lines: list[list[float]] | None
    ) -> Iterator[Score | Dropped]:
        at = 0
        for number, row in batch:
            identifier = ready.requests[number].id
            if lines is None:
                detail = f"{row.length:,} tokens alone do not fit; try --dtype bfloat16"
                yield Dropped(STAGE, identifier, "out of memory", detail)
                continue
            mine = lines[at : at + len(row.scored)]
            at += len(row.scored)
            if not all(math.isfinite(value) for line in mine for value in line):
                detail = (
                    f"the model's logits are NaN or infinite in {self._identity['dtype']}; "
                    f"try --dtype float32 or bfloat16"
                )
                yield Dropped(STAGE, identifier, "not finite", detail)
                continue
            logprobs, mu, sigma = (tuple(column) for column in zip(*mine, strict=True))
            yield Score(identifier, row.tokens, logprobs, mu, sigma, span_ok=row.span_ok)


def _writes_replies(config: Any) -> bool:
    text = text_config(config)
    return bool(getattr(config, "is_encoder_decoder", False) or text.is_encoder_decoder)
