"""LocalAsker: replies of a model that runs here, whatever runs it, word by word, always the likeliest.

Questions about one picture share what the model made of it. Those of equal length are continued together,
so that no padding ever stands between a prompt and its reply: batching changes no word.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from heldout.image import ImageError
from heldout.model.local._forward import Numbered, Passes, Prefix, halving, shared_tokens
from heldout.model.local.layout import Group, Layout, PictureInputs, Row, groups
from heldout.model.local.load import Family
from heldout.model.local.writing import UnwritableError, Writer
from heldout.model.request import CUT, STOPPED, Prompt, Reply
from heldout.store import Dropped

# The likeliest token, again and again, after a prefix that was read once.


@dataclass(frozen=True)
class Said:
    """``stopped``: the model ended the reply itself. ``first``: the logits of the first token."""

    tokens: tuple[int, ...]
    stopped: bool
    first: Any


class Greedy:
    """Plain arg max: no sampling, and none of the penalties of a checkpoint's generation settings."""

    def __init__(self, passes: Passes, tokenizer: Any, most: int) -> None:
        self._passes = passes
        self._tokenizer = tokenizer
        self._most = most
        self._stops = frozenset(passes.stops) or frozenset({tokenizer.eos_token_id})

    def after(self, prefix: Prefix, rests: Sequence[Sequence[int]]) -> list[Said]:
        """What follows each of ``rests``, which are of one length, after ``prefix``."""
        cache, place = self._passes.spread(prefix, len(rests)), prefix.length
        logits = self._passes.step(cache, rests, place, prefix.shift)
        first = logits
        place += len(rests[0])
        replies: list[list[int]] = [[] for _ in rests]
        going = set(range(len(rests)))
        for count in range(self._most):
            chosen = self._passes.likeliest(logits)
            for number in list(going):
                if chosen[number] in self._stops:
                    going.discard(number)
                else:
                    replies[number].append(chosen[number])
            if not going or count + 1 == self._most:
                break
            # Finished replies stay in the batch and are ignored: rows of a batch do not see each other.
            logits = self._passes.step(cache, [[token] for token in chosen], place, prefix.shift)
            place += 1
        return [
            Said(tuple(tokens), number not in going, first[number])
            for number, tokens in enumerate(replies)
        ]

    def whole(self, row: Row, features: PictureInputs) -> Said:
        """Generate from the row's beginning, for families whose prompt cannot be read in two parts."""
        tokens, first = self._passes.generate(row, features, self._most)
        ended = next((n for n, token in enumerate(tokens) if token in self._stops), None)
        return Said(tuple(tokens[:ended]), ended is not None, first)

    def letters(self, generated: Said, count: int) -> tuple[float, ...]:
        """Log-probability that the reply opens with each letter, with or without a blank before it."""
        chances = self._passes.logprobs(generated.first).astype(np.float64)
        written = []
        for number in range(count):
            letter = chr(ord("A") + number)
            spelled = [
                self._tokenizer(w, add_special_tokens=False)["input_ids"]
                for w in (letter, f" {letter}")
            ]
            tokens = sorted({ids[0] for ids in spelled if len(ids) == 1})
            written.append(float(np.logaddexp.reduce(chances[tokens])) if tokens else float("-inf"))
        return tuple(written)


STAGE = "ask"


@dataclass(frozen=True)
class Parts:
    """What a model that runs here is made of, whatever runs it."""

    identity: Mapping[str, str]
    family: Family
    writer: Writer
    layout: Layout
    passes: Passes
    tokenizer: Any
    image_id: int | None
    context: int | None
    batch_tokens: int
    sharing: bool
    replies: bool  # an encoder–decoder


