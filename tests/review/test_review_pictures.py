"""Pictures are the ones the tables name, by their digest, or they are not shown."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from heldout.audit import audit_overlap
from heldout.benchmark import read_benchmark
from heldout.engine import LocalEngine
from heldout.image import ImageError, byte_digest
from heldout.review import _pictures as pictures
from heldout.review import open_desks
from heldout.review._matches import laid_on_query
from heldout.review._pictures import FULL, MISSING, THUMBNAIL, locations
from heldout.store import Run


def test_full_pictures_come_from_where_they_lie(run: Path) -> None:
    for card in open_desks(str(run), rater="ada")[0].cards:
        for picture in card.pictures.values():
            shown = picture.show()
            assert shown.origin == FULL
            assert Image.open(io.BytesIO(shown.data)).size == (shown.width, shown.height)


def test_a_moved_source_leaves_the_thumbnail_and_says_so(scanned: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(scanned / "run", tmp_path / "run"))
    manifest = json.loads((run / "manifest.json").read_text())
    manifest["inputs"]["benchmark"]["source"] = str(tmp_path / "gone")
    (run / "manifest.json").write_text(json.dumps(manifest))
    shown = open_desks(str(run), rater="ada")[0].cards[0].pictures["query"].show()
    assert shown.origin == THUMBNAIL
    assert "gone" in shown.why
    assert shown.width >= Image.open(io.BytesIO(shown.data)).width  # its real size


def test_a_table_cannot_name_another_file(run: Path, tmp_path: Path) -> None:
    """A run folder of a stranger that points at a file of ours shows nothing of it."""
    secret = tmp_path / "secret.png"
    Image.new("RGB", (9, 9), "red").save(secret)
    opened = Run.open(run)
    table = opened.read_table("matches")
    rows = table.to_pylist()
    for row in rows:
        evidence = json.loads(row["evidence"])
        evidence["corpus_source"] = str(secret)
        row["evidence"] = json.dumps(evidence)
    opened.write_table("matches", pa.Table.from_pylist(rows, schema=table.schema))
    shown = open_desks(str(run), rater="ada")[0].cards[0].pictures["neighbour"].show()
    assert shown.origin == THUMBNAIL
    assert "another one" in shown.why


def test_archives_and_cells_are_found_again(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    data = picture(3)
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("in!side/p.png", data)
    table = pa.table({"image": [[b"x", data]]})
    pq.write_table(table, tmp_path / "t.parquet")
    for described in (
        f"{tmp_path}/a.zip!in!side/p.png",
        f"{tmp_path}/t.parquet row group 0 row 0 column image",
    ):
        read = [place for place in locations(described) if _reads(place, data)]
        assert len(read) >= 1, described


@pytest.mark.parametrize("mode", ["gz", "bz2", "xz"])
def test_members_of_compressed_tars_are_found_again(
    tmp_path: Path, picture: Callable[..., bytes], mode: str
) -> None:
    path = tmp_path / f"web.tar.{mode}"
    with tarfile.open(path, f"w:{mode}") as tar:  # type: ignore[call-overload]
        for number in range(3):
            info = tarfile.TarInfo(f"{number}.png")
            info.size = len(picture(number))
            tar.addfile(info, io.BytesIO(picture(number)))
    (place,) = locations(f"{path}!2.png")
    assert place.read() == picture(2)
    (gone,) = locations(f"{path}!7.png")
    with pytest.raises(ImageError, match="no such member"):
        gone.read()
    path.write_bytes(path.read_bytes()[:-40])
    (cut,) = locations(f"{path}!7.png")
    with pytest.raises(ImageError):
        cut.read()


def test_a_compressed_tar_is_not_unpacked_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(tmp_path / "big.tar.gz", "w:gz") as tar:
        for name in ("zeros", "p.png"):
            info = tarfile.TarInfo(name)
            info.size = 100_000
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    monkeypatch.setattr(pictures, "UNPACKED", 50_000)
    (place,) = locations(f"{tmp_path}/big.tar.gz!p.png")
    with pytest.raises(ImageError, match="too far inside"):
        place.read()


def test_originals_are_found_however_the_benchmark_was_read(
    tmp_path: Path, picture: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Columns named by hand, pictures in a folder of their own, and the command typed elsewhere."""
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures/a.png").write_bytes(picture(1, size=(64, 48)))
    row = {"nr": "1", "shot": "a.png", "asked": "What is it, and where?", "gold": "noise"}
    (tmp_path / "bench.jsonl").write_text(json.dumps(row) + "\n")
    with tarfile.open(tmp_path / "web.tar.gz", "w:gz") as tar:
        tar.add(tmp_path / "pictures/a.png", "a.png")
    monkeypatch.chdir(tmp_path)
    mapping = {"id": "nr", "image": "shot", "question": "asked", "answer": "gold"}
    with LocalEngine(1) as engine:
        benchmark = read_benchmark("bench.jsonl", mapping=mapping, images="pictures")
        audit_overlap(benchmark, "web.tar.gz", "run", engine, text=False, quiet=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    (card,) = open_desks(str(tmp_path / "run"), rater="ada")[0].cards
    shown = {side: one.show() for side, one in card.pictures.items()}
    assert {side: (one.origin, one.why) for side, one in shown.items()} == {
        "query": (FULL, ""),
        "neighbour": (FULL, ""),
    }


def _reads(place: object, data: bytes) -> bool:
    try:
        return byte_digest(place.read()) == byte_digest(data)  # type: ignore[attr-defined]
    except Exception:
        return False


@pytest.mark.parametrize(
    "described", ["", "\0", "nowhere.png", "x" * 5000, "a!b", "p row 1 column c"]
)
def test_words_that_name_no_place_find_none(described: str) -> None:
    assert list(locations(described)) == []


def test_a_picture_that_is_nowhere_is_missing_with_a_reason(twins_run: Path) -> None:
    card = open_desks(str(twins_run), rater="ada", kind="twins")[0].cards[2]
    shown = card.pictures["twin"].show()
    assert (shown.origin, shown.data) == (MISSING, b"")
    assert "outside" in shown.why


def test_the_warp_lays_corners_on_corners() -> None:
    # A neighbour twice as wide, mirrored: the query's first pixel is its last pair of pixels.
    width = 10
    warp = [[-2.0, 0.0, 2 * width - 1.5], [0.0, 2.0, 0.5], [0.0, 0.0, 1.0]]
    laid = np.array(laid_on_query(warp))
    assert laid @ [0, 0, 1] == pytest.approx([width, 0, 1])
    assert laid @ [2 * width, 2 * width, 1] == pytest.approx([0, width, 1])
    assert laid_on_query(None) == np.eye(3).tolist()
    assert laid_on_query([[0.0] * 3] * 3) is None
    assert laid_on_query([[float("nan")] * 3] * 3) is None
