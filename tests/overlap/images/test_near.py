"""Near search end to end: transformed copies are found and named, look-alikes are not copies."""

from __future__ import annotations

import io
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from heldout.audit import Conclusion, audit_overlap
from heldout.benchmark import Benchmark, Example
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.image import FileOnDisk, ImageRef
from heldout.overlap.images.embedding_rows import Queries
from heldout.overlap.images.encoder import Aspect
from heldout.overlap.images.near import NeighbourIndex
from heldout.store import Run

pytest.importorskip("cv2", reason="registration needs heldout[vision]")

COPIES = ("same image", "transformed copy")


def save(image: Image.Image, path: Path, **options: int) -> None:
    buffer = io.BytesIO()
    image.convert("L").save(buffer, "JPEG" if path.suffix == ".jpg" else "PNG", **options)
    path.write_bytes(buffer.getvalue())


@pytest.fixture(scope="module")
def audited(
    shared_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Conclusion, Path, Benchmark]:
    """Six radiographs, five of them in a corpus of other patients' under a transform each."""
    images = sorted((shared_data / "slake/images").glob("*.jpg"))
    chosen = [images[i] for i in (3, 60, 150, 240, 330, 420)]
    corpus = tmp_path_factory.mktemp("corpus")
    pictures = [Image.open(path).convert("L") for path in chosen]
    width, height = pictures[3].size
    save(ImageOps.mirror(pictures[0]), corpus / "flipped.png")
    save(pictures[1].resize((256, 256)), corpus / "resized.png")
    save(pictures[2], corpus / "jpeg.jpg", quality=40)
    save(
        pictures[3].crop((width // 12, height // 12, width * 11 // 12, height * 11 // 12)),
        corpus / "crop.png",
    )
    save(ImageOps.invert(pictures[4]), corpus / "inverted.png")
    (corpus / "exact.jpg").write_bytes(chosen[5].read_bytes())
    for path in images[5:600:120]:  # other patients
        save(Image.open(path), corpus / f"other-{path.stem}.png")
    examples = tuple(
        Example(path.stem, (ImageRef(path.name, FileOnDisk(str(path))),), "q?", answer="a")
        for path in chosen
    )
    benchmark = Benchmark("radiographs", examples)
    run = tmp_path_factory.mktemp("run") / "run"
    return _audit(benchmark, corpus, run), corpus, benchmark


def _audit(benchmark: Benchmark, corpus: Path, run: Path) -> Conclusion:
    with LocalEngine(1) as engine:
        return audit_overlap(
            benchmark,
            [open_corpus(corpus, name="web")],
            Run.create(run),
            engine,
            encoder="pixels",
            nearest=2,
            text=False,
            quiet=True,
        ).conclusion


def test_each_transformed_copy_is_found_and_no_look_alike_is(
    audited: tuple[Conclusion, Path, Benchmark],
) -> None:
    conclusion, _, benchmark = audited
    rows = conclusion.run.read_table("matches").to_pylist()
    found = {(row["benchmark_id"], row["corpus_id"]) for row in rows if row["relation"] in COPIES}
    ids = [example.id for example in benchmark]
    files = ["flipped.png", "resized.png", "jpeg.jpg", "crop.png", "inverted.png", "exact.jpg"]
    assert found == set(zip(ids, files, strict=True))
    transform = {row["corpus_id"]: row["transform"] for row in rows if row["relation"] in COPIES}
    assert "flipped" in transform["flipped.png"]
    assert "resized" in transform["resized.png"]
    assert "cropped" in transform["crop.png"]
    assert "inverted" in transform["inverted.png"]


def test_claim_and_report_tell_copies_from_look_alikes(
    audited: tuple[Conclusion, Path, Benchmark],
) -> None:
    conclusion, _, _ = audited
    claim, _nearness = conclusion.claims
    assert claim.status == "survives"
    assert claim.sentence.startswith("6 of 6 ") and "images of radiographs" in claim.sentence
    assert (
        re.search(r"\(2 images .*, 4 images .*\)", claim.sentence)
        and "radiographs" in claim.sentence
    )
    page = conclusion.report.read_text()
    # Cropped, flipped and resized; the inverted one lies on its original as it is.
    assert page.count("corpus, aligned") == 3
    blind = next(f for f in conclusion.findings if f.unit == "images").blind_to
    assert any("2 nearest neighbours" in words for words in blind)


def test_a_second_run_repeats_nothing(audited: tuple[Conclusion, Path, Benchmark]) -> None:
    conclusion, corpus, benchmark = audited
    names = ("matches", "dropped", "thumbnails")
    before = {name: conclusion.run.table_path(name).read_bytes() for name in names}
    stages = {p: p.stat().st_size for p in (conclusion.run.path / "stages").glob("*/*/*")}
    _audit(benchmark, corpus, conclusion.run.path)
    assert {p: p.stat().st_size for p in (conclusion.run.path / "stages").glob("*/*/*")} == stages
    for name in names:
        assert conclusion.run.table_path(name).read_bytes() == before[name]


def test_light_copies_of_the_benchmark_say_whether_nearness_would_see_copies(
    audited: tuple[Conclusion, Path, Benchmark],
) -> None:
    rows = audited[0].run.read_table("nearest").to_pylist()
    copies = [row for row in rows if row["role"] == "copy"]
    assert {row["picture"] for row in copies} == {
        row["picture"] for row in rows if row["role"] == "benchmark"
    }
    assert all(0.5 < row["similarity"] < 0.999 for row in copies)  # near, and not the file itself


def test_a_view_of_nothing_but_black_takes_no_part() -> None:
    """A crop of a film's black corner has words of its own, but no layout."""
    rows = np.zeros((2, 4), np.float32)
    rows[0] = [0.6, 0.0, 0.8, 0.0]
    rows[1] = [0.0, 0.0, 1.0, 0.0]  # nothing in the first two columns
    queries = Queries("made up", rows, ("a", "a"), ("as is", "crop"))
    index = NeighbourIndex(queries, 1, (Aspect("layout", slice(0, 2)),))
    assert index.aspects[0].places.tolist() == [0]
