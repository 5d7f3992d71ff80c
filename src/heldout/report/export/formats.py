"""Every export by name."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from heldout.errors import InputError, blame_the_machine
from heldout.report.export.bibtex import bibtex
from heldout.report.export.case import Case, open_case
from heldout.report.export.conda import conda
from heldout.report.export.every_eval_ever import every_eval_ever
from heldout.report.export.helm import helm
from heldout.report.export.hf_card import hf_card
from heldout.report.pdf import PDF, figures_to_pdf
from heldout.store import Run, write_atomic


class ExportFormat(NamedTuple):
    """``make`` gives the text, or several by name; ``next_step`` is what is left to do with it."""

    ending: str
    make: Callable[[Case], str | dict[str, str]]
    next_step: str


FORMATS = {
    "hf-card": ExportFormat("md", hf_card, "paste it into the README.md of the dataset"),
    "conda": ExportFormat(
        "csv",
        conda,
        "fill in Reference, and add the rows by a pull request to CONDA-Workshop/"
        "Data-Contamination-Database",
    ),
    "helm": ExportFormat("yaml", helm, "add the points to HELM's contamination.yaml"),
    "every-eval-ever": ExportFormat(
        "json",
        every_eval_ever,
        "fill in who you are under source_metadata, and submit each record to the "
        "datastore evaleval/EEE_datastore as data/BENCHMARK/DEVELOPER/MODEL/UUID.json",
    ),
    "bibtex": ExportFormat("bib", bibtex, "cite what you used"),
}


@dataclass(frozen=True)
class Export:
    """What ``heldout.export`` returns.

    Args:
        documents: The texts by name; one of them is called as the format where it is about all models.
        written: The files that were written.
        next_step: What is left to do with it.
    """

    documents: Mapping[str, str]
    written: tuple[Path, ...]
    next_step: str

    @property
    def text(self) -> str:
        """All documents, one after the other."""
        return "\n".join(self.documents.values())

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self.text)}</pre>"


def export(
    run: str | Path | Run, to: str, *, out: str | Path | None = None, model: str | None = None
) -> Export:
    """Write a finished run as other people's catalogues take it.

    Args:
        run: A run with claims and findings.
        to: ``hf-card``, ``conda``, ``helm``, ``every-eval-ever``, ``bibtex``, or ``pdf`` for every figure
            of the report.
        out: File to write; a folder where there are several documents. Default: nothing is written,
            but for ``pdf``, which goes beside the figures.
        model: Of ``every-eval-ever``: this model alone.

    Returns:
        The documents, the files that were written, and what is left to do with them.

    Raises:
        InputError: The format or the model does not exist, or ``out`` cannot be written.
    """
    opened = run if isinstance(run, Run) else Run.open(run)
    names = (*FORMATS, PDF)
    if to not in names:
        raise InputError(f"to: expected one of {', '.join(names)}; got {to!r}")
    target = Path(out) if out is not None else None
    if to == PDF:
        return Export({}, tuple(figures_to_pdf(opened, target)), "")
    made = FORMATS[to].make(open_case(opened))
    if isinstance(made, str):
        if model is not None:
            raise InputError(
                f"model: goes with the format every-eval-ever; {to} is about all models"
            )
        made = {to: made}
    elif model is not None:
        if model not in made:
            raise InputError(f"model {model}: this run has scores of {', '.join(made)}")
        made = {model: made[model]}
    written = _write(made, target, FORMATS[to].ending) if target is not None else ()
    return Export(made, written, FORMATS[to].next_step)


def _write(documents: Mapping[str, str], out: Path, ending: str) -> tuple[Path, ...]:
    paths = {
        (out if len(documents) == 1 else out / f"{_file_name(name)}.{ending}"): text
        for name, text in documents.items()
    }
    try:
        for path, text in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, text)
    except OSError as error:
        blame_the_machine(error)
        raise InputError(f"out {out}: it cannot be written: {error.strerror}") from error
    return tuple(paths)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "model"