class LocalAsker:
    """An Asker. ``max_new_tokens``: the longest reply; ``logprobs``: of the letters as first token."""

    def __init__(self, parts: Parts, max_new_tokens: int, *, logprobs: bool = False) -> None:
        self._parts = parts
        self._most = max_new_tokens
        self._greedy = Greedy(parts.passes, parts.tokenizer, max_new_tokens)
        self.logprobs = logprobs
        known = {name: text for name, text in parts.identity.items() if name != "template"}
        self._identity = {**known, "max_new_tokens": str(max_new_tokens)}

    @property
    def identity(self) -> Mapping[str, str]:
        return self._identity

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        letters: dict[str, int] = {}

        def requests() -> Iterator[Any]:
            for prompt in prompts:
                letters[prompt.request.id] = prompt.letters
                yield prompt.request

        with ThreadPoolExecutor(1) as ahead:  # the next pictures, while the model writes
            waiting: Any = None
            for group in groups(requests()):
                if isinstance(group, Dropped):
                    yield Dropped(STAGE, group.id, group.reason, group.detail)
                    continue
                following = ahead.submit(self._prepare, group)
                if waiting is not None:
                    yield from self._said(waiting.result(), letters, keep)
                waiting = following
            if waiting is not None:
                yield from self._said(waiting.result(), letters, keep)

    def _prepare(self, group: Group) -> list[tuple[list[str], PictureInputs, list[Row]] | Dropped]:
        """Ids, pictures and rows that belong together; what cannot be asked, with its reason."""
        prepared: list[tuple[list[str], PictureInputs, list[Row]] | Dropped] = []
        names, written = [], []
        for request in group.requests:
            try:
                written.append(self._parts.writer.write_prompt(request))
                names.append(request.id)
            except UnwritableError as problem:
                prepared.append(Dropped(STAGE, request.id, problem.reason, problem.detail))
        if not names:
            return prepared
        try:
            pictures = group.pictures()
        except ImageError as error:
            return prepared + [Dropped(STAGE, name, error.reason, error.detail) for name in names]
        lay_out = self._parts.layout.lay_out
        try:
            return [*prepared, (names, *lay_out(written, pictures))]
        except UnwritableError:
            pass  # one of them may be at fault: each is tried alone
        for name, text in zip(names, written, strict=True):
            try:
                prepared.append(([name], *lay_out([text], pictures)))
            except UnwritableError as problem:
                prepared.append(Dropped(STAGE, name, problem.reason, problem.detail))
        return prepared

    def _said(
        self,
        prepared: Sequence[tuple[list[str], PictureInputs, list[Row]] | Dropped],
        letters: Mapping[str, int],
        keep: Callable[[Reply], None],
    ) -> Iterator[Reply | Dropped]:
        for ready in prepared:
            if isinstance(ready, Dropped):
                yield ready
                continue
            names, features, rows = ready
            fitting: list[Numbered] = []
            for number, row in enumerate(rows):
                most = self._parts.context
                if most is not None and row.length + self._most > most:
                    detail = (
                        f"{row.length:,} tokens and {self._most:,} to write; the model has {most:,}"
                    )
                    yield Dropped(STAGE, names[number], "prompt too long", detail)
                else:
                    fitting.append((number, row))
            for number, generated in self._run(fitting, features):
                if generated is None:
                    detail = (
                        "not even alone; try bfloat16 (the setting dtype), or fewer max_new_tokens"
                    )
                    yield Dropped(STAGE, names[number], "out of memory", detail)
                    continue
                reply = self._reply(names[number], rows[number], generated, letters[names[number]])
                keep(reply)
                yield reply

    def _run(
        self, rows: list[Numbered], features: PictureInputs
    ) -> Iterator[tuple[int, Said | None]]:
        if not rows:
            return
        shared = self._shared([row for _, row in rows], features)
        prefix = None
        if shared:
            passes = self._parts.passes
            prefix = passes.fitting(lambda: passes.read(rows[0][1].ids[:shared], features))
        if prefix is None:
            for number, row in rows:
                yield number, self._parts.passes.fitting(partial(self._alone, row, features))
            return
        for planned in self._equal(rows):
            after = partial(self._after, prefix)
            for batch, replies in halving(planned, after, self._parts.passes):
                for place, (number, _) in enumerate(batch):
                    yield number, None if replies is None else replies[place]

    def _alone(self, row: Row, features: PictureInputs) -> Said:
        """One row from its beginning: by its own prefix, or as the model's own code generates."""
        if self._able() and len(row.ids) > 1:
            prefix = self._parts.passes.read(row.ids[:-1], features)
            if prefix is not None:
                return self._greedy.after(prefix, [row.ids[-1:]])[0]
        return self._greedy.whole(row, features)

    def _after(self, prefix: Prefix, batch: Sequence[Numbered]) -> list[Said]:
        return self._greedy.after(prefix, [row.ids[prefix.length :] for _, row in batch])

    def _equal(self, rows: list[Numbered]) -> Iterator[list[Numbered]]:
        """Rows of one length, within the budget of tokens."""
        lengths: dict[int, list[Numbered]] = defaultdict(list)
        for number, row in rows:
            lengths[row.length].append((number, row))
        for length, members in lengths.items():
            most = max(1, self._parts.batch_tokens // (length + self._most))
            for start in range(0, len(members), most):
                yield members[start : start + most]

    def _able(self) -> bool:
        return self._parts.family.prefix and not self._parts.replies

    def _shared(self, rows: Sequence[Row], features: PictureInputs) -> int:
        """How many tokens to read once for all rows, each keeping its last; 0 where that is not valid."""
        if not (self._parts.sharing and self._able()):
            return 0
        shared = min(shared_tokens(rows), *(len(row.ids) - 1 for row in rows))
        late = any(self._parts.image_id in row.ids[shared:] for row in rows)
        return 0 if late and features.tensors else max(0, shared)

    def _reply(self, name: str, row: Row, generated: Said, letters: int) -> Reply:
        text = self._parts.tokenizer.decode(generated.tokens, skip_special_tokens=True)
        letter_logprobs: tuple[float | None, ...] = ()
        if self.logprobs and letters:
            letter_logprobs = self._greedy.letters(generated, letters)
        finish = STOPPED if generated.stopped else CUT
        return Reply(name, text, finish, row.length, len(generated.tokens), letter_logprobs)
