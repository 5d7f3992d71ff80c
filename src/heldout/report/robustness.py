"""How robust the search behind a report is: copies under every transform, as the lab measured.

A measurement in the run folder, made on the user's own images, comes first; else the published
measurement is shown, where the run searched with the encoder it is of. A search that was not measured has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from heldout.errors import InputError, percent
from heldout.overlap import PDQ, PHASH, RADII
from heldout.report._models import Figure
from heldout.report.figures import RateBar, rate_chart
from heldout.settings import command_line
from heldout.store import Run, read_document

ROBUSTNESS_FILE = "robustness.json"
#: a search without an encoder; other radii are another search
HASHES = f"hashes | PDQ within {RADII[PDQ]} of 256 bits, pHash within {RADII[PHASH]} of 64"
WEAK = 0.97  # recall that an audit should have; transforms below it are named in words
_NAMED = 6  # weak transforms named in words; the figure shows all


class _RobustnessModel(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Share(_RobustnessModel):
    hits: int
    n: int
    low: float
    high: float

    @property
    def value(self) -> float:
        return self.hits / self.n if self.n else 0.0


class Recall(_RobustnessModel):
    """Of copies under one transform; ``found`` and ``undecided`` where the shortlist was judged."""

    name: str
    description: str
    shortlisted: Share
    found: Share | None = None
    undecided: Share | None = None


class Robustness(_RobustnessModel):
    command: str  # that printed it
    collection: str
    side: Literal["query", "corpus"]
    encoder: str
    judge: str | None = None
    shortlist: int
    queries: int
    pictures: int
    transforms: list[Recall]


class RobustnessFile(_RobustnessModel):
    schema_version: Literal[1] = 1
    studies: list[Robustness]


def published() -> RobustnessFile:
    """What docs/measured/transforms.md shows; its command makes the file again."""
    text = (
        resources.files("heldout.report").joinpath("measured", ROBUSTNESS_FILE).read_text("utf-8")
    )
    return RobustnessFile.model_validate_json(text)


def own_measurement(run: Run) -> RobustnessFile | None:
    path = run.path / ROBUSTNESS_FILE
    if not path.exists():
        return None
    try:
        return RobustnessFile.model_validate(read_document(path))
    except (ValidationError, ValueError) as error:
        raise InputError(
            f"{path} is not what `heldout lab transforms BENCH --verify --run {run.path}` writes "
            f"({str(error).splitlines()[0]}): give that command again, or remove the file"
        ) from error


def robustness_sections(run: Run, scans: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One section per encoder that the run searched with, or for hashes alone: its figure, or a note that there
    is none."""
    nearest = {scan["encoder"]: scan["nearest"] for scan in scans if scan["encoder"]}
    if not nearest and any(scan.get("hashes") for scan in scans):
        nearest = {HASHES: 0}
    return [_section(run, encoder, nearest[encoder]) for encoder in sorted(nearest)]


def _section(run: Run, encoder: str, nearest: int) -> dict[str, Any]:
    short = encoder.split(" | ")[0]
    bench = str(run.manifest()["inputs"]["benchmark"].get("source") or "BENCH")
    measured = command_line("lab", "transforms", bench, run=str(run.path))
    for source, own in ((own_measurement(run), True), (published(), False)):
        study = _fitting(source, encoder) if source is not None else None
        if source is not None and study is not None:
            return {
                "encoder": short,
                "study": study,
                "own": own,
                "hashes": encoder == HASHES,
                "figure": Figure(f"robustness-{_plain(short)}", _drawn(study), ""),
                "weak": _weak(study),
                "weak_more": max(0, len(_below(study)) - _NAMED),
                "nearest": nearest,
                "command": measured,
            }
    return {"encoder": short, "study": None, "figure": None, "command": measured}


def _fitting(source: RobustnessFile, encoder: str) -> Robustness | None:
    """Measurements of this encoder in which the copy in the corpus was transformed, as in an audit."""
    fits = [
        study for study in source.studies if study.encoder == encoder and study.side == "corpus"
    ]
    return max(
        fits,
        key=lambda robustness: (robustness.judge is not None, robustness.queries),
        default=None,
    )


def _drawn(study: Robustness) -> Any:
    dots = []
    for transform in study.transforms:
        plain = plain_transform(transform.name)
        if study.judge:
            called = _value(transform.found)
            either = called + _value(transform.undecided)
            dots.append(RateBar(plain, called, series="called a copy"))
            dots.append(RateBar(plain, either, series="called a copy, or left to people"))
        else:
            dots.append(RateBar(plain, _value(transform.shortlisted)))
    if study.judge:
        label = "share of copies"
    elif study.encoder == HASHES:
        label = "share of copies near enough to be aligned"
    else:
        label = f"share of copies among the {study.shortlist} nearest (nothing was aligned)"
    title = "Share of copies found, by what was done to them"
    return rate_chart(dots, title=title, label=label)


_FAMILIES = {
    "rot": "turned by {}°",
    "crop": "{} pixels cropped off",
    "rs": "shrunk to {} pixels",
    "jpeg": "JPEG quality {}",
    "compound": "one panel of {}",
}
_TRANSFORMS = {
    "original": "unchanged",
    "flip-v": "top and bottom swapped",
    "flip-h": "left and right swapped",
    "gauss": "blurred",
    "noise": "noise added",
    "gray": "grey",
    "invert": "inverted",
    "red": "in red alone",
    "green": "in green alone",
    "blue": "in blue alone",
    "gamma-0.5": "lighter (gamma 0.5)",
    "gamma-2": "darker (gamma 2)",
    "bright": "30 % brighter",
    "contrast": "1.5 times the contrast",
    "equalize": "histogram equalised",
    "crop-half": "half of its area",
    "border": "frame added",
}


def plain_transform(name: str) -> str:
    """A transform of the lab as people call it."""
    family, _, amount = name.partition("-")
    return _TRANSFORMS.get(name) or _FAMILIES.get(family, name).format(amount)


def _value(share: Share | None) -> float:
    return share.value if share is not None else 0.0


def _below(study: Robustness) -> list[tuple[float, str]]:
    sentences = []
    for transform in study.transforms:
        share = transform.found if study.judge else transform.shortlisted
        if share is not None and share.value < WEAK:
            around = f"[{percent(share.low)}, {percent(share.high)}]"
            words = f"{plain_transform(transform.name)} {percent(share.value)} {around}"
            sentences.append((share.value, words))
    return sorted(sentences)


def _weak(study: Robustness) -> list[str]:
    return [words for _, words in _below(study)[:_NAMED]]


def _plain(name: str) -> str:
    return "".join(sign if sign.isalnum() else "-" for sign in name)[:40]
