"""A search in parts, as independent jobs, and ``heldout.merge``, which makes one run of them.

A part compares its shards and concludes nothing: which neighbours are the nearest of all, and which pairs are
worth verifying, is known once every shard is compared. Merging takes over what the parts have finished and
goes on as a run does that was interrupted there, so its tables are those of a search in one piece.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout.audit.conclusion import PART
from heldout.audit.overlap import CorpusSource, OverlapResult, audit_overlap, opened_corpora
from heldout.benchmark import Benchmark, benchmark_identity, read_benchmark
from heldout.corpus import Corpus, corpus_fingerprint, is_recipe
from heldout.engine import Engine, progress
from heldout.errors import InputError
from heldout.overlap import OverlapSettings, Part
from heldout.settings import Settings
from heldout.store import Run, adopt_shards, open_run, python_command


class MergeSettings(Settings):
    """Settings of ``heldout merge``."""

    finish: bool = False
    """Search the shards of missing and unfinished parts here, instead of naming these parts."""


def merge_runs(
    runs: Sequence[Run | str | Path],
    run: Run | str | Path | None = None,
    engine: Engine | str = "local",
    *,
    benchmark: Benchmark | str | Path | None = None,
    against: Sequence[CorpusSource] | None = None,
    settings: MergeSettings | None = None,
    workers: int | None = None,
    quiet: bool = False,
    command: Sequence[str] | None = None,
    notify: Callable[[str], None] | None = None,
    **values: Any,
) -> OverlapResult:
    """Make one run of the parts of a search, with the tables and claims of a search in one piece.

    ``heldout.merge(...)`` is this function, too. Pairs that look alike are verified here, and findings, claims
    and report are made, so the benchmark and the corpora are read where the parts read them.

    Args:
        runs: Run folders of ``heldout.overlap`` with the setting ``part``, all of one search.
        run: Run folder, new or of the same search; default: a new one below ``heldout-runs``.
        engine: Where the rest of the search runs: ``local``, ``ray``, ``ray://HOST:PORT``, or an opened
            engine.
        benchmark: The benchmark, where the parts' cannot be read again by its name.
        against: The corpora, where the parts' cannot be opened again by their names.
        settings: All settings; or give them by name as further arguments.
        workers: Processes; default: one per core.
        quiet: Show no progress.
        command: What the run records as its command; default: this call.
        notify: Receives warnings; default: standard error.
        **values: Fields of ``heldout.audit.MergeSettings``.

    Returns:
        The run, with matches, leaks, claims and findings as data frames.
    """
    chosen = MergeSettings.choose(settings, values)
    parts = [each if isinstance(each, Run) else Run.open(each) for each in runs]
    record = _one_search(parts, finish=chosen.finish)
    manifest = parts[0].manifest()
    identity = manifest["inputs"]["benchmark"]
    if benchmark is None:
        if not identity["source"]:
            raise InputError(
                "benchmark: the parts' was made in Python; give it, it cannot be read again"
            )
        benchmark = read_benchmark(
            identity["source"], name=identity["name"], **identity["settings"]
        )
    elif not isinstance(benchmark, Benchmark):
        benchmark = read_benchmark(benchmark)
    if against is None:
        named = [f"{each['name']}={each['source']}" for each in record["corpora"]]
        against = record.get("sources") or named
    corpora = [corpus for source in against for corpus in opened_corpora(source)]
    _same_inputs(benchmark, corpora, identity, record, quiet=quiet)
    if command is None:
        command = python_command("merge", repr([str(each.path) for each in parts]))
    if run is None or isinstance(run, str | Path):
        written = list(command)
        run = open_run(
            run, "merge", benchmark.name, command=lambda _: written, seed=manifest["seed"]
        )
    if any(run.path.resolve() == part.path.resolve() for part in parts):
        raise InputError(f"{run.path} is one of the parts: use another folder for the whole")
    run.claim_benchmark(benchmark_identity(benchmark))
    with run.writing(), progress("taking over the parts", None, "files", disabled=quiet) as step:
        _take_over(parts, run, step)
    recipes = any(not isinstance(source, Corpus) and is_recipe(source) for source in against)
    return audit_overlap(
        benchmark,
        against if recipes else corpora,  # what a recipe names is reported by source
        run,
        engine,
        settings=OverlapSettings.read(record["settings"]),
        null=record["null"],
        controls=record["controls"],
        workers=workers,
        quiet=quiet,
        command=command,
        notify=notify,
    )


def _one_search(parts: Sequence[Run], *, finish: bool) -> dict[str, Any]:
    """What the parts have in common. InputError unless they are the parts of one search, all there."""
    if not parts:
        raise InputError("runs: no run was given: give the run folders of the parts")
    records: dict[str, tuple[Run, dict[str, Any]]] = {}
    for run in parts:
        record = run.manifest().get(PART)
        if not record:
            raise InputError(
                f"{run.path} is not a part of a search: it was searched without the setting part"
            )
        twin = records.get(record["part"])
        if twin is not None:
            raise InputError(
                f"{twin[0].path} and {run.path} are both part {record['part']}: give one of them"
            )
        records[record["part"]] = (run, record)
    first, common = next(iter(records.values()))
    of = Part.read(common["part"]).of
    for run, record in records.values():
        if difference := _difference(first, run, common, record):
            raise InputError(
                f"{first.path} and {run.path} are parts of different searches: {difference}"
            )
    if finish:
        return common
    there = {Part.read(text).number for text in records}
    if missing := [str(number) for number in range(1, of + 1) if number not in there]:
        raise InputError(
            f"{_named(missing, 'part')} of {of} {'is' if len(missing) == 1 else 'are'} missing: search "
            f"{'it' if len(missing) == 1 else 'them'}, or use the setting finish to search here what is missing"
        )
    open_parts = [(run, record) for run, record in records.values() if not record["finished"]]
    if open_parts:
        names = _named([Part.read(record["part"]).number for _, record in open_parts], "part")
        folders = ", ".join(str(run.path) for run, _ in open_parts)
        raise InputError(
            f"{names} of {of} {'is' if len(open_parts) == 1 else 'are'} unfinished ({folders}): give the same "
            f"command again, or use the setting finish to search here what is missing"
        )
    return common


def _named(numbers: Sequence[object], word: str) -> str:
    texts = [str(number) for number in numbers]
    if len(texts) == 1:
        return f"{word} {texts[0]}"
    return f"{word}s {', '.join(texts[:-1])} and {texts[-1]}"


def _difference(
    first: Run, run: Run, record: Mapping[str, Any], other: Mapping[str, Any]
) -> str | None:
    """What keeps two runs from being parts of one search; None if nothing does."""
    ours, theirs = Part.read(record["part"]), Part.read(other["part"])
    if ours.of != theirs.of:
        return f"one of {ours.of} parts, one of {theirs.of}"
    if record["heldout"] != other["heldout"]:
        return f"one by heldout {record['heldout']}, one by {other['heldout']}"
    manifests = first.manifest(), run.manifest()
    benchmarks = [manifest["inputs"]["benchmark"] for manifest in manifests]
    if benchmarks[0]["fingerprint"] != benchmarks[1]["fingerprint"]:
        return _versus("the benchmark is", *(each["name"] for each in benchmarks))
    if manifests[0]["seed"] != manifests[1]["seed"]:
        return f"the seed is {manifests[0]['seed']}, and {manifests[1]['seed']}"
    for name, value in record["settings"].items():
        if other["settings"].get(name) != value:
            return f"{name} is {value!r}, and {other['settings'].get(name)!r}"
    for name in ("null", "controls"):
        if record[name] != other[name]:
            return f"{name} is {record[name]!r}, and {other[name]!r}"
    corpora = [{each["name"]: each for each in entry["corpora"]} for entry in (record, other)]
    if list(corpora[0]) != list(corpora[1]):
        return f"the corpora are {', '.join(corpora[0])}, and {', '.join(corpora[1])}"
    for name, corpus in corpora[0].items():
        if corpus["fingerprint"] != corpora[1][name]["fingerprint"]:
            return f"the corpus {name} ({corpus['source']}) had other files"
    return None


def _versus(what: str, left: str, right: str) -> str:
    return f"{what} {left}, and {right}" if left != right else f"{what} {left}, in two revisions"


def _same_inputs(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    identity: Mapping[str, Any],
    record: Mapping[str, Any],
    *,
    quiet: bool,
) -> None:
    title = f"reading the images of {benchmark.name}"
    with progress(title, len(benchmark.images), "images", disabled=quiet) as step:
        benchmark.identify(step)
    if benchmark.fingerprint != identity["fingerprint"]:
        raise InputError(
            f"{benchmark.name} is not what the parts were searched for: its content or order changed"
        )
    known = {each["name"]: each["fingerprint"] for each in record["corpora"]}
    for corpus in corpora:
        if corpus_fingerprint(corpus) != known.get(corpus.name):
            raise InputError(
                f"the corpus {corpus.name} ({corpus.source}) is not what the parts searched: files were added, "
                f"removed or changed"
            )


def _take_over(parts: Sequence[Run], whole: Run, step: Callable[[], None]) -> None:
    """What the parts have finished, into ``whole``: shards of every stage, and embeddings, as links where
    the disk is the same."""
    stages: dict[Path, list[Path]] = {}
    for part in parts:
        for log in sorted((part.path / "stages").rglob("shards.log")):
            stages.setdefault(log.parent.relative_to(part.path), []).append(log.parent)
    for name, folders in stages.items():
        adopt_shards(folders, whole.path / name)
        step()
    for part in parts:
        for path in sorted((part.path / "embeddings").rglob("*")):
            target = whole.path / path.relative_to(part.path)
            if path.name.startswith(".") or path.name == "sheet.json" or not path.is_file():
                continue
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                _link(path, target)
            step()


def _link(path: Path, target: Path) -> None:
    try:
        os.link(path, target)
    except OSError:
        beside = target.with_name(f".{target.name}.tmp")
        shutil.copy2(path, beside)
        beside.rename(target)
