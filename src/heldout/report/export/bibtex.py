"""Citations of the methods that ran, and of no others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from heldout.detect import Citation, detectors
from heldout.report.export.case import Case
from heldout.report.export.data_methods import methods_of_data
from heldout.report.export.statistics import methods_of_statistics


def _cited(finding: Mapping[str, Any]) -> tuple[Citation, ...]:
    """A cohort's Δ is of another method's scores: that one is cited as well."""
    known = detectors()
    names = (finding["detector"], finding["details"].get("score"))
    return tuple(entry for name in names if name in known for entry in known[name].citations)


def bibtex(case: Case) -> str:
    """heldout itself first, then every method with a finding, how data were searched, the statistics."""
    ours = Citation(
        "software",
        "heldout",
        {
            "title": "{heldout}: Is Your Vision-Language Benchmark Still Held Out?",
            "author": "{The heldout authors}",
            "version": case.version,
        },
    )
    uses: dict[str, list[str]] = {}
    entries = {ours.key: ours}
    found = [(entry, finding["detector"]) for finding in case.findings for entry in _cited(finding)]
    for entry, use in (*found, *methods_of_data(case), *methods_of_statistics(case)):
        entries.setdefault(entry.key, entry)
        names = uses.setdefault(entry.key, [])
        if use not in names:
            names.append(use)
    texts = [
        (f"% used for: {', '.join(uses[key])}\n" if key in uses else "") + entry.text()
        for key, entry in entries.items()
    ]
    return "\n\n".join(texts) + "\n"
