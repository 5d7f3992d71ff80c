"""LocalModel: the transformers backend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from heldout.image import ImageError
from heldout.model.local._answering import LocalAsker, Parts
from heldout.model.local._forward import (
    BATCH_TOKENS,
    Forward,
    Numbered,
    batches,
    common_prefix,
    halving,
)
from heldout.model.local.entropy import largest_means
from heldout.model.local.layout import STAGE, Group, Layout, PictureInputs, Row, groups
from heldout.model.local.load import LoadedModel, family_of, image_token_id, load, text_config
from heldout.model.local.writing import UnwritableError, Writer, WrittenPrompt
from heldout.model.request import TEMPLATE, Request, Score
from heldout.store import Dropped

# RunningModel: scores of a local model. Items that share a picture share its encoding.


class _Ready(NamedTuple):
    """Requests laid out together, and the rows they became."""

    requests: list[Request]
    features: PictureInputs
    rows: list[Row]


class RunningModel:
    """A Scorer, whatever runs its parts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._tokenizer = parts.tokenizer
        self._forward = parts.passes
        self._identity = parts.identity

    def asker(self, max_new_tokens: int, *, logprobs: bool = False) -> LocalAsker:
        """The same model, asked for replies instead of scores."""
        return LocalAsker(self._parts, max_new_tokens, logprobs=logprobs)

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
        """Every token of the prompt as text; none if it cannot be scored."""
        for group in groups([request]):
            for ready in [] if isinstance(group, Dropped) else self._prepare(group):
                if isinstance(ready, _Ready):
                    return [self._tokenizer.decode([number]) for number in ready.rows[0].ids]
        return []

    def score(self, requests: Iterable[Request]) -> Iterator[Score | Dropped]:
        # The next pictures are decoded and processed while the model works on these.
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
        written: list[WrittenPrompt] = []
        for request in group.requests:
            try:
                written.append(self._parts.writer.write(request))
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
            return [*prepared, _Ready(requests, *self._parts.layout.lay_out(written, pictures))]
        except UnwritableError:
            pass  # one of them may be at fault: each is tried alone, by the processor itself
        for request, text in zip(requests, written, strict=True):
            try:
                prepared.append(_Ready([request], *self._parts.layout.lay_out([text], pictures)))
            except UnwritableError as problem:
                prepared.append(Dropped(STAGE, request.id, problem.reason, problem.detail))
        return prepared

    def _score(self, prepared: Sequence[_Ready | Dropped]) -> Iterator[Score | Dropped]:
        for ready in prepared:
            if isinstance(ready, Dropped):
                yield ready
                continue
            most = self._parts.context
            fitting: list[Numbered] = []
            for number, row in enumerate(ready.rows):
                if not row.scored:
                    detail = "no token of the answer has a token before it"
                    yield Dropped(STAGE, ready.requests[number].id, "nothing to score", detail)
                elif most is not None and row.length > most and not row.reply:
                    detail = f"{row.length:,} tokens, the model reads {most:,}"
                    yield Dropped(STAGE, ready.requests[number].id, "prompt too long", detail)
                else:
                    fitting.append((number, row))
            if fitting:
                yield from self._run(ready, fitting)

    def _run(self, ready: _Ready, rows: list[Numbered]) -> Iterator[Score | Dropped]:
        passes, features = self._forward, ready.features
        prefix = None
        shared = self._shared([row for _, row in rows], features)
        if shared:
            prefix = passes.fitting(lambda: passes.read(rows[0][1].ids[:shared], features))

        def run(batch: list[Numbered]) -> list[list[float]]:
            members = [row for _, row in batch]
            if prefix is not None:
                logits = passes.after(prefix, members)
            else:
                logits = passes.whole(members, features, share=self._parts.sharing)
            return passes.lines(logits, [target for row in members for target in row.targets])

        for planned in batches(rows, self._parts.batch_tokens):
            for batch, lines in halving(planned, run, passes):
                yield from self._answers_of(ready, batch, lines)

    def _shared(self, rows: Sequence[Row], features: PictureInputs) -> int:
        """How many tokens to read once for all rows; 0 where that is not valid or saves nothing."""
        parts = self._parts
        if not (parts.sharing and parts.family.prefix and len(rows) > 1 and features.tensors):
            return 0
        if parts.replies:
            return 0
        shared = common_prefix(rows)
        shown = any(parts.image_id in row.ids[shared:] for row in rows)
        return 0 if shown else max(shared, 0)

    def _answers_of(
        self, ready: _Ready, batch: list[Numbered], lines: list[list[float]] | None
    ) -> Iterator[Score | Dropped]:
        at = 0
        for number, row in batch:
            identifier = ready.requests[number].id
            if lines is None:
                detail = f"{row.length:,} tokens alone do not fit; try bfloat16 (the setting dtype)"
                yield Dropped(STAGE, identifier, "out of memory", detail)
                continue
            mine = lines[at : at + len(row.scored)]
            at += len(row.scored)
            if -math.inf in (line[0] for line in mine):
                detail = (
                    f"a token of the answer has probability 0 in {self._identity['dtype']}, less likely than any "
                    f"number says; try float32 (the setting dtype)"
                )
                yield Dropped(STAGE, identifier, "probability 0", detail)
                continue
            if not all(math.isfinite(value) for line in mine for value in line):
                detail = (
                    f"the model's logits are NaN or infinite in {self._identity['dtype']}; "
                    f"try float32 or bfloat16 (the setting dtype)"
                )
                yield Dropped(STAGE, identifier, "not finite", detail)
                continue
            logprobs, mu, sigma = (tuple(column) for column in zip(*mine, strict=True))
            yield Score(identifier, row.tokens, logprobs, mu, sigma, span_ok=row.span_ok)

    def entropies(
        self, requests: Iterable[Request]
    ) -> Iterator[tuple[str, NDArray[np.float64]] | Dropped]:
        """By request (slices, orders, shares): the largest entropies at the picture's places, at the text between
        the first picture and the answer, and where the answer's tokens are predicted."""
        for group in groups(requests):
            for ready in [group] if isinstance(group, Dropped) else self._prepare(group):
                if isinstance(ready, Dropped):
                    yield ready
                    continue
                for request, row in zip(ready.requests, ready.rows, strict=True):
                    values = self._entropies_of(row, ready.features)
                    if isinstance(values, str):
                        yield Dropped("entropies", request.id, values, "")
                    else:
                        yield request.id, values

    def _entropies_of(self, row: Row, features: PictureInputs) -> NDArray[np.float64] | str:
        parts, passes = self._parts, self._forward
        if row.reply or parts.image_id is None or parts.image_id not in row.ids or not row.scored:
            return "the picture has no places of its own in what the model reads"
        if parts.context is not None and row.length > parts.context:
            return "prompt too long"
        first = row.ids.index(parts.image_id)
        answer = [place - 1 for place in row.scored]
        before = range(first, answer[0])
        slices = (
            [place for place in before if row.ids[place] == parts.image_id],
            [place for place in before if row.ids[place] != parts.image_id],
            answer,
        )
        wanted = [place for places in slices for place in places]
        read = passes.fitting(lambda: passes.entropies(row, features, wanted))
        if read is None:
            return "out of memory"
        ends = np.cumsum([len(places) for places in slices])[:-1]
        means = [largest_means(part) for part in np.split(read, ends)]
        return np.stack(means)


