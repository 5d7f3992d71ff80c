"""heldout detect --list: every detector, and how often it fires on models whose contamination is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from heldout.cli.show import console, print_json
from heldout.detect import detectors
from heldout.verdict import RAW, REFERENCES, MeasuredRate, MeasuredRates

WAYS = (RAW, REFERENCES)


def list_detectors(rates: MeasuredRates, *, as_json: bool) -> None:
    known = detectors().values()
    if as_json:
        print_json(
            [
                {
                    "name": detector.name,
                    "family": detector.family,
                    "summary": detector.summary,
                    "measured": [
                        rate.model_dump(mode="json")
                        for way in WAYS
                        if (rate := rates.of(detector.name, way))
                    ],
                }
                for detector in known
            ]
        )
        return
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for name in ("detector", "family", "asks"):
        table.add_column(name)
    for name in ("clean,\nitself", "seen,\nitself", "clean,\nreferences", "seen,\nreferences"):
        table.add_column(name, justify="right")
    for detector in known:
        rates_shown = [text for way in WAYS for text in _counts(rates.of(detector.name, way))]
        table.add_row(detector.name, detector.family, detector.summary, *rates_shown)
    console().print(table)
    console().print(Text(f"\n{_where(rates)}", "dim"))


def show_measured(measured: Mapping[str, Any]) -> None:
    """Method notes: which detectors of this run were not measured, and which are off."""
    off = [
        f"{rate['detector']} ({rate['way']})" for rate in measured.get("rates", ()) if rate["off"]
    ]
    if off:
        message = f"fire on clean lab models more often than their level: {', '.join(off)}"
        console().print(Text(f"\n{message}", "dim"))
    if unknown := measured.get("not_measured"):
        message = f"false positives and power not measured: {', '.join(unknown)}"
        console().print(Text(message if off else f"\n{message}", "dim"))


def _counts(rate: MeasuredRate | None) -> tuple[Text, Text]:
    if rate is None:
        return Text("–", "dim"), Text("–", "dim")
    clean, bad = rate.clean, rate.contaminated
    style = "red" if rate.off else ""
    return Text(f"{clean.fired}/{clean.n}" + " off" * rate.off, style), Text(f"{bad.fired}/{bad.n}")


def _where(rates: MeasuredRates) -> str:
    size = rates.provenance.weights
    weights = "" if size is None else f" of {size / 1e6:.1f} million weights"
    return (
        f"Tests of clean and of contaminated (seen) lab models{weights} in which each fires, by itself and "
        f"compared with clean references; – is not measured. Off: surely more clean ones than its level of "
        f".05 allows, of all or of one benchmark; a claim that rests on it is at most qualified. Small "
        f"models prove none."
    )
