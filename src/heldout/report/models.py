"""What the page says of models: how each was scored, which self-checks it failed, what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heldout.detect import EASIEST, LOSS, MIN_K_PLUS_PLUS, tail_enrichment
from heldout.store import Run

_SHOWN = ("backend", "model", "revision", "dtype", "template", "server", "source")


def model_sections(run: Run) -> list[dict[str, Any]]:
    """One section per model of the run, also where nobody has called `heldout detect` yet."""
    manifest = run.manifest()
    detected = run.read_json("detections.json") if (run.path / "detections.json").exists() else {}
    sections = [
        {
            "name": name,
            "identity": {key: known[key] for key in _SHOWN if known.get(key)},
            "remarks": known.get("remarks") or [],
            "parity": (known.get("parity") or {}).get("reason"),
            "checks": detected.get("self_checks", {}).get(name) or known.get("self_checks") or [],
            "detected": bool(detected),
            "claims": _of(detected.get("claims", ()), name),
            "findings": _of(detected.get("findings", ()), name),
            "untested": _reasons(_of(detected.get("not_testable", ()), name)),
            "orders": detected.get("orders", {}).get(name, []),
            "tails": _tails(_of(detected.get("findings", ()), name)),
            "easiest": _easiest(detected.get("easiest_items", ()), name),
            "hits": [one for one in detected.get("triple_hits", ()) if one["model"] == name],
            "baselines": detected.get("baselines", []),
        }
        for name, known in sorted(manifest.get("models", {}).items())
    ]
    sections.sort(
        key=lambda record: bool(record["detected"]) and not record["claims"]
    )  # comparisons come last
    shown: set[str] = set()
    for section in sections:
        # A claim about two models stands under both, and has one place to be linked to.
        section["elsewhere"] = {
            n for n, claim in enumerate(section["claims"]) if claim["id"] in shown
        }
        shown |= {claim["id"] for claim in section["claims"]}
    return sections


def tried_models(run: Run) -> list[str]:
    """Models that were to be tested: all that the detectors were given, but for the baselines."""
    if not (run.path / "detections.json").exists():
        return []
    detected = run.read_json("detections.json")
    return [one for one in detected.get("models", ()) if one not in detected["baselines"]]


def measured_rates(run: Run) -> Mapping[str, Any]:
    """How often this run's detectors fire on models whose contamination is known; empty if never told."""
    if not (run.path / "detections.json").exists():
        return {}
    kept: Mapping[str, Any] = run.read_json("detections.json").get("measured_rates") or {}
    ways: dict[str, dict[str, Any]] = {}
    for one in kept.get("rates", ()):
        ways.setdefault(one["detector"], {})[one["way"]] = one
    return {**kept, "detectors": ways} if kept else {}


def _tails(findings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Where a model's tail lies, field by field; empty where no tail was measured."""
    finding = next((one for one in findings if one["detector"] == tail_enrichment.NAME), None)
    rows = finding["details"].get("by_stratum", ()) if finding is not None else ()
    fields: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        fields.setdefault(row["field"], []).append(row)
    if finding is None or not fields:
        return {}
    fine = finding["details"].get("fields_too_fine", {})
    return {"what": finding["effect"]["name"], "fields": fields, "fine": fine}


def _easiest(entries: Sequence[Mapping[str, Any]], model: str) -> dict[str, Any]:
    """The ten that people look at, by Δ where there is a cohort, and every top set by its ids."""
    mine = [entry for entry in entries if entry["model"] == model]
    if not mine:
        return {}
    wanted = (f"Δ of {MIN_K_PLUS_PLUS.name}", f"Δ of {LOSS.name}", MIN_K_PLUS_PLUS.name, LOSS.name)
    by_score = {record["score"]: record for record in mine}
    ten = next((by_score[score] for score in wanted if score in by_score), mine[0])
    return {"ten": ten, "shown": ten["items"][:EASIEST], "sets": mine}


def _of(entries: Any, model: str) -> list[Mapping[str, Any]]:
    """Of this model alone, or of a pair of which it is one."""
    return [entry for entry in entries if model in (entry["cell"]["model"] or "").split(" & ")]


def _reasons(untested: list[Mapping[str, Any]]) -> dict[str, list[str]]:
    """Detectors by the reason they share, in the order they were asked."""
    reasons: dict[str, list[str]] = {}
    for record in untested:
        reasons.setdefault(record["reason"], []).append(record["detector"])
    return reasons
