"""What every stage of a synthesis is given, and how each is described."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from heldout.benchmark import Benchmark
from heldout.engine import Engine
from heldout.errors import InputError, counted
from heldout.model import (
    FAILED,
    Journal,
    ModelEndpoint,
    Prompt,
    Reply,
    ReplySet,
    ask_prompts,
    open_endpoint,
    read_key,
)
from heldout.store import Run
from heldout.synth.ledger import StageWriter, journal_path, stage_key, table_path
from heldout.synth.settings import (
    ASKING_STAGES,
    MODEL_ROLES,
    SynthSettings,
    SynthStage,
)

if TYPE_CHECKING:
    from heldout.overlap import ModelJudge

# Settings of how a model is asked, not of what: a run may continue with other values.
_HOW = {
    "api_key_env",
    "concurrency",
    "timeout",
    "requests_per_second",
    "tokens_per_minute",
    "price_in",
    "price_out",
}


@dataclass(frozen=True)
class StageContext:
    """``benchmarks``: those of ``settings.against`` that the caller has opened, by their names there."""

    run: Run
    settings: SynthSettings
    engine: Engine
    quiet: bool = False
    benchmarks: Mapping[str, Benchmark] = field(default_factory=dict)


@dataclass(frozen=True)
class StageWork:
    """One stage. ``work`` writes all its rows and drops; an InputError that it raises after an
    endpoint died leaves the stage unfinished, and the same command goes on. ``depends``: names of
    the settings that shape the result; ``reads``: the stages whose tables it reads; ``versions``: of
    the prompts and rules that shape it; ``outside``: what identifies the files that it reads from
    elsewhere."""

    stage: SynthStage
    work: Callable[[StageContext, StageWriter], None]
    depends: Sequence[str]
    reads: Sequence[SynthStage] = ()
    versions: Sequence[str] = ()
    outside: Callable[[StageContext], object] | None = None

    def key(self, context: StageContext) -> str:
        """A digest of settings and input: an equal key means an equal result."""
        chosen = context.settings.model_dump(mode="json", include=set(self.depends))
        for name in chosen.keys() & set(MODEL_ROLES):
            model: ModelEndpoint | None = getattr(context.settings, name)
            chosen[name] = None if model is None else model.model_dump(mode="json", exclude=_HOW)
        if self.versions:
            chosen["versions"] = list(self.versions)
        if self.outside is not None:
            chosen["outside"] = self.outside(context)
        return stage_key(chosen, *(table_path(context.run, stage) for stage in self.reads))


def require_settings(settings: SynthSettings) -> None:
    """Refuse a stage whose model, key or benchmark is not given, before anything is paid for."""
    rendered = settings.source == "scenes"
    needed = (
        (SynthStage.GENERATE, "generator", settings.generator is not None or rendered),
        (SynthStage.VERIFY, "verifier", settings.verifier is not None or rendered),
        (SynthStage.DECONTAMINATE, "against", bool(settings.against)),
    )
    for stage, name, is_set in needed:
        if stage in settings.stages_to_run and not is_set:
            raise InputError(
                f"the stage '{stage}' needs the setting {name}: give it, or leave the stage out"
            )
    for stage, role in zip(ASKING_STAGES, MODEL_ROLES, strict=True):
        model: ModelEndpoint | None = getattr(settings, role)
        if model is not None and stage in settings.stages_to_run:
            read_key(model.api_key_env, role)


def files_digest(path: Path, run: Path | None = None) -> str:
    """Changes when a file is added, removed, renamed or modified; reads no data. ``run``: a run folder,
    whose own files do not count where it lies below ``path``."""
    hasher = hashlib.sha256()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    own = None if run is None else path / os.path.relpath(run, path)
    for file in files:
        if file.is_file() and (own is None or own not in file.parents):
            known = file.stat()
            hasher.update(f"{file}\0{known.st_size}\0{known.st_mtime_ns}\n".encode())
    return hasher.hexdigest()


# The model of a stage: opened from its settings, asked every prompt once, with a record of its cost.


class StageModel:
    """Use as a context manager: however the stage ends, the manifest holds under ``role`` the model that was asked,
    what the server takes, which model answered (``answered_by``), and what the replies cost in all,
    whenever they were paid for. ``depends``: what a reply depends on besides model and prompt, such as a
    template's name."""

    def __init__(
        self,
        context: StageContext,
        role: str,
        settings: ModelEndpoint,
        stage: str,
        depends: Mapping[str, str],
    ) -> None:
        self._context, self._role, self._settings, self._stage = context, role, settings, stage
        self.asker = open_endpoint(settings, context.settings.seed, role)
        self.identity: Mapping[str, str] = {**self.asker.identity, **depends}
        self._journal = _CountedJournal(journal_path(context.run, role), self._count)
        self._spent: Counter[str] = Counter()
        self._counted: set[str] = set()
        self._answered: dict[tuple[str, str], dict[str, Any]] = {}

    def __enter__(self) -> StageModel:
        # Written at once: after a kill, a plan needs to find whose replies the journal holds.
        known = {**self._known(), **self.identity, "asked_as": dict(self.asker.identity)}
        self._context.run.update("synth", {self._role: known})
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        decoding = self.asker.decoding or self._known().get("decoding", {})
        entry: dict[str, Any] = {
            **self.identity,
            "asked_as": dict(self.asker.identity),
            "decoding": dict(decoding),
            "answered_by": sorted(
                self._answered.values(), key=lambda record: int(record["replies"]), reverse=True
            ),
            "spent": self.spent,
        }
        self._context.run.update("synth", {self._role: entry})

    def _known(self) -> dict[str, Any]:
        """What the manifest has about this model; empty where it is about another."""
        known: dict[str, Any] = self._context.run.manifest().get("synth", {}).get(self._role, {})
        same = all(known.get(name) == value for name, value in self.identity.items())
        return known if same else {}

    @property
    def spent(self) -> dict[str, Any]:
        """What all replies cost; ``uncounted``: those whose tokens the server did not tell."""
        names = ("requests", "prompt_tokens", "reply_tokens", "uncounted")
        counts: dict[str, Any] = {name: self._spent[name] for name in names}
        prices = self._settings.price_in, self._settings.price_out
        tokens = self._spent["prompt_tokens"], self._spent["reply_tokens"]
        price = sum(price * count for price, count in zip(prices, tokens, strict=True)) / 1e6
        return {"stage": self._stage, **counts, "price": price}

    def ask(self, prompts: Mapping[str, Prompt], title: str, unit: str = "questions") -> ReplySet:
        """Every prompt once. A server that is gone ends the stage; what it answered before is kept."""
        answered = ask_prompts(
            self.asker,
            prompts,
            self._journal,
            lambda image: image.name,
            stage=self._stage,
            title=title,
            unit=unit,
            quiet=self._context.quiet,
        )
        if answered.ended is not None:
            raise answered.ended
        if not self._counted and answered.lost:
            first = next(iter(answered.lost.values()))
            if all(lost.reason == FAILED for lost in answered.lost.values()):
                raise InputError(
                    f"the {self._role} answered none of "
                    f"{counted(len(answered.lost), 'request', 'requests')}; the first: {first.detail}. "
                    f"The same command goes on where this one ended"
                )
        return answered

    def as_judge(self) -> ModelJudge:
        """The model as a judge of texts, with the same journal; call it before the context is entered."""
        from heldout.overlap import ModelJudge

        judge = ModelJudge(self.asker, self._journal, self._context.quiet)
        self.identity = judge.identity
        return judge

    def _count(self, key: str, reply: Reply) -> None:
        if key in self._counted:  # a prompt may come again in a later batch
            return
        self._counted.add(key)
        self._spent["requests"] += 1
        self._spent["prompt_tokens"] += reply.prompt_tokens or 0
        self._spent["reply_tokens"] += reply.reply_tokens or 0
        self._spent["uncounted"] += reply.prompt_tokens is None or reply.reply_tokens is None
        name = reply.model or self.asker.model
        record = self._answered.setdefault(
            (name, reply.fingerprint),
            {
                "model": name,
                "fingerprint": reply.fingerprint,
                "digest": answered_by(self.identity, reply),
                "replies": 0,
                "first": reply.received,
                "last": reply.received,
            },
        )
        record["replies"] += 1
        record["first"] = min(record["first"], reply.received)
        record["last"] = max(record["last"], reply.received)

    @property
    def names(self) -> set[str]:
        """The model's names: in the settings, and in its replies so far."""
        return {self.asker.model, *(name for name, _ in self._answered)}


class _CountedJournal(Journal):
    """Tells ``count`` of every reply that is read out of it, whenever it was paid for."""

    def __init__(self, path: Path, count: Callable[[str, Reply], None]) -> None:
        super().__init__(path)
        self._count = count

    def reply(self, key: str) -> Reply:
        reply = super().reply(key)
        self._count(key, reply)
        return reply


def answered_by(identity: Mapping[str, str], reply: Reply) -> str:
    """Model, template and settings in one short digest; with the name and fingerprint that the server
    answers under, where it gives others."""
    other = {"answered_as": reply.model} if reply.model not in ("", identity["model"]) else {}
    other |= {"fingerprint": reply.fingerprint} if reply.fingerprint else {}
    return short_identity({**identity, **other})


def short_identity(identity: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:16]
