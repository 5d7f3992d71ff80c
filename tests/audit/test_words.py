"""heldout overlap --text --gate from one end to the other, on small corpora made here."""

from __future__ import annotations

import gzip
import html
import io
import json
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pyarrow.parquet as pq
import pytest

from command_line import ForkedCommand
from heldout.cli import main
from heldout.evidence import Rung, leaks_of
from heldout.store import Run, saved_shards
from heldout.verdict.overall import benchmark_verdict

Picture = Callable[..., bytes]
LONG = [
    "Which vascular structure is most likely occluded in this patient with acute aphasia?",
    "What does the arrow in the upper left lobe of the second radiograph point to?",
    "How many calcified nodules are visible below the diaphragm in the coronal section?",
    "Which stain was used for the fibrous tissue that surrounds the central granuloma?",
]
HOSTILE = f"<script>alert(1)</script><img src=x onerror=alert(2)> {LONG[2]} \x1b[31m ]]>"


class Told(NamedTuple):
    code: int
    out: str


@pytest.fixture
def heldout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Told]:
    """The command in this process."""

    def call(*arguments: str | Path) -> Told:
        monkeypatch.setattr("sys.argv", ["heldout", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code if isinstance(ended.value.code, int) else 0
        assert code in (0, 1), captured.err
        return Told(code, captured.out)

    return call


@pytest.fixture
def data(tmp_path: Path, picture: Picture) -> Path:
    """Four pictures with a question each; a training table with pictures, and a folder of words."""
    for number in range(8):
        (tmp_path / f"{number}.png").write_bytes(picture(number))
    answers = ["middle cerebral artery", "a cavity", "seven", "trichrome"]
    ours = [
        {"id": f"b{k}", "image": f"{k}.png", "question": LONG[k], "answer": answers[k]}
        for k in range(4)
    ]
    train = [
        {"id": "full", "image": "0.png", "question": LONG[0], "answer": answers[0]},
        {"id": "picture", "image": "1.png", "question": "What organ is it?", "answer": "lung"},
        {"id": "none", "image": "7.png", "question": "Is it normal?", "answer": "yes"},
    ]
    for name, rows in (("bench", ours), ("train", train)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"{name}.jsonl").write_text(text)
    words = tmp_path / "words"
    words.mkdir()
    page = f"An exam of last year.\n\n{html.escape(HOSTILE)}\n\nThe answer is on the next page."
    (words / "page.html").write_text(page)
    lines = [
        "{ not JSON",
        *(json.dumps({"text": f"Unrelated words, number {k}."}) for k in range(150)),
    ]
    lines[40:40] = [json.dumps({"id": "hit", "question": LONG[3], "answer": answers[3]})]
    (words / "part.jsonl.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return tmp_path


def _more_questions(data: Path) -> None:
    """Forty more of them, so that how near different questions come can be told."""
    things = [
        "lantern",
        "quarry",
        "violin",
        "harbour",
        "orchard",
        "beetle",
        "compass",
        "furnace",
        "glacier",
        "pelican",
    ]
    shown = ["polished", "broken", "distant", "flooded"]
    rows = [
        {
            "id": f"m{k}",
            "image": f"{k % 8}.png",
            "question": f"Why is the {shown[k % 4]} {things[k // 4]} {things[k % 7 - 4]} left of the gate?",
            "answer": f"{things[k // 4 - 3]} {shown[k % 4 - 2]}",
        }
        for k in range(40)
    ]
    with (data / "bench.jsonl").open("a") as bench:
        bench.writelines(json.dumps(row) + "\n" for row in rows)


def overlap(data: Path, *corpora: str) -> list[str | Path]:
    against = [part for name in corpora for part in ("--against", f"{name}={data / name}")]
    if "train" in corpora:
        against[against.index(f"train={data / 'train'}")] += ".jsonl"
    return ["overlap", data / "bench.jsonl", *against, "--out", data / "run", "--workers", "1"]


def test_words_and_pictures_join_and_shut_the_gate(
    data: Path, heldout: Callable[..., Told]
) -> None:
    done = heldout(*overlap(data, "train", "words"), "--text", "--gate", "--json")
    told = json.loads(done.out)
    assert done.code == 1
    statuses = {claim["id"]: claim["status"] for claim in told["claims"]}
    assert statuses == {
        "overlap/train": "survives",
        "text/train": "survives",
        "overlap/words": "not testable",
        "text/words": "survives",
    }
    run = Run.open(data / "run")
    rows = run.read_table("leaks").to_pylist()
    leaks = {(row["benchmark_id"], row["corpus"]): row["modality"] for row in rows}
    assert leaks == {
        ("b0", "train"): "full",
        ("b1", "train"): "image only",
        ("b2", "words"): "text only",
        ("b3", "words"): "text only",
    }
    ids = (data / "run/gate/remove_ids.txt").read_text().splitlines()
    assert ids == ["train\tfull", "train\tpicture", "words\tpart.jsonl.gz/hit"]
    doubtful = pq.read_table(data / "run/gate/training_doubtful.parquet").to_pylist()
    pages = [(row["corpus_id"], row["reason"]) for row in doubtful if row["corpus"] == "words"]
    assert pages == [("page.html", "words inside a longer text")]  # nobody saw its answer there
    suite = ElementTree.parse(data / "run/gate/junit.xml").getroot()
    assert [case.get("name") for case in suite.iter("testcase")] == ["bench"]
    (failure,) = suite.iter("failure")
    assert "3 of 4 items" in (failure.get("message") or "")
    assert told["gate"]["passed"] is False
    # One line in 152 is no JSON: of a benchmark of four items it may be one.
    dropped = [(row["id"], row["reason"]) for row in run.read_table("dropped").to_pylist()]
    assert dropped.count(("part.jsonl.gz line 1", "not JSON")) == 1
    (problem,) = told["gate"]["benchmarks"][0]["problems"]
    assert "1 item could not be read" in problem


def test_what_leaked_is_one_number_in_findings_verdict_and_clean_split(
    data: Path, heldout: Callable[..., Told]
) -> None:
    """b1 is asked with a slip beside its picture: fields differ, words and answer do not."""
    train = (data / "train.jsonl").read_text()
    edited = LONG[1].replace("radiograph", "radiogaph")
    (data / "train.jsonl").write_text(
        train.replace("What organ is it?", edited).replace('"lung"', '"a cavity"')
    )
    told = json.loads(heldout(*overlap(data, "train"), "--text", "--json").out)
    by_id = {one["id"]: one for one in told["findings"]}
    joined = by_id["joined-leakage/train"]
    run = Run.open(data / "run")
    (cell,) = benchmark_verdict(run, "bench", {}).cells
    with_answer = {
        by_id["image-overlap/train/answers"]["statistic"]["value"],
        joined["details"]["by_modality"]["full"],
        joined["details"]["by_rung"]["same image and answer"],
        cell.evidence["same image and answer"],
        sum(found.gravest.rung is Rung.FULL for found in leaks_of(run).values()),
    }
    assert with_answer == {2}
    assert cell.leak is not None
    assert cell.leak.leaked == joined["statistic"]["value"] == 2


def test_the_report_shows_words_and_hostile_ones_as_text(
    data: Path, heldout: Callable[..., Told]
) -> None:
    heldout(*overlap(data, "words"), "--text")
    page = (data / "run/report.html").read_text()
    assert "The words of words" in page
    assert "page.html" in page
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert '<span class="answer">No.</span>' in page


def test_a_run_without_text_forgets_the_words(data: Path, heldout: Callable[..., Told]) -> None:
    heldout(*overlap(data, "train"), "--text", "--gate")
    assert "The words of train" in (data / "run/report.html").read_text()
    done = heldout(*overlap(data, "train"), "--no-text", "--gate", "--json", "--replace")
    claims = [claim["id"] for claim in json.loads(done.out)["claims"]]
    assert claims == ["overlap/train"]
    assert "The words of train" not in (data / "run/report.html").read_text()
    assert not (data / "run/tables/text_matches.parquet").exists()
    assert Run.open(data / "run").manifest()["text"] == {}


def test_a_clean_corpus_of_words_opens_the_gate_and_settles_the_question(
    data: Path, heldout: Callable[..., Told]
) -> None:
    _more_questions(data)
    clean = data / "clean"
    clean.mkdir()
    (clean / "a.txt").write_text("Nothing of this was ever asked in any exam about pictures.")
    done = heldout(*overlap(data, "clean"), "--text", "--gate", "--json")
    claims = json.loads(done.out)["claims"]
    assert done.code == 0
    assert [(claim["id"], claim["status"]) for claim in claims] == [
        ("overlap/clean", "not testable"),
        ("text/clean", "clean"),
    ]
    assert claims[0]["rule"] == "copies/no-pictures"
    assert "clean" in claims[0]["why"] and "(1 read)" in claims[0]["why"]
    page = (data / "run/report.html").read_text()
    answer = page.partition('<span class="answer">')[2].partition("<")[0]
    assert answer.endswith("words go, yes.")
    words, pictures = (page.index(claim["sentence"].split(":")[0]) for claim in claims[::-1])
    assert words < pictures


def test_images_that_are_missing_are_not_a_corpus_without_images(
    data: Path, heldout: Callable[..., Told]
) -> None:
    row = {"id": "x", "image": "gone.png", "question": "What is it?", "answer": "a thing"}
    (data / "train.jsonl").write_text(json.dumps(row) + "\n")
    done = heldout(*overlap(data, "train"), "--text", "--gate", "--json")
    told = json.loads(done.out)
    assert told["claims"][0]["rule"] == "copies/nothing-read"
    assert done.code == 1
    assert told["gate"]["benchmarks"][0]["problems"]


SHARDS = 12
# With a pause before every shard, so that there is something left to do when the kill comes.
SLOWLY = """
import time
from heldout.cli import main
from heldout.overlap.texts import scan
look = scan.scan_text_shard
scan.scan_text_shard = lambda *arguments: (time.sleep(0.2), look(*arguments))[1]
main()
"""


@pytest.fixture
def tars(tmp_path: Path, picture: Picture) -> Path:
    """A corpus of 12 tars: a picture and some words each."""
    row = {"id": "b", "image": "b.png", "question": LONG[0], "answer": "yes"}
    (tmp_path / "b.png").write_bytes(picture(99))
    (tmp_path / "bench.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "tars").mkdir()
    for number in range(SHARDS):
        text = " ".join(f"word{k * number % 9973}" for k in range(40))
        files: dict[str, bytes] = {
            "0.png": picture(number % 3),
            "0.txt": (text + (f" {LONG[0]}" if number % 5 == 0 else "")).encode(),
        }
        with tarfile.open(tmp_path / f"tars/{number:03d}.tar", "w") as tar:
            for name, content in files.items():
                member = tarfile.TarInfo(name)
                member.size = len(content)
                tar.addfile(member, io.BytesIO(content))
    return tmp_path


def finished(run: Path) -> dict[str, int]:
    return saved_shards(run / "stages/text/tars")


def tables(run: Path) -> dict[str, Any]:
    names = ("text_matches", "text_queries", "leaks", "dropped")
    return {name: Run.open(run).read_table(name).to_pylist() for name in names}


def test_a_killed_text_search_goes_on_where_it_was(
    tars: Path, heldout: Callable[..., Told]
) -> None:
    def arguments(run: Path) -> list[str]:
        return [
            "overlap",
            str(tars / "bench.jsonl"),
            "--against",
            f"tars={tars / 'tars'}",
            "--exact",
            "--text",
            "--workers",
            "1",
            "--out",
            str(run),
        ]

    killed, whole = tars / "killed", tars / "whole"
    scan = ForkedCommand(*arguments(killed), script=SLOWLY)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and scan.poll() is None and len(finished(killed)) < 3:
        time.sleep(0.002)
    scan.kill()
    scan.wait()
    before = finished(killed)
    assert 0 < len(before) < SHARDS, "the kill came while no work was left"
    for run in (killed, whole):
        heldout(*arguments(run))
    after = finished(killed)
    assert len(after) == SHARDS
    assert before.items() <= after.items(), "a finished shard was lost or done again"
    assert tables(killed) == tables(whole)
    matches = tables(whole)["text_matches"]
    assert [row["corpus_id"] for row in matches if row["method"] == "ngram"] == [
        f"{number:03d}.tar/0" for number in (0, 5, 10)
    ]