class LocalModel(RunningModel):
    """A Scorer. ``batch_tokens`` bounds rows × tokens of one forward pass; ``sharing`` off reads every
    row from its beginning, for comparison."""

    def __init__(
        self,
        loaded: LoadedModel,
        name: str,
        *,
        batch_tokens: int = BATCH_TOKENS,
        sharing: bool = True,
    ) -> None:
        model, processor, tokenizer, revision, code = loaded
        config = model.config
        family = family_of(config)
        writer = Writer(processor, tokenizer, family)
        replies = _writes_replies(config)
        image_id = image_token_id(config)
        layout = Layout(
            processor,
            tokenizer,
            family,
            placeholder=writer.placeholder,
            image_id=image_id,
            replies=replies,
        )
        pad = tokenizer.pad_token_id
        context = getattr(text_config(config), "max_position_embeddings", None)
        if context is not None:
            context -= family.places_before
        identity = {
            "backend": "transformers",
            "model": Path(name).name if Path(name).is_dir() else name,
            "revision": revision,
            "dtype": str(model.dtype).removeprefix("torch."),
            "template": TEMPLATE,
            "form": writer.form,
            "processor": type(processor.image_processor).__name__,
            **({"remote_code": code} if code else {}),
        }
        super().__init__(
            Parts(
                identity=identity,
                family=family,
                writer=writer,
                layout=layout,
                passes=Forward(model, family, 0 if pad is None else pad),
                tokenizer=tokenizer,
                image_id=image_id,
                context=context,
                batch_tokens=batch_tokens,
                sharing=sharing,
                replies=replies,
            )
        )

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


def _writes_replies(config: Any) -> bool:
    text = text_config(config)
    return bool(getattr(config, "is_encoder_decoder", False) or text.is_encoder_decoder)
