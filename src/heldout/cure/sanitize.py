"""A clean split in the format of the input, and lists of everything that is not in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from heldout import __version__
from heldout.benchmark import Benchmark, Opened, open_tables
from heldout.cure._coverage import searched, what_was_not_searched
from heldout.cure._files import (
    RoundTrip,
    atomic_folder,
    chosen_by_table,
    compare,
    decided_rows,
    entries,
    pictures,
    write_file,
    write_list,
)
from heldout.cure.policy import NOT_COMPARED, Decision, Policy, SanitizeSettings, decide
from heldout.cure.resplit import write_new_splits
from heldout.engine import progress
from heldout.errors import InputError, counted, html_table
from heldout.evidence import PICTURED, Rung, leaks_of
from heldout.image import Digests, ImageError
from heldout.settings import command_line
from heldout.store import Run, new_folder, write_json

Source = Benchmark | Opened | str | Path
SANITIZE_VERSION = 1
CLEAN = "clean"
_FEW = 30  # independent images below which a score says little


@dataclass(frozen=True)
class CleanSplit:
    """What ``heldout.sanitize`` returns: where the new files are, their manifest, and the lists beside them
    as data frames."""

    out: Path
    manifest: dict[str, Any]
    run: Run | None = None

    @property
    def sources(self) -> dict[str, Path]:
        """What ``read_benchmark`` reads: the clean split, or every new split by its name."""
        if "clean" in self.manifest:
            return {CLEAN: self.out / self.manifest["clean"]["open"]}
        return {split["name"]: self.out / split["open"] for split in self.manifest["splits"]}

    @property
    def removed(self) -> pl.DataFrame:
        """Items that are not in the clean split, with the reason and the match of each."""
        return self._list("removed")

    @property
    def doubtful(self) -> pl.DataFrame:
        """Items that are in the clean split and that people should look at."""
        return self._list("doubtful")

    @property
    def kept(self) -> pl.DataFrame:
        """Items of the clean split, by their old and new ids."""
        return self._list("kept")

    @property
    def moved(self) -> pl.DataFrame:
        """Items of new splits, with the split they come from."""
        return self._list("moved")

    def _list(self, name: str) -> pl.DataFrame:
        path = self.out / f"{name}.parquet"
        return pl.read_parquet(path) if path.exists() else pl.DataFrame()

    def as_json(self) -> dict[str, Any]:
        return {"out": str(self.out), **self.manifest}

    def __repr__(self) -> str:
        counts = {name: getattr(self, name).height for name in ("kept", "removed", "moved")}
        shown = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        return f"<Sanitized: {shown or 'nothing'}, {self.out}>"

    def _repr_html_(self) -> str:
        facts = {name: str(path) for name, path in self.sources.items()}
        if "clean" in self.manifest:
            facts["items"] = f"{self.manifest['clean']['items']:,}"
            for reason, count in self.manifest["removed"]["by_reason"].items():
                facts[f"removed: {reason}"] = f"{count:,}"
        cautions = {f"caution {n}": text for n, text in enumerate(self.manifest["cautions"], 1)}
        return html_table(("", ""), {**facts, **cautions}.items())


def sanitize(
    benchmark: Source,
    *,
    run: Run | str | Path | None = None,
    out: str | Path | None = None,
    resplit: Source | Sequence[Source] = (),
    settings: SanitizeSettings | None = None,
    quiet: bool = False,
    **values: Any,
) -> CleanSplit:
    """Write a clean split in the format of the input, with lists of everything that is not in it.

    Args:
        benchmark: The benchmark as it was searched for in ``run``, or where it is read from.
        run: Run of ``heldout.overlap``: what leaked. Needed unless ``resplit`` is given.
        out: New folder; default: one below ``heldout-runs``.
        resplit: The other split or splits: make new ones of the union that share no image.
        settings: All settings; or give them by name as further arguments.
        quiet: Show no progress.
        **values: Fields of ``heldout.cure.SanitizeSettings``.

    Returns:
        The new files, with removed, doubtful and kept items as data frames.
    """
    settings = SanitizeSettings.choose(settings, values)
    others = (
        list(resplit)
        if isinstance(resplit, Sequence) and not isinstance(resplit, str)
        else [resplit]
    )
    if run is None and not others:
        raise InputError(
            "run: expected a run of heldout overlap, which lists what leaked; or give the other splits "
            "with the setting resplit"
        )
    searched_run = Run.open(run) if isinstance(run, str | Path) else run
    opened = [_opened(source) for source in (benchmark, *others)]
    with new_folder(out, "sanitize", opened[0].benchmark.name) as folder:
        if others:
            manifest = write_new_splits(
                opened,
                folder,
                run=searched_run,
                stratify=settings.stratify,
                seed=settings.seed,
                quiet=quiet,
            )
        else:
            assert searched_run is not None
            items = opened[0].benchmark
            title = f"reading the images of {items.name}"
            with progress(title, len(items.images), "images", disabled=quiet) as step:
                items.identify(step)
            manifest = write_clean_split(opened[0], searched_run, folder, settings.removal)
    return CleanSplit(folder, manifest, searched_run)


def _opened(source: Source) -> Opened:
    """A benchmark together with its files, without decoding again what was decoded before."""
    if isinstance(source, Opened):
        return source
    if not isinstance(source, Benchmark):
        return open_tables(source)
    if not source.source:
        raise InputError(
            f"the benchmark '{source.name}' was not read from files, so there is no format to write it "
            f"in: give the path of its files"
        )
    opened = open_tables(source.source, **source.settings)
    if "digests" in source.__dict__:
        digests = [digest for digest in source.digests.values() if isinstance(digest, Digests)]
        opened.benchmark.identify(known={digest.bytes: digest for digest in digests})
    return opened


def write_clean_split(opened: Opened, run: Run, out: Path, policy: Policy) -> dict[str, Any]:
    """Write ``out`` with clean/, removed, doubtful, kept and manifest.json; return the manifest."""
    benchmark = opened.benchmark
    refuse_other_revision(benchmark, run)
    if policy.text:
        _refuse_without_words(run)
    leaks = leaks_of(run, ungraded=True)
    ids = [example.id for example in benchmark]
    unread = _not_compared(benchmark)
    decisions = decide(ids, benchmark.clusters, entries(opened), leaks, policy, unread=unread)
    keep = [decision.action != "remove" for decision in decisions]
    if not any(keep):
        raise InputError(_nothing_left(decisions, policy))
    with atomic_folder(out) as folder:
        clean = folder / CLEAN
        selections = chosen_by_table(opened, keep)
        for selection in selections:
            write_file([selection], clean / selection.table.relative, clean)
        whole = clean if len(selections) > 1 else clean / selections[0].table.relative
        originals = [example for selection in selections for example in selection.examples]
        trip = compare(originals, benchmark, opened.reading.back(whole))
        _write_lists(folder, decisions, benchmark, keep, trip, policy)
        manifest = {
            "sanitize_version": SANITIZE_VERSION,
            "heldout": __version__,
            "benchmark": {
                "name": benchmark.name,
                "source": benchmark.source,
                "fingerprint": benchmark.fingerprint,
                "format": benchmark.reader,
                "items": len(benchmark),
                "images": len(pictures(benchmark.examples, benchmark)),
                "rows_not_selected": sum(table.not_selected for table in opened.tables),
                "rows_not_readable": len(benchmark.dropped),
            },
            "policy": asdict(policy),
            "searched": searched(run),
            "clean": {
                "open": whole.relative_to(folder).as_posix(),
                "items": len(originals),
                "images": len(pictures(originals, benchmark)),
                "fingerprint": trip.written.fingerprint,
                "renamed_items": trip.renamed,
            },
            "removed": _counts(decisions, "remove"),
            "doubtful": _counts(decisions, "list"),
            "cautions": _cautions(decisions, originals, benchmark, run, policy),
            "differences": list(trip.differences),
        }
        write_json(folder / "manifest.json", manifest)
    return manifest


def _not_compared(benchmark: Benchmark) -> set[str]:
    """Items with a picture that is missing, broken or flat: a scan cannot compare it."""
    return {
        example.id
        for example in benchmark
        if any(
            isinstance(digest, ImageError) or digest.blank
            for digest in (benchmark.digests[ref] for ref in example.images)
        )
    }


def refuse_other_revision(benchmark: Benchmark, run: Run) -> None:
    """Refuse a run of another revision: ids of one revision do not identify items of another."""
    run.verify()
    known = run.manifest()["inputs"].get("benchmark")
    if known is None or not run.table_path("matches").exists():
        raise InputError(f"{run.path} has no finished scan: run heldout overlap into it first")
    if known["fingerprint"] != benchmark.fingerprint:
        raise InputError(
            f"{run.path} was made for '{known['name']}' ({counted(known['items'], 'item', 'items')} from "
            f"{known['source']}, fingerprint {known['fingerprint'][:12]}), but {benchmark.source} "
            f"reads as {counted(len(benchmark), 'item', 'items')} with fingerprint "
            f"{benchmark.fingerprint[:12]}: name the same benchmark with the same selection "
            f"and mapping, or scan this one"
        )


def _refuse_without_words(run: Run) -> None:
    """Refuse to remove leaked words if texts were not searched: none would be removed."""
    if run.table_path("text_matches").exists():
        return
    manifest = run.manifest()
    source = str(manifest["inputs"]["benchmark"]["source"])
    corpora = [f"{stage['corpus']}={stage['source']}" for stage in manifest["stages"].values()]
    search = command_line("overlap", source, against=corpora, out=str(run.path))
    raise InputError(f"text: {run.path} holds no text search. Run: {search}")


def _write_lists(
    folder: Path,
    decisions: Sequence[Decision],
    benchmark: Benchmark,
    keep: Sequence[bool],
    trip: RoundTrip,
    policy: Policy,
) -> None:
    write_list(folder, "removed", decided_rows(decisions, "remove", benchmark.dropped))
    write_list(folder, "doubtful", decided_rows(decisions, "list"))
    places = [position for position, kept in enumerate(keep) if kept]
    called = trip.ids if len(trip.ids) == len(places) else [None] * len(places)
    write_list(
        folder,
        "kept",
        (
            {"benchmark_id": decisions[place].benchmark_id, "written_id": name, "position": place}
            for place, name in zip(places, called, strict=True)
        ),
    )
    if policy.name == "down-weight":
        write_list(
            folder,
            "weights",
            (
                {
                    "benchmark_id": decision.benchmark_id,
                    "weight": decision.weight,
                    "cluster": cluster,
                    "reason": decision.reason or None,
                }
                for decision, cluster in zip(decisions, benchmark.clusters, strict=True)
            ),
        )


def _counts(decisions: Sequence[Decision], action: str) -> dict[str, Any]:
    counts = Counter(decision.reason for decision in decisions if decision.action == action)
    return {"items": counts.total(), "by_reason": dict(sorted(counts.items()))}


def _cautions(
    decisions: Sequence[Decision],
    kept: Sequence[Any],
    benchmark: Benchmark,
    run: Run,
    policy: Policy,
) -> list[str]:
    texts = list(what_was_not_searched(run))
    leaked = sum(
        decision.action == "list" and decision.leak is not None and decision.leak.rung in PICTURED
        for decision in decisions
    )
    if leaked and policy.name != "down-weight":
        texts.append(
            f"{leaked:,} of the {len(kept):,} kept items {'shows' if leaked == 1 else 'show'} an image that "
            f"leaked: only items that leaked with their question and answer were removed"
        )
    blind = sum(decision.reason == NOT_COMPARED for decision in decisions)
    if blind:
        texts.append(
            f"{counted(blind, 'kept item shows a picture', 'kept items show a picture')} that could not "
            f"be compared (missing, broken or flat), so it is unknown whether it leaked; see doubtful"
        )
    remaining = len(pictures(kept, benchmark))
    if 0 < remaining < _FEW:
        left = counted(remaining, "image is", "images are")
        texts.append(
            f"only {left} left: a score on {'it' if remaining == 1 else 'them'} says little"
        )
    return texts


def _nothing_left(decisions: Sequence[Decision], policy: Policy) -> str:
    full = sum(
        decision.leak is not None and decision.leak.rung is Rung.FULL for decision in decisions
    )
    shown = all(
        decision.leak is not None and decision.leak.rung in PICTURED for decision in decisions
    )
    message = (
        f"policy {policy.name}: leaves nothing; every one of the {len(decisions):,} items "
        f"{'shows an image that leaked' if shown else 'is removed'}. No subset of this split is "
        f"unseen. What can be done: "
    )
    options = []
    if policy.name != "full" and full < len(decisions):
        options.append(
            f"the policy full removes the {counted(full, 'item', 'items')} that leaked with question and "
            f"answer, and keeps {len(decisions) - full:,} whose image was seen"
        )
    options += [
        "the setting resplit makes new splits of the union that share no image, to train and test on",
        "scan the training set against this benchmark, sanitize the training set instead, and "
        "train again",
    ]
    return message + "; ".join(f"({n}) {option}" for n, option in enumerate(options, 1))
