"""The gate before training: which training rows hold a benchmark, and must go."""

from __future__ import annotations

import html
import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from xml.etree import ElementTree

import polars as pl
from pydantic import Field

from heldout.cure._coverage import problems_of, uncompared_pictures, unsearched
from heldout.cure._files import ListWriter
from heldout.cure._training_sets import CleanedSet, write_cleaned
from heldout.errors import InputError, counted
from heldout.evidence import PROVEN, Leak, Rung, leak_batches
from heldout.settings import Settings
from heldout.store import Run, new_folder, replacing, sorted_frames, write_atomic, write_json

CLEAN = "clean"


# JUnit XML, which every CI shows: one test case per benchmark.


# Characters that XML 1.0 cannot hold, not even escaped. Ids are untrusted text.
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LONGEST = 100_000  # characters of detail: CI servers refuse reports of many megabytes
_LINES = 5_000  # of detail; more have more characters


class JunitCase(NamedTuple):
    name: str
    failure: tuple[str, str] | None  # what failed in a line, and the details
    error: str | None  # why the case could not be judged in whole
    skipped: str | None = None  # why there is no verdict, if none was expected
    more: int = 0  # lines of detail that are left out


def junit(suite: str, cases: Sequence[JunitCase]) -> bytes:
    """The report as UTF-8 bytes. No times: the same findings make the same file."""
    failures = sum(case.failure is not None for case in cases)
    errors = sum(case.failure is None and case.error is not None for case in cases)
    root = ElementTree.Element("testsuites")
    element = ElementTree.SubElement(
        root,
        "testsuite",
        {
            "name": _text(suite),
            "tests": str(len(cases)),
            "failures": str(failures),
            "errors": str(errors),
            "skipped": str(sum(_is_skipped(case) for case in cases)),
        },
    )
    for case in cases:
        sub_element = ElementTree.SubElement(
            element, "testcase", {"classname": _text(suite), "name": _text(case.name)}
        )
        if case.failure is not None:
            message, detail = case.failure
            failed = ElementTree.SubElement(
                sub_element, "failure", {"message": _text(message), "type": "leak"}
            )
            failed.text = _text(_short(detail, case.more))
        elif case.error is not None:
            ElementTree.SubElement(
                sub_element, "error", {"message": _text(case.error), "type": "not read in whole"}
            )
        elif case.skipped is not None:
            ElementTree.SubElement(sub_element, "skipped", {"message": _text(case.skipped)})
        if case.failure is not None and case.error is not None:
            ElementTree.SubElement(sub_element, "system-err").text = _text(case.error)
    ElementTree.indent(root)
    content: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _is_skipped(case: JunitCase) -> bool:
    return case.failure is None and case.error is None and case.skipped is not None


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def _short(detail: str, more: int = 0) -> str:
    kept = detail if len(detail) <= _LONGEST else detail[:_LONGEST].rsplit("\n", 1)[0]
    more += detail.count("\n") - kept.count("\n")
    return f"{kept}\nand {more:,} more; all of them are in training_rows.csv" if more else kept


GATE_VERSION = 1
_STRICT = frozenset({Rung.UNDECIDED, Rung.WORDING})


class GateSettings(Settings):
    """Settings of ``heldout gate``."""

    strict: bool = False
    """Undecided matches and questions without their answer count as leaks."""
    clean: bool = False
    """Also write the training sets without these rows, every file in its own format."""
    allow_unread: tuple[Annotated[str, Field(min_length=1)], ...] = ()
    """Kinds of files that may stay unread, as the gate names them (.pdf, hidden folder); "items" stands for single rows
    and pictures that are damaged."""


@dataclass(frozen=True)
class ProtectedBenchmark:
    """One benchmark, and what the training set holds of it."""

    benchmark: str
    items: int
    leaked: int  # items with a training row that must go
    rows: int  # those training rows
    doubtful: int  # items with matches that people must look at, and no other
    doubtful_rows: int  # such matches, of leaked items, too
    problems: tuple[str, ...]  # what could not be read or compared, on either side
    unsearched: tuple[
        str, ...
    ] = ()  # ways in which a training row may overlap that nobody looked for


