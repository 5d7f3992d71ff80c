"""The leaderboard of detectors as a page of its own, and the file with which others join it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import Field, ValidationError, model_validator

from heldout.detect import Detector, Strict
from heldout.errors import InputError
from heldout.lab.power._answers import area_text
from heldout.lab.power.board import GROUPS, Standing, group_of, standings
from heldout.lab.power.conform import REQUIREMENTS, Conformance, DetectorPackage
from heldout.lab.power.models import OTHER_SEEDS, RAW
from heldout.lab.power.page import table
from heldout.report import RateBar, rate_chart, standalone
from heldout.store import write_atomic

PAGE, CARD = "leaderboard.md", "figures/leaderboard.svg"
#: what a row says about its model is taken from the grid, never from the file
TRUTH = ("base", "arm", "role", "dose")
_HEADINGS = {
    "answers": "From answers alone",
    "order": "From log-probabilities: the order of the release",
    "cohort": "From log-probabilities: against a cohort of models",
    "membership": "From log-probabilities: against items that no model can have seen",
}


class MeasuredRow(Strict):
    """One detector on one model of the grid, as ``heldout lab power`` writes it."""

    benchmark: str
    detector: str
    way: Literal["raw", "other seeds", "same base"]
    model: str
    split: str = ""
    references: int = Field(0, ge=0)
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = Field(None, ge=0, le=1)
    direction: Literal["seen", "not seen", "none"] | None = None
    n: int | None = None
    clusters: int | None = None
    tokens: int | None = None

    @model_validator(mode="after")
    def _whole(self) -> MeasuredRow:
        if self.p is not None and (self.effect is None or self.direction is None):
            raise ValueError(f"{self.detector} on {self.model}: a p without effect and direction")
        return self


class DetectorEntry(Strict):
    name: str
    summary: str
    works_on: str  # answers, order, cohort or membership
    citations: list[str] = Field(default_factory=list)  # BibTeX
    conformance: Conformance | None = None


class DetectorResults(Strict):
    """The file of one package: its detectors, what ``heldout lab conform`` found, rows of the grid."""

    schema_version: Literal[1] = 1
    package: str
    version: str = ""
    authors: str = ""
    url: str = Field("", pattern=r"^(https?://\S+)?$")
    note: str = ""
    heldout: str
    command: str
    detectors: list[DetectorEntry]
    rows: list[MeasuredRow] = Field(default_factory=list)

    @model_validator(mode="after")
    def _own_rows(self) -> DetectorResults:
        names = [entry.name for entry in self.detectors]
        if len(set(names)) < len(names):
            raise ValueError("two detectors have one name")
        strange = sorted({row.detector for row in self.rows} - set(names))
        if strange:
            raise ValueError(f"rows of {', '.join(strange)}, which this file does not list")
        return self


def results_of(
    package: DetectorPackage,
    tested: Sequence[tuple[Detector, Conformance]],
    *,
    rows: Path | None = None,
    authors: str = "",
    url: str = "",
    note: str = "",
    command: str = "",
) -> DetectorResults:
    """What a package's detectors did, as the file with which they join the leaderboard.

    Args:
        package: What was tested.
        tested: Its detectors with their results.
        rows: ``detector-power.parquet`` of trained models; rows of other detectors are left out.
        authors: Who made it.
        url: Where it is.
        note: A sentence about these results.
        command: The command that was given.
    """
    from heldout import __version__

    try:
        return DetectorResults(
            package=package.name,
            version=package.version,
            authors=authors,
            url=url,
            note=note,
            heldout=__version__,
            command=command,
            detectors=[
                DetectorEntry(
                    name=detector.name,
                    summary=detector.summary,
                    works_on=group_of(detector.name, detector),
                    citations=[citation.text() for citation in detector.citations],
                    conformance=conformance,
                )
                for detector, conformance in tested
            ],
            rows=[] if rows is None else _rows(rows, [detector.name for detector, _ in tested]),
        )
    except ValidationError as error:
        fault = error.errors()[0]
        raise InputError(f"{fault['loc'][0]}: {fault['msg']}") from error


def _rows(path: Path, names: Sequence[str]) -> list[MeasuredRow]:
    if not path.is_file():
        raise InputError(f"rows {path}: there is no such file")
    frame = pl.read_parquet(path)
    known = [name for name in MeasuredRow.model_fields if name in frame.columns]
    own = frame.filter(pl.col("detector").is_in(names) & pl.col("effect").is_not_null())
    if own.is_empty():
        raise InputError(f"rows {path}: it has no result of {', '.join(names)}")
    return [MeasuredRow(**row) for row in own.select(known).iter_rows(named=True)]


def read_results(path: Path) -> DetectorResults:
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    try:
        return DetectorResults.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        message = str(error).splitlines()[0]
        if isinstance(error, ValidationError):
            fault = error.errors()[0]
            place = ".".join(map(str, fault["loc"]))
            message = f"{place}: {fault['msg']}" if place else fault["msg"]
        raise InputError(
            f"{path} is not what heldout lab conform PACKAGE --out FILE writes ({message})"
        ) from error


def rows_of(results: Sequence[DetectorResults], rows: pl.DataFrame) -> pl.DataFrame:
    """Our rows and those of the files; which models are contaminated is what the grid says.

    Args:
        results: Files of packages.
        rows: ``detector-power.parquet``, which ``heldout lab power`` writes.
    """
    truth = rows.select("benchmark", "model", *TRUTH).unique(["benchmark", "model"])
    taken = set(rows["detector"])
    frames = [rows]
    for package in results:
        if not package.rows:
            continue
        own = pl.DataFrame([row.model_dump() for row in package.rows], infer_schema_length=None)
        if twice := sorted(taken & set(own["detector"])):
            raise InputError(f"{package.package}: {', '.join(twice)} is measured already")
        taken |= set(own["detector"])
        joined = own.join(truth, on=["benchmark", "model"], how="left", maintain_order="left")
        unknown = joined.filter(pl.col("role").is_null())
        if len(unknown):
            raise InputError(
                f"{package.package}: the grid has no model {unknown['model'][0]} on "
                f"{unknown['benchmark'][0]}; rows have to be of the models that heldout lab train makes"
            )
        shared = [name for name in joined.columns if name in rows.columns]
        frames.append(joined.select(pl.col(name).cast(rows.schema[name]) for name in shared))
    return pl.concat(frames, how="diagonal")


def write_leaderboard(
    rows: pl.DataFrame,
    results: Sequence[DetectorResults],
    folder: Path,
    command: str,
    seed: int = 0,
) -> list[Path]:
    """``leaderboard.md`` and its card in ``folder``."""
    board = _board(rows_of(results, rows), seed)
    page, card = folder / PAGE, folder / CARD
    write_atomic(card, standalone(_card(board, results)))
    write_atomic(page, "\n".join(_page(board, results, command)) + "\n")
    return [page, card]


def _board(rows: pl.DataFrame, seed: int) -> dict[str, Standing]:
    """Every detector once: less references of other seeds, or by itself where that is all there is."""
    tested = rows.filter(pl.col("effect").is_not_null())
    compared = tested.filter(pl.col("way") == OTHER_SEEDS)
    alone = tested.filter(
        (pl.col("way") == RAW) & ~pl.col("detector").is_in(compared["detector"].unique().to_list())
    )
    return {entry.detector: entry for entry in standings(pl.concat([compared, alone]), seed)}


def _groups(
    board: dict[str, Standing], results: Sequence[DetectorResults]
) -> Iterator[tuple[str, list[Standing]]]:
    """By what they work on, best first; those that fire on clean models come last."""
    works_on = {entry.name: entry.works_on for package in results for entry in package.detectors}
    for group in GROUPS:
        members = [
            entry for name, entry in board.items() if works_on.get(name, entry.group) == group
        ]
        if members:
            yield group, sorted(members, key=lambda entry: (entry.off, -(entry.auc or 0.0)))


def _card(board: dict[str, Standing], results: Sequence[DetectorResults]) -> str:
    dots = []
    for group, members in _groups(board, results):
        for entry in members:
            if entry.auc is not None and entry.auc_interval is not None:
                name = f"{entry.detector}{' (off)' if entry.off else ''}"
                dots.append(RateBar(name, entry.auc, *entry.auc_interval, group=_HEADINGS[group]))
    title = "How well detectors tell contaminated from clean models"
    label = "area under the curve with 95 % interval; dashed: chance"
    return str(rate_chart(dots, title=title, label=label, shares=False, reference=0.5))


def _page(
    board: dict[str, Standing], results: Sequence[DetectorResults], command: str
) -> Iterator[str]:
    packages = {entry.name: package for package in results for entry in package.detectors}
    conformances = {entry.name: entry for package in results for entry in package.detectors}
    yield "# Detector leaderboard"
    yield ""
    yield (
        "Which test tells a model that has seen a benchmark from one that has not? Every detector"
        " here was run on the same small models, of which we know what they were trained on ([the"
        f" lab](lab.md)). Written by `{command}`; every number behind it is on [power of "
        "detectors](detector-power.md)."
    )
    yield ""
    yield f"![area under the curve of every detector with its interval]({CARD})"
    yield ""
    yield (
        "*AUC*: how often a contaminated model has a larger effect than a clean one; 0.5 is "
        "chance. *Found* and *false alarms*: contaminated and clean models on which the test "
        "fires at the 5 % level. *Smallest dose*: how often the benchmark has to be in the "
        "training data before four of five models are found. Each detector is compared with clean"
        " models of other seeds, which is what a user may have. **off**: it fires on clean models"
        " more often than its level allows, and a claim that rests on it is at most *possible, "
        "not confirmed*. Rows of different tables were measured on different models: compare "
        "within a table."
    )
    yield ""
    for group, members in _groups(board, results):
        yield f"## {_HEADINGS[group]}"
        yield ""
        yield from table(
            (
                "detector",
                "by",
                "AUC",
                "found",
                "false alarms",
                "smallest dose",
                "tokens read",
                "conformance",
            ),
            (_row(entry, packages, conformances) for entry in members),
        )
    waiting = [entry for name, entry in conformances.items() if name not in board]
    if waiting:
        yield "## Not yet measured on trained models"
        yield ""
        yield (
            "These meet the requirements on made-up tables, or do not; nobody has run them on the"
            " grid yet, or they speak of pairs of models or of no model."
        )
        yield ""
        yield from table(
            ("detector", "by", "asks", "conformance"),
            (
                [entry.name, _by(packages.get(entry.name)), entry.summary, _conformance(entry)]
                for entry in waiting
            ),
        )
    yield from _conforming(results)
    yield from Path(__file__).with_name("joining.md").read_text(encoding="utf-8").splitlines()
    yield from _citing(results)


def _row(
    entry: Standing,
    packages: dict[str, DetectorResults],
    conformances: dict[str, DetectorEntry],
) -> list[str]:
    name = entry.detector
    plain = name if name in packages else name.split(" ")[0]  # "order-joint at equal cost"
    off = ""
    if entry.off:
        off = f" **off** ({', '.join(entry.off_in)})" if entry.off_in else " **off**"
    return [
        name,
        _by(packages.get(plain)),
        area_text(entry),
        str(entry.power),
        f"{entry.false_positives}{off}",
        entry.detectable,
        "–" if entry.tokens is None else f"{entry.tokens:,}",
        _conformance(conformances.get(plain)),
    ]


def _by(package: DetectorResults | None) -> str:
    if package is None:
        return "–"
    name = " ".join((package.authors or package.package).replace("|", "/").split())
    return f"[{name}]({package.url})" if package.url else name


def _conformance(entry: DetectorEntry | None) -> str:
    if entry is None or entry.conformance is None:
        return "not run"
    failed = [check.requirement for check in entry.conformance.checks if not check.passed]
    if failed:
        return f"fails: {', '.join(failed)}"
    return f"passes {len(entry.conformance.checks)} of {len(entry.conformance.checks)}"


def _conforming(results: Sequence[DetectorResults]) -> Iterator[str]:
    yield "## On made-up tables"
    yield ""
    yield (
        "`heldout lab conform` holds a detector to five requirements on tables in which memory "
        "was planted: false alarms within the 99 % band of its level, more power with more dose, "
        "the same result for the same seed and any order of rows, complete findings, and a reason"
        " where something is missing. No model and no data are needed."
    )
    yield ""
    tested = [
        (entry.name, entry.conformance)
        for package in results
        for entry in package.detectors
        if entry.conformance is not None
    ]
    doses = list(dict.fromkeys(dose for _, record in tested for dose in record.power))
    yield from table(
        ("detector", "false alarms", *(f"dose {dose}" for dose in doses), "fails"),
        (
            [
                name,
                _alarms(record),
                *(_share(record, dose) for dose in doses),
                ", ".join(check.requirement for check in record.checks if not check.passed) or "–",
            ]
            for name, record in tested
        ),
    )


def _alarms(record: Conformance) -> str:
    first = next(check for check in record.checks if check.requirement == REQUIREMENTS[0])
    return first.detail.split(" clean")[0]


def _share(record: Conformance, dose: str) -> str:
    return f"{record.power[dose]:.2f}" if dose in record.power else "–"


def _citing(results: Sequence[DetectorResults]) -> Iterator[str]:
    yield ""
    yield "## How to cite"
    yield ""
    yield (
        "Cite heldout with `CITATION.cff`, and the method with its paper; `heldout export RUN "
        "--to bibtex` writes the entries of the detectors that a run used."
    )
    yield ""
    for package in results:
        if package.note:
            yield f"{package.package}: {package.note}"
            yield ""
    cited = dict.fromkeys(
        text for package in results for entry in package.detectors for text in entry.citations
    )
    if cited:
        yield "```bibtex"
        yield from (line for text in cited for line in (*text.splitlines(), ""))
        yield "```"
