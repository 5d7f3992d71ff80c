"""What every stage of a synthesis is given, and how each is described."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from heldout.benchmark import Benchmark
from heldout.engine import Engine
from heldout.errors import InputError
from heldout.model import ModelEndpoint, read_key
from heldout.store import Run
from heldout.synth.ledger import StageWriter, stage_key, table_path
from heldout.synth.settings import (
    ASKING_STAGES,
    MODEL_ROLES,
    SynthSettings,
    SynthStage,
)

# How a model is asked, not what: a run may go on with other values.
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
    for stage, name, given in needed:
        if stage in settings.stages_to_run and not given:
            raise InputError(
                f"the stage '{stage}' needs the setting {name}: give it, or leave the stage out"
            )
    for stage, role in zip(ASKING_STAGES, MODEL_ROLES, strict=True):
        model: ModelEndpoint | None = getattr(settings, role)
        if model is not None and stage in settings.stages_to_run:
            read_key(model.api_key_env, role)


def files_digest(path: Path) -> str:
    """Changes when a file is added, removed, renamed or modified; reads no data."""
    hasher = hashlib.sha256()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    for file in files:
        if file.is_file():
            known = file.stat()
            hasher.update(f"{file}\0{known.st_size}\0{known.st_mtime_ns}\n".encode())
    return hasher.hexdigest()
