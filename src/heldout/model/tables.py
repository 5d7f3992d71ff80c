"""A model's rows in the tables of a run, in the place of its earlier ones; other models' rows stay."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from heldout.errors import InputError
from heldout.store import Dropped, Run, dropped_table, make_table

#: what makes two scores incomparable; a run holds one of each per model
IDENTITY = ("backend", "revision", "dtype", "template", "provider", "remote_code")


def replace_rows(run: Run, table: str, model: str, rows: Iterable[Mapping[str, Any]]) -> int:
    made = make_table(table, rows)
    count: int = made.num_rows
    if run.table_path(table).exists():
        known = run.read_table(table)
        others = known.filter(pc.not_equal(known.column("model"), model))
        made = pa.concat_tables([others, made])
    run.write_table(table, made)
    forget_detections(run)
    return count


def forget_detections(run: Run) -> None:
    """What `heldout detect` said of other scores than the run now holds is withdrawn."""
    if not (run.path / "detections.json").exists():
        return
    told = run.read_json("detections.json")
    for name in ("findings", "claims"):
        if (run.path / f"{name}.json").exists():
            gone = {entry["id"] for entry in told.get(name, ())}
            known = run.read_json(f"{name}.json")
            kept = [entry for entry in known[name] if entry["id"] not in gone]
            run.write_json(f"{name}.json", {**known, name: kept})
    run.table_path("triple_hits").unlink(missing_ok=True)
    (run.path / "detections.json").unlink()


def replace_dropped(run: Run, stage: str, model: str, dropped: Sequence[Dropped]) -> None:
    """Ids are written ``model/id``; what other stages and models left out is kept."""
    mine = [Dropped(stage, f"{model}/{one.id}", one.reason, one.detail) for one in dropped]
    new = dropped_table(mine)
    if run.table_path("dropped").exists():
        known = run.read_table("dropped").to_pylist()
        models = {model, *run.manifest().get("models", {})}
        others = [
            row for row in known if row["stage"] != stage or owner(row["id"], models) != model
        ]
        new = pa.concat_tables([make_table("dropped", others), new])
    run.write_table("dropped", new)


def owner(identifier: str, models: Iterable[str]) -> str:
    """Whose row ``model/id`` is: "org/model/7" belongs to "org/model", not to "org"."""
    return max(
        (model for model in models if identifier.startswith(f"{model}/")), key=len, default=""
    )


def claim_model(run: Run, model: str, identity: Mapping[str, Any]) -> None:
    """Say how this model is scored: once per run, or its tables would mix two instruments."""
    known = run.manifest().get("models", {}).get(model, {})
    for name in IDENTITY:
        if known.get(name) and identity.get(name) and known[name] != identity[name]:
            raise InputError(
                f"{run.path} holds scores of '{model}' with {name} '{known[name]}', not "
                f"'{identity[name]}': scores of the two are never compared. Give this one another name (the "
                f"setting name), or use another run folder"
            )
    run.update("models", {model: {**known, **identity}})


def stage_folder(model: str) -> str:
    """A folder name that no model's name can leave, and no two share."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", model).strip(".-")[-60:]
    return f"{plain or 'model'}-{hashlib.sha256(model.encode()).hexdigest()[:8]}"
