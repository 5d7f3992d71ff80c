"""BibTeX cites what ran, from the manifest and the findings, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from heldout.detect import Citation, detector
from heldout.report.export import bibtex as methods
from heldout.report.export._case import ExportCase
from heldout.report.export.bibtex import bibtex
from heldout.store import Run

REQUIRED = {
    "article": {"title", "author", "journal", "year"},
    "inproceedings": {"title", "author", "booktitle", "year"},
    "misc": {"title", "author", "year"},
    "book": {"title", "author", "publisher", "year"},
    "mastersthesis": {"title", "author", "school", "year"},
    "techreport": {"title", "author", "institution", "year"},
}


def _finding(method: str, **more: Any) -> dict[str, Any]:
    return {
        "detector": "image-overlap",
        "effect": {"method": method},
        "p_adjusted": None,
        "details": {},
        "cell": {"benchmark": "b", "corpus": "web", "model": None},
        **more,
    }


def _scan(**more: Any) -> dict[str, Any]:
    return {"hashes": False, "encoder": None, "counts": {}, **more}


def _keys(folder: Path, manifest: dict[str, Any], findings: list[dict[str, Any]]) -> list[str]:
    run = Run.create(folder / "run", command=["heldout", "overlap"])
    case = ExportCase(
        run, {"packages": {}, **manifest}, [], findings, {"models": [], "rankings": []}, []
    )
    return re.findall(r"^@\w+\{(\w+),", bibtex(case), re.MULTILINE)


def test_a_search_by_equality_cites_its_intervals_alone(tmp_path: Path) -> None:
    keys = _keys(tmp_path, {"stages": {"o": _scan()}}, [_finding("clopper-pearson")])
    assert keys == ["heldout", "clopper1934use"]


def test_every_step_of_a_full_search_is_cited_once(tmp_path: Path) -> None:
    scan = _scan(
        hashes=True, encoder="pixels-2 | 64 grey", counts={"pairs": 9, "unverified_pairs": 0}
    )
    manifest = {
        "stages": {"a": scan, "b": scan},
        "calibration": {"a": {}},
        "text": {"a": {"methods": ["provenance", "exact", "ngram", "edit"]}},
    }
    found = _finding("korn-graubard", p_adjusted=0.01)
    keys = _keys(tmp_path, manifest, [found, _finding("clopper-pearson over effective clusters")])
    assert len(keys) == len(set(keys))
    assert set(keys) == {
        "heldout",
        "facebook2019pdq",
        "zauner2010implementation",
        "lowe2004distinctive",
        "evangelidis2008parametric",
        "ramos2025data",
        "radovanovic2010hubs",
        "brown2020language",
        "levenshtein1966binary",
        "korn1998confidence",
        "clopper1934use",
        "kish1965survey",
        "holm1979simple",
    }


@pytest.mark.parametrize(
    ("encoder", "key"),
    [
        ("open_clip:ViT-B-32/laion2b@abc | resize", "cherti2023reproducible"),
        ("transformers:siglip-so400m@abc | resize", "zhai2023sigmoid"),
        ("torchscript:sscd_disc_mixup.pt@abc | resize", "pizzi2022self"),
        ("transformers:clip-vit-base@abc | resize", "radford2021learning"),
    ],
)
def test_an_encoder_brings_its_own_paper(tmp_path: Path, encoder: str, key: str) -> None:
    keys = _keys(tmp_path, {"stages": {"o": _scan(encoder=encoder)}}, [])
    assert key in keys
    assert "lowe2004distinctive" not in keys  # nothing was registered, and it is not of features


def test_pairs_that_could_not_be_verified_cite_no_registration(tmp_path: Path) -> None:
    scan = _scan(hashes=True, counts={"pairs": 3, "unverified_pairs": 3})
    assert "evangelidis2008parametric" not in _keys(tmp_path, {"stages": {"o": scan}}, [])


def test_every_entry_has_the_fields_that_bibtex_asks_for() -> None:
    entries = {
        value.key: value
        for module in (detector, methods)
        for value in vars(module).values()
        if isinstance(value, Citation)
    }
    assert len(entries) > 30
    for entry in entries.values():
        assert REQUIRED[entry.kind] <= set(entry.fields), entry.key
        assert entry.text().count("{") == entry.text().count("}"), entry.key
        assert all(entry.fields.values()), entry.key
