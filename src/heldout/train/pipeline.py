"""train: a training set through the gate, then SFT or GRPO, in one run folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heldout.benchmark import Benchmark
from heldout.engine import open_engine
from heldout.errors import InputError, html_table
from heldout.store import Run, dropped_table
from heldout.train._training_set import TEMPLATE, TrainingSet, read_training_set, unusual
from heldout.train._verl import check_verl, write_verl
from heldout.train.gate import GateRecord, guard, take_comparisons
from heldout.train.running import (
    MODEL,
    Trained,
    check_rows,
    forget_checkpoints,
    run_training,
)
from heldout.train.settings import TrainSettings

if TYPE_CHECKING:
    import polars as pl

VERL = "verl"
# Settings that may change when a run continues: they change neither the data nor what is learnt.
_FREE = ("device", "save_every", "reply_batch", "micro_batch")


@dataclass(frozen=True)
class TrainResult:
    """What ``train`` returns: the run, the trained checkpoint, the gate's record, and tables as frames."""

    run: Run
    gate: GateRecord
    rows: int
    trained: Trained | None = None
    warnings: tuple[str, ...] = ()

    @property
    def model(self) -> Path | None:
        """The trained checkpoint; None where only files for another trainer were written."""
        return self.run.path / MODEL if self.trained is not None else None

    @property
    def steps(self) -> pl.DataFrame:
        return self._frame("steps")

    @property
    def replies(self) -> pl.DataFrame:
        """The first replies of every batch; GRPO only."""
        return self._frame("replies")

    @property
    def dropped(self) -> pl.DataFrame:
        """Rows that were not trained on, with the reason of each."""
        return self._frame("dropped")

    def _frame(self, name: str) -> pl.DataFrame:
        import polars as pl

        return self.run.frame(name) if self.run.table_path(name).exists() else pl.DataFrame()

    def as_json(self) -> dict[str, Any]:
        return {
            "run": str(self.run.path),
            "rows": self.rows,
            "model": str(self.model) if self.model else None,
            "gate": self.gate.as_json(),
            "trained": _trained_record(self.trained) if self.trained else None,
            "warnings": list(self.warnings),
        }

    def __repr__(self) -> str:
        return f"<Training on {self.rows:,} rows: gate {self.gate.verdict}, run {self.run.path}>"

    def _repr_html_(self) -> str:
        rows = (("rows", self.rows), ("gate", self.gate.verdict), ("model", self.model))
        return html_table(("", ""), rows)


def train(
    settings: TrainSettings | None = None,
    *,
    out: str | Path,
    engine: str = "local",
    workers: int | None = None,
    quiet: bool = False,
    to: str = "",
    gate_from: str | Path | None = None,
    benchmarks: Sequence[Benchmark] | None = None,
    **values: Any,
) -> TrainResult:
    """What ``heldout.train`` does, with the same parameters, but without page and model card.

    ``benchmarks``: what ``against`` names, already read; default: each is read as a benchmark.
    """
    chosen = TrainSettings.choose(settings, values)
    if to not in ("", VERL):
        raise InputError(f"to {to}: expected verl, or nothing to train here")
    if to == VERL:
        check_verl(chosen)
    else:
        from heldout.train._trainers import check_checkpoint, require_packages

        require_packages()
    # Mistakes that can be known before the comparison, which takes minutes, are reported before it.
    data = read_training_set(chosen.data, limit=chosen.limit)
    check_rows(chosen, data.items)
    if not to:
        check_checkpoint(chosen)
    run = Run.create(out, seed=chosen.seed)
    warnings: list[str] = []
    with run.writing():
        _claim(run, chosen, data)
        if gate_from is not None:
            take_comparisons(run, gate_from)
        with open_engine(engine, workers=workers) as where:
            rows, gate = guard(chosen, data, run, where, quiet=quiet, benchmarks=benchmarks)
        run.update(
            "train", {"gate": gate.as_json(), "rows": len(rows.items), "read": len(data.items)}
        )
        run.write_table("dropped", dropped_table(rows.dropped))
        check_rows(chosen, rows.items)
        traces = sum(bool(item.reasoning) for item in rows.items)
        warnings += list(unusual(rows.items))
        run.update("train", {"traces": traces})
        if to == VERL:
            write_verl(chosen, rows, run.path / VERL)
            return TrainResult(run, gate, len(rows.items), warnings=tuple(warnings))
        trained = _trained(run)
        if trained is None:
            try:
                trained = run_training(chosen, rows.items, run, quiet=quiet, warnings=warnings)
                run.update("train", {"trained": _trained_record(trained)})
                forget_checkpoints(run)
            finally:
                known = run.manifest()["train"].get("warnings", [])
                run.update("train", {"warnings": list(dict.fromkeys([*known, *warnings]))})
        remarks = tuple(run.manifest()["train"].get("warnings", []))
    return TrainResult(run, gate, len(rows.items), trained, remarks)


def _trained_record(trained: Trained) -> dict[str, Any]:
    return {**vars(trained), "pace": vars(trained.pace)}


def _trained(run: Run) -> Trained | None:
    """What an earlier call finished."""
    from heldout.train._trainers import UpdatePace

    trained = run.manifest()["train"].get("trained")
    if trained is None or not (run.path / MODEL / "config.json").exists():
        return None
    return Trained(**{**trained, "pace": UpdatePace(**trained["pace"])})


def _claim(run: Run, settings: TrainSettings, data: TrainingSet) -> None:
    """A run folder holds one training: other rows or settings are refused."""
    known: Mapping[str, Any] = run.manifest().get("train", {})
    record = settings.model_dump(mode="json")
    before = known.get("settings")
    if before is not None:
        changed = [
            name for name in record if name not in _FREE and before.get(name) != record[name]
        ]
        if known.get("data") != data.fingerprint and "data" not in changed:
            changed.append("the content of the training set")
        if changed and (run.path / "train").exists():
            raise InputError(
                f"{run.path} holds a training with other settings ({', '.join(changed)}): use another "
                f"folder, or remove it to start over"
            )
    run.update(
        "train",
        {
            "settings": record,
            "data": data.fingerprint,
            "name": data.name,
            "template": TEMPLATE,
            "packages": _versions(),
        },
    )


def _versions() -> dict[str, str]:
    from importlib import metadata

    versions = {}
    for name in ("torch", "transformers", "trl", "peft", "accelerate", "datasets"):
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
