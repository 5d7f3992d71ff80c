"""Perceptual hashes in the default scan: what they find is proven, what is flat is never alike."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

from heldout.audit import Conclusion, audit_overlap
from heldout.benchmark import Benchmark, Example
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.errors import InputError
from heldout.image import FileOnDisk, ImageRef
from heldout.overlap.images.encoder import open_encoder
from heldout.store import Run

COPIES = ("same image", "transformed copy")


def audit(benchmark: Benchmark, corpus: Path, run: Path, **options: Any) -> Conclusion:
    options.setdefault("encoder", "none")
    with LocalEngine(1) as engine:
        opened = open_corpus(corpus, name="web")
        opened_run = Run.create(run)
        return audit_overlap(
            benchmark, [opened], opened_run, engine, text=False, quiet=True, **options
        ).conclusion


def bench(*paths: Path) -> Benchmark:
    refs = [ImageRef(path.name, FileOnDisk(str(path))) for path in paths]
    examples = (Example(ref.name, (ref,), "q?", answer="a") for ref in refs)
    return Benchmark("bench", tuple(examples))


def rows(conclusion: Conclusion) -> list[dict[str, Any]]:
    return conclusion.run.read_table("matches").to_pylist()


@pytest.fixture(scope="module")
def chosen(shared_data: Path) -> list[Path]:
    images = sorted((shared_data / "slake/images").glob("*.jpg"))
    return [images[i] for i in (3, 60, 150)]


@pytest.fixture
def corpus(chosen: list[Path], shared_data: Path, tmp_path: Path) -> Path:
    """The first picture in six disguises, two files that are no copy, one that shows nothing."""
    folder = tmp_path / "corpus"
    folder.mkdir()
    picture = Image.open(chosen[0]).convert("RGB")
    picture.save(folder / "jpeg.jpg", quality=40)
    picture.resize((256, 256)).save(folder / "resized.png")
    picture.convert("L").save(folder / "grey.png")
    ImageOps.mirror(picture).save(folder / "flipped.png")
    picture.rotate(90, expand=True).save(folder / "turned.png")
    ImageOps.invert(picture).save(folder / "inverted.png")
    Image.new("RGB", picture.size, (7, 7, 7)).save(folder / "flat.png")
    for path in sorted((shared_data / "slake/images").glob("*.jpg"))[205:210:4]:
        (folder / f"other-{path.name}").write_bytes(path.read_bytes())
    return folder


def test_disguised_copies_are_found_and_proven_without_an_encoder(
    chosen: list[Path], corpus: Path, tmp_path: Path
) -> None:
    pytest.importorskip("cv2", reason="registration needs heldout[vision]")
    found = audit(bench(*chosen), corpus, tmp_path / "run")
    copies = {row["corpus_id"]: row for row in rows(found) if row["relation"] in COPIES}
    disguises = ("jpeg.jpg", "resized.png", "grey.png", "flipped.png", "turned.png", "inverted.png")
    assert set(copies) == set(disguises)
    assert {row["benchmark_id"] for row in copies.values()} == {chosen[0].name}
    assert {row["method"] for row in copies.values()} <= {"pdq", "phash"}
    assert "flipped" in copies["flipped.png"]["transform"]
    assert "inverted" in copies["inverted.png"]["transform"]
    by = [one["method"] for one in json.loads(copies["jpeg.jpg"]["evidence"])["found_by"]]
    assert by == ["pdq", "phash"]
    (claim,) = found.claims
    assert claim.sentence.startswith("1 of 3 images ")
    blind = next(finding for finding in found.findings if finding.unit == "images").blind_to
    assert not any("re-encoded" in words for words in blind)
    assert any("framed" in words for words in blind)


def test_a_pair_found_by_several_methods_is_judged_once_and_lists_all(
    chosen: list[Path], corpus: Path, tmp_path: Path
) -> None:
    pytest.importorskip("cv2", reason="registration needs heldout[vision]")
    found = audit(bench(chosen[0]), corpus, tmp_path / "run", encoder="pixels", nearest=2)
    pairs = [(row["benchmark_id"], row["corpus_id"]) for row in rows(found)]
    assert len(pairs) == len(set(pairs))
    identity = open_encoder("pixels").identity
    found_by = {row["corpus_id"]: json.loads(row["evidence"])["found_by"] for row in rows(found)}
    methods = {name: [one["method"] for one in by] for name, by in found_by.items()}
    assert [identity, "pdq", "phash"] in methods.values()
    for row in rows(found):
        first = found_by[row["corpus_id"]][0]
        assert (row["method"], row["similarity"]) == (first["method"], first["similarity"])
    assert [row["method"] for row in rows(found)].count(identity) >= 2
    assert len([row for row in rows(found) if row["relation"] in COPIES]) == 6


def test_flat_and_nearly_flat_pictures_are_alike_to_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "corpus"
    folder.mkdir()
    smooth = np.tile(np.linspace(100, 112, 200).astype(np.uint8), (150, 1))
    Image.fromarray(smooth).save(tmp_path / "smooth.png")
    Image.fromarray(smooth + 3).save(folder / "smooth.png")
    Image.fromarray(np.full((150, 200), 90, np.uint8)).save(folder / "flat.png")
    assert rows(audit(bench(tmp_path / "smooth.png"), folder, tmp_path / "run")) == []


def test_without_opencv_what_looks_alike_is_listed_and_nothing_is_called_clean(
    chosen: list[Path], corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)  # as if it were not installed
    found = audit(bench(chosen[0]), corpus, tmp_path / "run")
    listed = {row["corpus_id"]: row for row in rows(found)}
    assert {"jpeg.jpg", "resized.png", "flipped.png"} <= set(listed)
    assert {row["relation"] for row in listed.values()} == {"undecided"}
    assert "heldout[vision]" in json.loads(listed["jpeg.jpg"]["evidence"])["unverified"]
    (told,) = [
        row
        for row in found.run.read_table("dropped").to_pylist()
        if row["reason"] == "not verified"
    ]
    assert "heldout[vision]" in told["detail"]
    assert found.claims[0].status == "qualified"
    monkeypatch.undo()
    pytest.importorskip("cv2", reason="registration needs heldout[vision]")
    again = audit(bench(chosen[0]), corpus, tmp_path / "run")  # installed in the meantime
    assert again.claims[0].status == "survives"


def test_exact_search_misses_every_disguise(
    chosen: list[Path], corpus: Path, tmp_path: Path
) -> None:
    assert rows(audit(bench(chosen[0]), corpus, tmp_path / "run", exact=True)) == []
    with pytest.raises(InputError, match="^exact: "):
        audit(bench(chosen[0]), corpus, tmp_path / "x", exact=True, encoder="pixels")


def test_screening_finds_what_decoding_everything_finds(
    chosen: list[Path], shared_data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "jpegs"
    folder.mkdir()
    for number, path in enumerate(chosen[:2]):
        picture = Image.open(path).convert("RGB").resize((700, 690))
        picture.save(folder / f"smaller-{number}.jpg", quality=60)
        ImageOps.mirror(picture).save(folder / f"flipped-{number}.jpg", quality=80)
        picture.crop((12, 9, 690, 680)).save(folder / f"trimmed-{number}.jpg", quality=80)
    for path in sorted((shared_data / "vqa_rad/images").glob("*.jpg"))[::75]:
        Image.open(path).convert("RGB").resize((701, 644)).save(folder / f"other-{path.name}")

    def found(run: str) -> tuple[list[dict[str, Any]], int]:
        made = audit(bench(*chosen[:2]), folder, tmp_path / run)
        return rows(made), made.run.manifest()["stages"]["overlap:web"]["counts"]["decoded"]

    screened, few = found("screened")
    monkeypatch.setattr("heldout.overlap.images.hashes.SCREENED_PICTURES", 0)
    whole, all_of_them = found("whole")
    assert screened == whole
    assert len({row["corpus_id"] for row in whole if row["relation"] in COPIES}) >= 4
    assert few == 0 and all_of_them == len(list(folder.iterdir()))
