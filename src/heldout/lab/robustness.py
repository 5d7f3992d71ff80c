"""A study of transforms as a report shows it: counts per transform, without curves and pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from heldout.errors import InputError
from heldout.lab.result import Measured, Rate, Study
from heldout.report.robustness import FILE, Recall, Robustness, RobustnessFile, Share
from heldout.store import Run, write_json


def robustness(studies: Sequence[Study], command: str) -> RobustnessFile:
    return RobustnessFile(studies=[_of(study, command) for study in studies])


def keep_robustness(studies: Sequence[Study], folder: Path, command: str) -> Path:
    """In the folder of the study, or in a run folder, whose report shows it then."""
    path = folder / FILE
    write_json(path, robustness(studies, command).model_dump(mode="json", exclude_none=True))
    return path


def refuse_another_encoder(run: Run, encoder: str) -> None:
    """Before hours of measuring: a report shows only what fits its own search."""
    used = sorted({one["encoder"] for one in run.manifest()["stages"].values() if one["encoder"]})
    if encoder not in used:
        told = ", ".join(f"'{one}'" for one in used) or "none"
        raise InputError(
            f"--run {run.path}: its report would not show this, because the run was searched with another "
            f"encoder (it has {told}; this is '{encoder}'). Give --encoder as in heldout overlap"
        )


def _of(study: Study, command: str) -> Robustness:
    return Robustness(
        command=command, collection=study.collection, side=study.side, encoder=study.encoder,
        judge=study.judge, shortlist=study.shortlist, queries=study.queries, pictures=study.pictures,
        transforms=[_recall(one) for one in study.transforms],
    )  # fmt: skip


def _recall(one: Measured) -> Recall:
    judged = one.verified
    return Recall(
        name=one.name, description=one.description, shortlisted=_share(one.recall_at_k),
        found=_share(judged.found) if judged else None,
        undecided=_share(judged.undecided) if judged else None,
    )  # fmt: skip


def _share(rate: Rate) -> Share:
    return Share(hits=rate.hits, n=rate.n, low=round(rate.low, 6), high=round(rate.high, 6))