@dataclass(frozen=True)
class GateResult:
    """What ``heldout.gate`` returns. ``passed`` only if nothing leaked and everything was read."""

    passed: bool
    protected: tuple[ProtectedBenchmark, ...]
    rows: int  # distinct training rows to remove
    files: dict[str, Path]
    cleaned: tuple[CleanedSet, ...] = ()  # with the setting ``clean``

    def as_json(self) -> dict[str, Any]:
        return {
            "passed": self.passed,
            "training_rows": self.rows,
            "benchmarks": [_protected_json(protected) for protected in self.protected],
            "files": {name: str(path) for name, path in self.files.items()},
            **({"cleaned": _cleaned_json(self.cleaned)} if self.cleaned else {}),
        }

    @property
    def removed(self) -> pl.DataFrame:
        """Training rows to remove, with the benchmark item that each overlaps."""
        return pl.read_parquet(self.files["rows"])

    @property
    def doubtful(self) -> pl.DataFrame:
        """Training rows that people should look at."""
        return pl.read_parquet(self.files["doubtful"].with_suffix(".parquet"))

    def __repr__(self) -> str:
        names = ", ".join(protected.benchmark for protected in self.protected)
        folder = next(iter(self.files.values())).parent if self.files else "not written"
        return (
            f"<Gate for {names}: {'passed' if self.passed else 'failed'}, {self.rows:,} training rows "
            f"to remove, {folder}>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(self.sentence())}</p>"

    def sentence(self) -> str:
        leaking = [protected.benchmark for protected in self.protected if protected.leaked]
        unread = [problem for protected in self.protected for problem in protected.problems]
        if self.passed:
            names = ", ".join(protected.benchmark for protected in self.protected)
            doubtful = sum(protected.doubtful for protected in self.protected)
            read = (
                f" {counted(doubtful, 'item has', 'items have')} matches that prove nothing and that "
                f"people must look at: {self.files['doubtful']}."
            )
            ways = dict.fromkeys(way for entry in self.protected for way in entry.unsearched)
            limits = f" Not looked for: {'; '.join(ways)}." if ways else ""
            if doubtful:
                return f"Gate passed: no training row is proven to overlap {names}.{read}{limits}"
            return f"Gate passed: no training row was found to overlap {names}.{limits}"
        messages = []
        if leaking:
            messages.append(
                f"{counted(self.rows, 'training row overlaps', 'training rows overlap')} "
                f"{', '.join(leaking)}"
            )
        if unread:
            messages += dict.fromkeys(unread)
        do = f" Remove the rows in {self.files['ids']}." if self.rows else ""
        for entry in self.cleaned:
            if entry.path is not None:
                rows = counted(entry.kept, "row", "rows")
                do += f" Without them: {entry.path} ({rows})."
            else:
                do += f" {entry.corpus} was not written again: {entry.reason}."
        return f"Gate failed: {'; '.join(messages)}.{do}"


def write_gate(
    runs: Run | str | Path | Sequence[Run | str | Path],
    out: str | Path | None = None,
    *,
    settings: GateSettings | None = None,
    **values: Any,
) -> GateResult:
    """Which training rows to remove so that no benchmark leaks: table, id list, and JUnit report.

    ``heldout.gate(...)`` is this function, too.

    Args:
        runs: Runs of ``heldout.overlap`` whose corpora are training sets. One run protects one
            benchmark; several runs against the same training set share a gate.
        out: Folder to write to; default: a new one below ``heldout-runs``.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.cure.GateSettings``.
    """
    chosen = GateSettings.choose(settings, values)
    strict = chosen.strict
    listed = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    several = [Run.open(entry) if isinstance(entry, str | Path) else entry for entry in listed]
    if not several:
        raise InputError("runs: the gate needs at least one run of heldout overlap")
    _check_one_training_set(several)
    counted = PROVEN | _STRICT if strict else PROVEN
    judged = [_Judged.of(run, chosen.allow_unread) for run in several]
    division = _Division(judged, counted)
    with new_folder(out, "gate") as folder:
        files = {
            "rows": folder / "training_rows.parquet",
            "ids": folder / "remove_ids.txt",
            "doubtful": folder / "training_doubtful.csv",
            "junit": folder / "junit.xml",
            "manifest": folder / "gate.json",
        }
        with (
            ListWriter(folder, "training_rows") as removed,
            ListWriter(folder, "training_doubtful") as doubtful,
            replacing(files["ids"]) as temporary,
            temporary.open("w", encoding="utf-8") as ids,
        ):
            for frame in sorted_frames(division.frames(several), ["corpus", "corpus_id"]):
                leaked, unproven = division.divided(frame)
                removed.write(leaked.to_dicts())
                doubtful.write(unproven.to_dicts())
                ids.writelines(division.ids(leaked))
        protected = [entry.summary for entry in judged]
        passed = not division.rows and not any(summary.problems for summary in protected)
        write_atomic(files["junit"], junit("heldout gate", [entry.case() for entry in judged]))
        cleaned = tuple(_cleaned(several, folder)) if chosen.clean and division.rows else ()
        write_json(
            files["manifest"],
            {
                "gate_version": GATE_VERSION,
                "passed": passed,
                "strict": strict,
                "training_rows": division.rows,
                "benchmarks": [_protected_json(summary) for summary in protected],
                **({"cleaned": _cleaned_json(cleaned)} if cleaned else {}),
            },
        )
    return GateResult(passed, tuple(protected), division.rows, files, cleaned)


def _cleaned(runs: Sequence[Run], folder: Path) -> Iterator[CleanedSet]:
    """Every training set that holds rows to remove, once: runs of several benchmarks share it, and so do those
    sources of a mixture that are rows of one file."""
    named: dict[str, dict[str, None]] = {}
    for run in runs:
        for stage in run.manifest()["stages"].values():
            named.setdefault(stage["source"], {})[stage["corpus"]] = None
    rows = pl.scan_parquet(folder / "training_rows.parquet").select("corpus", "corpus_id")
    ids = rows.unique().sort("corpus", "corpus_id").collect()
    for source, names in named.items():
        own = ids.filter(pl.col("corpus").is_in(list(names)))["corpus_id"].to_list()
        if own:
            yield write_cleaned(", ".join(names), source, own, folder / CLEAN)


def _protected_json(protected: ProtectedBenchmark) -> dict[str, Any]:
    lists = {name: list(getattr(protected, name)) for name in ("problems", "unsearched")}
    return {**vars(protected), **lists}


def _cleaned_json(cleaned: Sequence[CleanedSet]) -> list[dict[str, Any]]:
    return [
        {**vars(entry), "path": None if entry.path is None else str(entry.path)}
        for entry in cleaned
    ]


def _check_one_training_set(runs: Sequence[Run]) -> None:
    """Equal names must be equal corpora, or the ids of one would be removed from the other."""
    known: dict[str, tuple[str, str, Path]] = {}
    seen: set[str] = set()
    for run in runs:
        if str(run.path.resolve()) in seen:
            raise InputError(f"{run.path} is named twice: name each run once")
        seen.add(str(run.path.resolve()))
        run.verify()
        for stage in run.manifest()["stages"].values():
            own = (stage["fingerprint"], stage["source"], run.path)
            other = known.setdefault(stage["corpus"], own)
            if other[0] != own[0]:
                raise InputError(
                    f"'{stage['corpus']}' is {other[1]} in {other[2]} and {own[1]} in {own[2]}: give "
                    f"different training sets different names (NAME=CORPUS)"
                )


@dataclass
class _Judged:
    """What one run says of its benchmark; the counts grow while its leaks are divided."""

    benchmark: str
    items: int
    problems: tuple[str, ...]
    unsearched: tuple[str, ...]
    leaked: set[str] = field(default_factory=set)
    doubted: set[str] = field(default_factory=set)
    rows: int = 0  # training rows that must go
    doubtful: int = 0
    matches: int = 0  # with a training row that must go
    lines: list[str] = field(default_factory=list)  # the first of them, for people

    @classmethod
    def of(cls, run: Run, allowed: Collection[str] = ()) -> _Judged:
        manifest = run.manifest()
        known = manifest["inputs"].get("benchmark")
        if known is None or not manifest["stages"]:
            raise InputError(f"{run.path} has no finished scan: run heldout overlap into it first")
        problems, ways = problems_of(run, allowed), list(unsearched(manifest))
        pictures, many = uncompared_pictures(run)
        if pictures and many:
            problems.append(f"{pictures}, could not be compared")
        elif pictures:
            ways.append(pictures)
        return cls(known["name"], known["items"], tuple(problems), tuple(ways))

    def count(self, removed: pl.DataFrame, doubtful: pl.DataFrame) -> None:
        self.leaked.update(removed["benchmark_id"])
        self.doubted.update(doubtful["benchmark_id"])
        self.rows += removed.select("corpus", "corpus_id").n_unique()
        self.doubtful += len(doubtful)
        self.matches += len(removed)
        for row in removed.head(_LINES - len(self.lines)).iter_rows(named=True):
            self.lines.append(
                f"{row['corpus']}: {row['corpus_id']} holds {row['benchmark_id']} ({row['reason']})"
            )

    @property
    def summary(self) -> ProtectedBenchmark:
        doubted = len(self.doubted - self.leaked)
        leaked = len(self.leaked)
        return ProtectedBenchmark(
            self.benchmark,
            self.items,
            leaked,
            self.rows,
            doubted,
            self.doubtful,
            self.problems,
            self.unsearched,
        )

    def case(self) -> JunitCase:
        summary = self.summary
        failure = None
        if summary.leaked:
            failure = (
                f"{summary.leaked:,} of {counted(summary.items, 'item', 'items')} "
                f"{'is' if summary.leaked == 1 else 'are'} in "
                f"{counted(summary.rows, 'training row', 'training rows')}",
                "\n".join(self.lines),
            )
        error = "; ".join(summary.problems) or None
        more = self.matches - len(self.lines)
        return JunitCase(summary.benchmark, failure, error, more=more)


class _Division:
    """Matches of all runs, divided into training rows that must go and those that people must look at."""

    def __init__(self, judged: Sequence[_Judged], counted: frozenset[Rung]) -> None:
        self.judged, self.counted = judged, counted
        self.rows = 0  # distinct training rows to remove
        self.corpora: set[str] = set()  # that hold them

    def frames(self, runs: Sequence[Run]) -> Iterator[pl.DataFrame]:
        # Matches that count come first: an undecided picture does not outweigh a question with its answer.
        weight = {rung.value: (rung in self.counted, Leak(rung, {}).gravity) for rung in Rung}
        order = {
            rung: place for place, rung in enumerate(sorted(weight, key=lambda rung: weight[rung]))
        }
        for number, (run, judged) in enumerate(zip(runs, self.judged, strict=True)):
            for frame in leak_batches(run):
                counts = frame.filter(pl.col("rung").is_in(self.counted))
                self.corpora.update(counts["corpus"].unique())
                yield frame.with_columns(
                    pl.lit(judged.benchmark).alias("benchmark"),
                    pl.lit(number).alias("run"),
                    pl.col("rung").replace_strict(order, return_dtype=pl.Int32).alias("weight"),
                )

    def divided(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows to remove and doubtful ones. A training row may match an item by bytes and by words: the gravest
        match stays."""
        place = ["corpus", "corpus_id", "benchmark", "benchmark_id", "run"]
        gravest = frame.sort(*place, "weight", maintain_order=True).unique(
            place, keep="last", maintain_order=True
        )
        counts = pl.col("rung").is_in(self.counted)
        removed = gravest.filter(counts)
        doubtful = gravest.filter(
            ~counts & (pl.col("rung") != Rung.LOOK_ALIKE)
        )  # no proven copies, and many
        for number, judged in enumerate(self.judged):
            own = pl.col("run") == number
            judged.count(removed.filter(own), doubtful.filter(own))
        return removed, doubtful

    def ids(self, removed: pl.DataFrame) -> Iterator[str]:
        """One id a line; with its corpus and a tab in front where there are several corpora.

        Line breaks inside an id are escaped: an id must not look like two.
        """
        several = len(self.corpora) > 1
        once = removed.select("corpus", "corpus_id").unique(maintain_order=True)
        self.rows += len(once)
        for corpus, identifier in once.iter_rows():
            line = f"{corpus}\t{identifier}" if several else identifier
            if any(mark in line for mark in "\n\r"):
                line = line.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
            yield line + "\n"
