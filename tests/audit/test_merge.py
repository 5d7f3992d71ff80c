"""A search in parts, merged, is a search in one piece; parts that do not belong together are refused."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

import heldout
from command_line import run_inside
from heldout.errors import InputError
from heldout.overlap import Part
from heldout.store import saved_shards

PARTS = 3
TABLES = (
    "items",
    "matches",
    "dropped",
    "thumbnails",
    "nearest",
    "text_matches",
    "text_queries",
    "leaks",
)
QUESTIONS = (
    "Which side of the chest shows the larger pleural effusion in this picture?",
    "How many round metal markers lie below the left clavicle of the patient?",
    "Is there a fracture of the distal radius that was treated with a plate?",
    "What colour is the arrow that points to the enlarged lymph node here?",
)
REWORDED = "In this picture, on which side of the chest is the pleural effusion larger?"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``bench`` with 4 pictures and questions; ``corpus`` of 8 tars of 2, with copies and words of three."""
    folder = tmp_path_factory.mktemp("parts")
    rng = np.random.default_rng(1)

    def texture() -> Image.Image:
        layers = [
            Image.fromarray(rng.integers(0, 256, (side, side), dtype=np.uint8)).resize((128, 128))
            for side in (6, 16, 40)
        ]
        return Image.fromarray(np.mean([np.asarray(layer) for layer in layers], 0).astype("u1"))

    (folder / "bench").mkdir()
    (folder / "corpus").mkdir()
    ours = [texture() for _ in QUESTIONS]
    rows = []
    for number, (image, question) in enumerate(zip(ours, QUESTIONS, strict=True)):
        image.save(folder / f"bench/{number}.png")
        row = {"id": f"q{number}", "image": f"{number}.png", "question": question}
        rows.append({**row, "answer": f"answer {number}"})
    (folder / "bench/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for shard in range(8):
        samples = [(texture(), f"Caption {shard} of a landscape with hills"), (texture(), "")]
        if shard == 2:
            samples[0] = (ours[0].resize((200, 200)), REWORDED)
        if shard == 4:
            samples[1] = (ours[1], QUESTIONS[1])
        if shard == 7:
            samples[1] = (ImageOps.mirror(ours[3]), "An arrow")
        with tarfile.open(folder / f"corpus/{shard:05d}.tar", "w") as tar:
            for index, (image, words) in enumerate(samples):
                buffer = io.BytesIO()
                image.save(buffer, "PNG")
                for name, content in (("png", buffer.getvalue()), ("txt", words.encode())):
                    member = tarfile.TarInfo(f"{index}.{name}")
                    member.size = len(content)
                    tar.addfile(member, io.BytesIO(content))
    return folder


def command(data: Path, run: Path, *more: str) -> list[str]:
    against = f"corpus={data / 'corpus'}"
    settings = ["--encoder", "pixels", "--nearest", "2", "--workers", "1"]
    return [
        "overlap",
        f"{data / 'bench'}",
        "--against",
        against,
        "--out",
        f"{run}",
        *settings,
        *more,
    ]


@pytest.fixture(scope="module")
def parts(data: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    runs = []
    for number in range(1, PARTS + 1):
        run = tmp_path_factory.mktemp("part") / f"run{number}"
        done = run_inside(*command(data, run, "--part", f"{number}/{PARTS}", "--json"))
        assert done.returncode == 0, done.stderr
        record = json.loads(done.stdout)
        assert record["part"] == f"{number}/{PARTS}" and record["failed"] == {}
        assert record["shards"] == len(range(number - 1, 8, PARTS))
        assert not (run / "claims.json").exists()  # a part concludes nothing
        runs.append(run)
    return runs


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("whole") / "run"
    done = run_inside(*command(data, run))
    assert done.returncode == 0, done.stderr
    return run


def assert_same(run: Path, whole: Path) -> None:
    for name in TABLES:
        paths = [each / f"tables/{name}.parquet" for each in (run, whole)]
        assert paths[0].exists() == paths[1].exists(), name
        if paths[0].exists():
            assert paths[0].read_bytes() == paths[1].read_bytes(), name
    for name in ("claims.json", "findings.json", "calibration.json"):
        assert (run / name).read_bytes() == (whole / name).read_bytes(), name


def test_merged_parts_have_the_tables_and_claims_of_a_search_in_one_piece(
    parts: list[Path], whole: Path, tmp_path: Path
) -> None:
    done = run_inside("merge", *reversed(parts), "--out", tmp_path / "run", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert_same(tmp_path / "run", whole)
    run = heldout.Run.open(tmp_path / "run")
    assert {"q0", "q1", "q3"} <= set(run.frame("matches")["benchmark_id"])
    assert {"q1"} <= set(run.frame("text_matches")["benchmark_id"])
    (stage,) = run.manifest()["stages"].values()
    assert stage["shards"] == stage["reused"] == 8  # nothing was compared again
    again = run_inside("merge", *parts, "--out", tmp_path / "run", "--workers", "1")
    assert again.returncode == 0, again.stderr
    assert_same(tmp_path / "run", whole)


def test_an_interrupted_part_is_finished_on_another_machine(
    data: Path, parts: list[Path], whole: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "moved"
    shutil.copytree(parts[0], moved)
    log = moved / "stages/overlap/corpus/shards.log"
    log.write_bytes(log.read_bytes()[: sorted(saved_shards(log.parent).values())[1] + 9])
    for path in (moved / "embeddings").rglob("*.npy"):
        path.unlink()
        break
    done = run_inside(*command(data, moved, "--part", f"1/{PARTS}"))
    assert done.returncode == 0, done.stderr
    result = heldout.merge([moved, *parts[1:]], tmp_path / "run", workers=1, quiet=True)
    assert_same(result.run.path, whole)


def test_missing_and_unfinished_parts_are_named_or_searched(
    parts: list[Path], whole: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"parts 1 and 3\b.*missing"):
        heldout.merge([parts[1]], tmp_path / "run", quiet=True)
    unfinished = tmp_path / "unfinished"
    shutil.copytree(parts[2], unfinished)
    manifest = json.loads((unfinished / "manifest.json").read_text())
    manifest["part"]["finished"] = False
    (unfinished / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"part 3 .*\(.*unfinished\)"):
        heldout.merge([*parts[:2], unfinished], tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()
    result = heldout.merge(
        [parts[0], parts[1]], tmp_path / "run", workers=1, quiet=True, finish=True
    )
    assert_same(result.run.path, whole)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--nearest", "3"], "searches: nearest is 2, and 3"),
        (["--seed", "1"], "the seed is 0, and 1"),
        (["--no-text"], "is True, and False"),
    ],
)
def test_parts_of_different_settings_are_refused(
    data: Path, parts: list[Path], tmp_path: Path, change: list[str], message: str
) -> None:
    other = tmp_path / "other"
    assert run_inside(*command(data, other, "--part", "2/3", *change)).returncode == 0
    done = run_inside("merge", parts[0], other, parts[2], "--out", tmp_path / "run")
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


def test_parts_of_another_benchmark_or_corpus_are_refused(
    data: Path, parts: list[Path], tmp_path: Path
) -> None:
    changed = tmp_path / "data"
    shutil.copytree(data, changed)
    with (changed / "bench/test.jsonl").open("a") as file:
        file.write('{"id": "q9", "image": "0.png", "question": "New?", "answer": "b"}\n')
    other = tmp_path / "other"
    assert run_inside(*command(changed, other, "--part", "2/3")).returncode == 0
    with pytest.raises(InputError, match=r"\bbench, .*revisions"):
        heldout.merge([parts[0], other, parts[2]], tmp_path / "run", quiet=True)


def test_what_is_no_part_is_refused(
    data: Path, parts: list[Path], whole: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="without the setting part"):
        heldout.merge([whole], tmp_path / "run", quiet=True)
    with pytest.raises(InputError, match="are both part 1/3"):
        heldout.merge([parts[0], parts[0]], tmp_path / "run", quiet=True)
    with pytest.raises(InputError, match="of the parts"):
        heldout.merge(parts, parts[1], quiet=True)
    done = run_inside("report", parts[0])
    assert done.returncode == 2 and "part 1/3" in " ".join(done.stderr.split())
    done = run_inside(*command(data, parts[0]))
    assert done.returncode == 2 and "of a search" in " ".join(done.stderr.split())
    done = run_inside(*command(data, parts[0], "--part", "2/3"))
    assert done.returncode == 2 and "holds part 1/3, not 2/3" in " ".join(done.stderr.split())


@pytest.mark.parametrize("text", ["0/4", "5/4", "3", "a/b", "1/0"])
def test_a_part_is_a_number_of_a_number(data: Path, tmp_path: Path, text: str) -> None:
    done = run_inside(*command(data, tmp_path / "run", "--part", text))
    assert done.returncode == 2
    assert "as in 3/64" in " ".join(done.stderr.split())
    with pytest.raises(InputError, match="part: got"):
        Part.read(text)
