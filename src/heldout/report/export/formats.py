"""Every export by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from heldout.report.export.bibtex import bibtex
from heldout.report.export.case import Case, open_case
from heldout.report.export.conda import conda
from heldout.report.export.every_eval_ever import every_eval_ever
from heldout.report.export.helm import helm
from heldout.report.export.hf_card import hf_card
from heldout.store import Run


class Format(NamedTuple):
    """``make`` gives the text, or several by name; ``next_step`` is what is left to do with it."""

    ending: str
    make: Callable[[Case], str | dict[str, str]]
    next_step: str


FORMATS = {
    "hf-card": Format("md", hf_card, "paste it into the README.md of the dataset"),
    "conda": Format(
        "csv",
        conda,
        "fill in Reference, and add the rows by a pull request to CONDA-Workshop/"
        "Data-Contamination-Database",
    ),
    "helm": Format("yaml", helm, "add the points to HELM's contamination.yaml"),
    "every-eval-ever": Format(
        "json",
        every_eval_ever,
        "fill in who you are under source_metadata, and submit each record to the "
        "datastore evaleval/EEE_datastore as data/BENCHMARK/DEVELOPER/MODEL/UUID.json",
    ),
    "bibtex": Format("bib", bibtex, "cite what you used"),
}


def export(run: Run, name: str) -> str | dict[str, str]:
    return FORMATS[name].make(open_case(run))
