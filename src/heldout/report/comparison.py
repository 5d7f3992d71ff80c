"""What changed between two audits of one benchmark: inputs, claims, findings, matches, scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from heldout.errors import InputError
from heldout.report._match_changes import match_changes
from heldout.report._scores_owed import corrected_of
from heldout.report.settings import CompareSettings
from heldout.store import Run

SCHEMA_VERSION = 1
_SAME = 1e-9
Changes = dict[str, Any]


def _compare_runs(before: Run, after: Run, examples: int) -> Changes:
    """Both folders hold what they are compared by: no input is read again, and only scores are computed.

    Args:
        before: A run.
        after: A later run of the same benchmark.
        examples: Items and matches named for each kind of change.
    """
    for run in (before, after):
        run.verify()
    old, new = before.manifest(), after.manifest()
    names = [_benchmark(run, manifest)["name"] for run, manifest in ((before, old), (after, new))]
    if names[0] != names[1]:
        raise InputError(
            f"{before.path} is about the benchmark '{names[0]}', {after.path} about '{names[1]}': compare "
            f"two audits of one benchmark (heldout matrix puts several side by side)"
        )
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmark": names[0],
        "before": str(before.path),
        "after": str(after.path),
        "inputs": _inputs(old, new),
        "claims": _claims(before, after),
        "findings": _findings(before, after),
        "matches": match_changes(before, after, examples),
        "scores": _scores(before, after),
    }


@dataclass(frozen=True)
class Comparison:
    """What ``heldout.compare`` returns.

    Args:
        changes: One record per benchmark that both folders have, as ``heldout compare --json`` prints it.
    """

    changes: tuple[Changes, ...]

    @property
    def claims(self) -> pl.DataFrame:
        """Claims that changed their status, appeared or are gone."""
        rows = [
            {
                "benchmark": record["benchmark"],
                "claim": claim["id"],
                "change": kind,
                "before": claim.get("before") or (claim["status"] if kind == "gone" else None),
                "after": claim.get("after") or (claim["status"] if kind == "appeared" else None),
                "sentence": claim["sentence"],
            }
            for record in self.changes
            for kind in ("changed", "appeared", "gone")
            for claim in record["claims"][kind]
        ]
        names = ("benchmark", "claim", "change", "before", "after", "sentence")
        return pl.DataFrame(rows, schema=dict.fromkeys(names, pl.String))

    @property
    def findings(self) -> pl.DataFrame:
        """Findings whose effect changed, with the effect before and after."""
        rows = [
            {
                "benchmark": record["benchmark"],
                "finding": finding["id"],
                "effect": finding["effect"],
                "before": finding["before"]["value"],
                "after": finding["after"]["value"],
            }
            for record in self.changes
            for finding in record["findings"]["changed"]
        ]
        texts = dict.fromkeys(("benchmark", "finding", "effect"), pl.String)
        return pl.DataFrame(
            rows, schema={**texts, **dict.fromkeys(("before", "after"), pl.Float64)}
        )

    @property
    def is_empty(self) -> bool:
        return all(is_empty(record) for record in self.changes)

    def __repr__(self) -> str:
        names = ", ".join(record["benchmark"] for record in self.changes)
        return (
            f"<Comparison of {names}: {self.claims.height:,} claims and {self.findings.height:,} "
            f"findings changed>"
        )

    def _repr_html_(self) -> str:
        return "<p>nothing changed</p>" if self.is_empty else self.claims._repr_html_()


def compare(
    before: str | Path | Run,
    after: str | Path | Run,
    *,
    settings: CompareSettings | None = None,
    **values: Any,
) -> Comparison:
    """Say what changed between two audits of one benchmark.

    Args:
        before: A run folder, or the output of an audit.
        after: A later one of the same benchmark.
        settings: All settings; or give them by name as further arguments.
        **values: Fields of ``heldout.report.CompareSettings``.

    Returns:
        Changes of inputs, claims, findings, matches and scores; claims and findings as data frames.
    """
    settings = CompareSettings.choose(settings, values)
    first, second = (run.path if isinstance(run, Run) else Path(run) for run in (before, after))
    return Comparison(tuple(_compare_folders(first, second, settings.examples)))


def _compare_folders(before: Path, after: Path, examples: int) -> list[Changes]:
    """Two run folders, or two outputs of `heldout audit`: every benchmark that both have."""
    for folder in (before, after):
        if not folder.is_dir():
            raise InputError(
                f"{folder} is no folder: compare two run folders, or two outputs of an audit"
            )
    outputs = [(path / "verdict.json").exists() for path in (before, after)]
    if outputs[0] != outputs[1]:
        output, run = (before, after) if outputs[0] else (after, before)
        name = _benchmark(Run.open(run), Run.open(run).manifest())["name"]
        inside = _runs_below(output).get(name)
        hint = f"{inside.path} is its run of {name}" if inside else f"it has no run of {name}"
        raise InputError(f"{output} is the output of an audit, {run} one run: {hint}")
    if not outputs[0]:
        return [_compare_runs(Run.open(before), Run.open(after), examples)]
    old, new = _runs_below(before), _runs_below(after)
    both = [name for name in old if name in new]
    if not both:
        raise InputError(
            f"{before} audits {', '.join(old) or 'nothing'}, {after} audits {', '.join(new) or 'nothing'}: "
            f"they have no benchmark in common"
        )
    records = [_compare_runs(old[name], new[name], examples) for name in both]
    records[0]["benchmarks"] = {
        "appeared": sorted(set(new) - set(old)),
        "gone": sorted(set(old) - set(new)),
    }
    return records


def is_empty(changes: Changes) -> bool:
    """Whether nothing changed; another version of heldout alone does not count."""
    inputs = {key: value for key, value in changes["inputs"].items() if key != "heldout"}
    matches = changes["matches"]
    moved = any(matches[kind] for kind in ("appeared", "gone", "changed"))
    return not (
        any(inputs.values())
        or _any(changes["claims"])
        or _any(changes["findings"])
        or moved
        or changes["scores"]
        or _any(changes.get("benchmarks", {}))
    )


def _any(changes: Mapping[str, Any]) -> bool:
    return any(changes.values())


def _benchmark(run: Run, manifest: Mapping[str, Any]) -> Mapping[str, Any]:
    known = manifest["inputs"].get("benchmark")
    if known is None:
        raise InputError(f"{run.path} has not got as far as its benchmark: finish it first")
    record: Mapping[str, Any] = known
    return record


def _runs_below(output: Path) -> dict[str, Run]:
    runs = {}
    for path in sorted(output.glob("*/manifest.json")):
        run = Run.open(path.parent)
        named = run.manifest()["inputs"].get("benchmark")
        if named:
            runs[named["name"]] = run
    return runs


def _inputs(old: Mapping[str, Any], new: Mapping[str, Any]) -> Changes:
    corpora = [{stage["corpus"]: stage for stage in m["stages"].values()} for m in (old, new)]
    settings = ("fingerprint", "encoder", "nearest", "hashes")
    changed = {}
    for name in corpora[0]:
        if name in corpora[1]:
            ways = [
                key for key in settings if corpora[0][name].get(key) != corpora[1][name].get(key)
            ]
            if ways:
                changed[name] = ways
    revision = [m["inputs"]["benchmark"]["fingerprint"] for m in (old, new)]
    packages = [m["packages"].get("heldout") for m in (old, new)]
    models = [m.get("models", {}) for m in (old, new)]
    return {
        "revision": revision if revision[0] != revision[1] else None,
        "items": _pair(*(m["inputs"]["benchmark"].get("items") for m in (old, new))),
        "seed": _pair(old["seed"], new["seed"]),
        "heldout": _pair(*packages),
        "corpora": _sets(*corpora) | {"changed": changed} if _sets(*corpora) or changed else None,
        "models": _sets(*models) or None,
    }


def _pair(first: Any, second: Any) -> list[Any] | None:
    return [first, second] if first != second else None


def _sets(first: Mapping[str, Any], second: Mapping[str, Any]) -> Changes:
    changes = {
        "appeared": sorted(set(second) - set(first)),
        "gone": sorted(set(first) - set(second)),
    }
    return changes if any(changes.values()) else {}


def _by_id(run: Run, name: str) -> dict[str, dict[str, Any]]:
    if not (run.path / f"{name}.json").exists():
        raise InputError(f"{run.path} has no {name}.json: run heldout report {run.path} first")
    return {record["id"]: record for record in run.read_json(f"{name}.json")[name]}


def _claims(before: Run, after: Run) -> Changes:
    old, new = _by_id(before, "claims"), _by_id(after, "claims")
    return {
        "changed": [
            {
                "id": key,
                "before": old[key]["status"],
                "after": new[key]["status"],
                "sentence": new[key]["sentence"],
                "why": new[key]["why"],
            }
            for key in old
            if key in new and old[key]["status"] != new[key]["status"]
        ],
        "appeared": [_claim(new[key]) for key in new if key not in old],
        "gone": [_claim(old[key]) for key in old if key not in new],
    }


def _claim(record: Mapping[str, Any]) -> Changes:
    return {"id": record["id"], "status": record["status"], "sentence": record["sentence"]}


def _findings(before: Run, after: Run) -> Changes:
    old, new = _by_id(before, "findings"), _by_id(after, "findings")
    return {
        "changed": [
            {
                "id": key,
                "effect": new[key]["effect"]["name"],
                "before": _effect(old[key]),
                "after": _effect(new[key]),
            }
            for key in old
            if key in new and _differs(old[key], new[key])
        ],
        "appeared": [key for key in new if key not in old],
        "gone": [key for key in old if key not in new],
    }


def _effect(record: Mapping[str, Any]) -> Changes:
    effect = record["effect"]
    return {
        "value": effect["value"],
        "low": effect["low"],
        "high": effect["high"],
        "n": record["n"],
        "p_adjusted": record["p_adjusted"],
    }


def _differs(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return bool(
        abs(old["effect"]["value"] - new["effect"]["value"]) > _SAME or old["n"] != new["n"]
    )


def _scores(before: Run, after: Run) -> list[Changes]:
    """Models that both have, where a subset's score differs."""
    old, new = (_values(run) for run in (before, after))
    changes = []
    for key in sorted(old.keys() & new.keys()):
        model, metric, subset = key
        if _apart(old[key], new[key]):
            changes.append(
                {
                    "model": model,
                    "metric": metric,
                    "subset": subset,
                    "before": old[key],
                    "after": new[key],
                }
            )
    return changes


def _apart(old: float | None, new: float | None) -> bool:
    return (old is None) != (new is None) or (
        old is not None and new is not None and abs(old - new) > _SAME
    )


def _values(run: Run) -> dict[tuple[str, str, str], float | None]:
    return {
        (model["model"], model["metric"], line["subset"]): line["value"]
        for model in corrected_of(run).get("models", [])
        for line in model["lines"]
        if line["subset"] != "random"
    }
