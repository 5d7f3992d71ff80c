"""A clean split in the format of the input, and lists of everything that is not in it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from heldout import __version__
from heldout.benchmark import Benchmark, Opened
from heldout.cure.lists import decided_rows, write_list
from heldout.cure.policy import NOT_COMPARED, Decision, Policy, decide
from heldout.cure.roundtrip import RoundTrip, compare, pictures
from heldout.cure.searched import searched, what_was_not_searched
from heldout.cure.writing import chosen_by_table, entries, new_folder, write_file
from heldout.errors import InputError, counted
from heldout.evidence import PICTURED, Rung, leaks_of
from heldout.image import ImageError
from heldout.store import Run, write_json

SANITIZE_VERSION = 1
CLEAN = "clean"
_FEW = 30  # independent images below which a score says little


def sanitize(opened: Opened, run: Run, out: Path, policy: Policy) -> dict[str, Any]:
    """Write ``out`` with clean/, removed, doubtful, kept and manifest.json; return the manifest."""
    benchmark = opened.benchmark
    refuse_other_revision(benchmark, run)
    if policy.text:
        _refuse_without_words(run)
    leaks = leaks_of(run)
    ids = [example.id for example in benchmark]
    unread = _not_compared(benchmark)
    decisions = decide(ids, benchmark.clusters, entries(opened), leaks, policy, unread=unread)
    keep = [decision.action != "remove" for decision in decisions]
    if not any(keep):
        raise InputError(_nothing_left(decisions, policy))
    with new_folder(out) as folder:
        clean = folder / CLEAN
        chosen = chosen_by_table(opened, keep)
        for one in chosen:
            write_file([one], clean / one.table.relative, clean)
        whole = clean if len(chosen) > 1 else clean / chosen[0].table.relative
        originals = [example for one in chosen for example in one.examples]
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
    """Items with a picture that is missing, broken or flat: a scan says nothing about it."""
    return {
        example.id
        for example in benchmark
        if any(
            isinstance(digest, ImageError) or digest.blank
            for digest in (benchmark.digests[ref] for ref in example.images)
        )
    }


def refuse_other_revision(benchmark: Benchmark, run: Run) -> None:
    """A run speaks of one revision of one benchmark: its ids mean nothing in another."""
    known = run.manifest()["inputs"].get("benchmark")
    if known is None or not run.table_path("matches").exists():
        raise InputError(f"{run.path} has no finished scan: run heldout overlap into it first")
    if known["fingerprint"] != benchmark.fingerprint:
        raise InputError(
            f"{run.path} was made for '{known['name']}' ({counted(known['items'], 'item', 'items')} from "
            f"{known['source']}, fingerprint {known['fingerprint'][:12]}), but {benchmark.source} "
            f"reads as {counted(len(benchmark), 'item', 'items')} with fingerprint "
            f"{benchmark.fingerprint[:12]}: name the same benchmark with the same selection "
            f"and --map, or scan this one"
        )


def _refuse_without_words(run: Run) -> None:
    """Removing words nobody searched for would remove none, and look as if there were none."""
    if run.table_path("text_matches").exists():
        return
    manifest = run.manifest()
    against = " ".join(
        "--against " + shlex.quote(f"{stage['corpus']}={stage['source']}")
        for stage in manifest["stages"].values()
    )
    source = shlex.quote(str(manifest["inputs"]["benchmark"]["source"]))
    raise InputError(
        f"--text: {run.path} holds no search for words. Run: heldout overlap {source} {against} "
        f"--text --out {shlex.quote(str(run.path))}"
    )


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
            f"{leaked:,} of the {len(kept):,} kept items show an image that leaked: only items "
            f"that leaked with their question and answer were removed"
        )
    blind = sum(decision.reason == NOT_COMPARED for decision in decisions)
    if blind:
        texts.append(
            f"{counted(blind, 'kept item shows a picture', 'kept items show a picture')} that could not "
            f"be compared (missing, broken or flat): nobody knows whether it leaked; see doubtful"
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
        f"--policy {policy.name} leaves nothing: every one of the {len(decisions):,} items "
        f"{'shows an image that leaked' if shown else 'is removed'}. No subset of this split is "
        f"unseen. What can be done: "
    )
    options = []
    if policy.name != "full" and full < len(decisions):
        options.append(
            f"'--policy full' removes the {counted(full, 'item', 'items')} that leaked with question and "
            f"answer, and keeps {len(decisions) - full:,} whose image was seen"
        )
    options += [
        "'--resplit TRAIN' makes new splits of the union that share no image, to train and test on",
        "scan the training set against this benchmark, sanitize the training set instead, and "
        "train again",
    ]
    return message + "; ".join(f"({n}) {option}" for n, option in enumerate(options, 1))
