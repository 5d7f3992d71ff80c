"""Clean splits: what is removed, what is kept as it was, what is refused."""

from __future__ import annotations

import csv
import filecmp
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from heldout.audit import audit_overlap
from heldout.benchmark import read_benchmark
from heldout.benchmark.writers import open_tables
from heldout.corpus import open_corpus
from heldout.cure import Policy, write_clean_split
from heldout.cure.policy import POSSIBLY_REWORDED
from heldout.engine import open_engine
from heldout.errors import InputError
from heldout.store import Run, make_table

Picture = Callable[..., bytes]


def scan(bench: Path | str, corpus: Path | str, out: Path) -> Run:
    run = Run.create(out, command=["test"])
    corpora = [open_corpus(str(corpus), name="train")]
    with open_engine("local", 1) as engine:
        audit_overlap(read_benchmark(bench), corpora, run, engine, text=False, quiet=True)
    return run


def listed(folder: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(folder / f"{name}.parquet").to_pylist()
    with (folder / f"{name}.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == len(rows)
    return rows


@pytest.fixture
def bench(tmp_path: Path, picture: Picture) -> Path:
    """Five pictures with two questions each; pictures 3 and 4 are in train, 4 with one answer."""
    folder = tmp_path / "bench"
    (folder / "images").mkdir(parents=True)
    for number in range(8):
        (folder / f"images/{number}.png").write_bytes(picture(number))
    test = [
        {
            "id": f"t{n}{k}",
            "image": f"{n}.png",
            "question": f"What {k} is it?",
            "answer": f"a{n}{k}",
        }
        for n in range(5)
        for k in "xy"
    ]
    train = [
        {"id": "r1", "image": "3.png", "question": "Another?", "answer": "yes"},
        {"id": "r2", "image": "4.png", "question": "what x is it", "answer": "A4x"},
        {"id": "r3", "image": "7.png", "question": "What x is it?", "answer": "a0x"},
    ]
    for name, rows in (("test", test), ("train", train)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_same_image_removes_every_question_of_a_leaked_picture(bench: Path, tmp_path: Path) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    manifest = write_clean_split(open_tables(source), run, tmp_path / "out", Policy())
    back = read_benchmark(tmp_path / "out/clean/test.jsonl")
    assert [one.id for one in back] == ["t0x", "t0y", "t1x", "t1y", "t2x", "t2y"]
    assert manifest["removed"] == {
        "items": 4,
        "by_reason": {"image leaked": 3, "image, question and answer leaked": 1},
    }
    assert manifest["differences"] == []
    original = {one.id: one for one in read_benchmark(source)}
    for one in back:
        assert one.metadata == original[one.id].metadata
        assert one.images[0].read() == original[one.id].images[0].read()
    copied = sorted(path.name for path in (tmp_path / "out/clean/images").iterdir())
    assert copied == ["0.png", "1.png", "2.png"]
    removed = {row["benchmark_id"]: row for row in listed(tmp_path / "out", "removed")}
    assert removed["t4x"]["corpus_id"] == "r2"
    assert json.loads(removed["t4x"]["evidence"])["corpus_answer"] == "A4x"
    assert [row["written_id"] for row in listed(tmp_path / "out", "kept")] == [
        one.id for one in back
    ]
    # The lines that stay are the bytes they were.
    lines = (bench / "test.jsonl").read_bytes().splitlines(keepends=True)
    assert (tmp_path / "out/clean/test.jsonl").read_bytes() == b"".join(lines[:6])


def test_what_is_written_is_the_same_twice_and_its_fingerprint_stands(
    bench: Path, tmp_path: Path
) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    one = write_clean_split(open_tables(source), run, tmp_path / "one", Policy())
    write_clean_split(open_tables(source), run, tmp_path / "two", Policy())
    files = sorted(
        p.relative_to(tmp_path / "one") for p in (tmp_path / "one").rglob("*") if p.is_file()
    )
    assert files
    for name in files:
        assert filecmp.cmp(tmp_path / "one" / name, tmp_path / "two" / name, shallow=False), name
    # Sanitizing what is clean already removes nothing and changes nothing.
    clean = tmp_path / "one/clean/test.jsonl"
    again = scan(clean, f"{bench}#split=train", tmp_path / "run2")
    third = write_clean_split(open_tables(clean), again, tmp_path / "three", Policy())
    assert third["removed"]["items"] == 0
    assert third["clean"]["fingerprint"] == one["clean"]["fingerprint"]
    assert (tmp_path / "three/clean/test.jsonl").read_bytes() == clean.read_bytes()


def test_full_removes_only_what_leaked_with_its_answer(bench: Path, tmp_path: Path) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    manifest = write_clean_split(open_tables(source), run, tmp_path / "out", Policy("full"))
    assert [row["benchmark_id"] for row in listed(tmp_path / "out", "removed")] == ["t4x"]
    assert manifest["doubtful"] == {"items": 3, "by_reason": {"image leaked": 3}}
    assert any("3 of the 9 kept items" in c for c in manifest["cautions"])
    whole = write_clean_split(
        open_tables(source), run, tmp_path / "whole", Policy("full", whole_clusters=True)
    )
    assert whole["removed"]["by_reason"] == {
        "image, question and answer leaked": 1,
        "shares its image or patient with a removed item": 1,
    }
    companion = listed(tmp_path / "whole", "removed")[1]
    assert (companion["benchmark_id"], companion["because_of"]) == ("t4y", "t4x")


def test_down_weight_removes_nothing_and_writes_weights(bench: Path, tmp_path: Path) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    write_clean_split(open_tables(source), run, tmp_path / "out", Policy("down-weight"))
    weights = {row["benchmark_id"]: row["weight"] for row in listed(tmp_path / "out", "weights")}
    assert weights == {f"t{n}{k}": float(n < 3) for n in range(5) for k in "xy"}
    assert (tmp_path / "out/clean/test.jsonl").read_bytes() == (bench / "test.jsonl").read_bytes()


def match(item: str, relation: str, degree: str = "none", **more: str) -> dict[str, Any]:
    return {
        "benchmark_id": item,
        "image_index": 0,
        "corpus": "train",
        "corpus_id": f"c-{item}",
        "method": "clip",
        "similarity": 0.96,
        "degree": degree,
        "relation": relation,
        "transform": "none",
        "modality": "image only",
        "label_relation": "unknown",
        "evidence": "{}",
        **more,
    }


def test_undecided_and_near_matches_are_listed_until_somebody_asks(
    bench: Path, tmp_path: Path
) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    rows = [
        match("t0x", "undecided"),
        match("t1x", "look-alike", "soft"),
        match("t2x", "look-alike"),
        match("t3x", "transformed copy"),
    ]
    run.write_table("matches", make_table("matches", rows))

    def removed(name: str, policy: Policy) -> list[str]:
        write_clean_split(open_tables(source), run, tmp_path / name, policy)
        return [row["benchmark_id"] for row in listed(tmp_path / name, "removed")]

    assert removed("default", Policy()) == ["t3x"]
    assert [row["benchmark_id"] for row in listed(tmp_path / "default", "doubtful")] == [
        "t0x",
        "t1x",
        "t2x",
    ]
    assert removed("strict", Policy(strict=True)) == ["t0x", "t3x"]
    assert removed("soft", Policy("soft")) == ["t0x", "t1x", "t3x"]
    write_clean_split(
        open_tables(source), run, tmp_path / "weights", Policy("down-weight", weight=0.25)
    )
    weights = {r["benchmark_id"]: r["weight"] for r in listed(tmp_path / "weights", "weights")}
    assert [weights[one] for one in ("t0x", "t1x", "t2x", "t3x")] == [0.25, 0.25, 1.0, 0.0]


def with_texts(run: Run, rows: list[tuple[str, str, str, str, str]], evidence: str = "{}") -> None:
    names = ("benchmark_id", "corpus_id", "relation", "degree", "answer_relation")
    known = {"corpus": "train", "method": "minhash", "field": "question", "similarity": 0.93}
    filled = [{**dict(zip(names, row, strict=True)), **known, "evidence": evidence} for row in rows]
    run.write_table("text_matches", make_table("text_matches", filled))


def test_text_matches_are_joined_with_images_or_count_where_asked(
    bench: Path, tmp_path: Path
) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    with_texts(
        run,
        [
            # On the leaked picture the question in slightly other words, with the same answer.
            ("t3x", "r1", "edited", "none", "same"),
            ("t3y", "r1", "edited", "none", "different"),
            ("t0x", "r3", "same item", "hard", "same"),
            ("t1x", "r3", "same question", "none", "different"),  # a common question proves nothing
        ],
    )

    def removed(name: str, policy: Policy) -> dict[str, str]:
        write_clean_split(open_tables(source), run, tmp_path / name, policy)
        return {row["benchmark_id"]: row["method"] for row in listed(tmp_path / name, "removed")}

    assert removed("full", Policy("full")) == {"t3x": "bytes + text minhash", "t4x": "bytes"}
    assert "t0x" not in removed("images", Policy("same-image"))
    assert "t0x" in removed("proven", Policy())
    assert removed("text", Policy("full", text=True)).keys() == {"t0x", "t3x", "t4x"}
    doubtful = [row["benchmark_id"] for row in listed(tmp_path / "full", "doubtful")]
    assert doubtful == ["t0x", "t3y", "t4y"]


def test_the_policy_full_removes_what_may_be_reworded_beside_its_picture(
    bench: Path, tmp_path: Path
) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    with_texts(
        run,
        [
            ("t3x", "r1", "paraphrase", "soft", "same"),
            ("t3y", "r1", "paraphrase", "soft", "different"),  # beside its picture, another answer
            ("t0x", "r3", "paraphrase", "soft", "same"),  # beside another picture
        ],
        evidence='{"reading": {"doubtful": true}}',
    )
    for name, text in (("full", False), ("text", True)):
        write_clean_split(open_tables(source), run, tmp_path / name, Policy("full", text=text))
        removed = {row["benchmark_id"]: row["reason"] for row in listed(tmp_path / name, "removed")}
        assert removed.keys() == {"t3x", "t4x"}
        assert removed["t3x"] == POSSIBLY_REWORDED


def test_words_without_their_answer_are_kept_and_listed_until_somebody_asks(
    bench: Path, tmp_path: Path
) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    with_texts(
        run,
        [
            ("t0x", "r3", "same item", "hard", "same"),
            ("t0y", "r3", "same question", "hard", "unknown"),
            ("t1x", "r3", "contained", "hard", "unknown"),
            ("t1y", "r3", "edited", "soft", "same"),
            ("t2x", "r3", "same item", "soft", "same"),
        ],
    )
    manifest = write_clean_split(open_tables(source), run, tmp_path / "out", Policy())
    assert manifest["removed"]["by_reason"] == {
        "image leaked": 3,
        "image, question and answer leaked": 1,
        "question and answer leaked without an image": 1,
    }
    doubtful = {r["benchmark_id"]: r["reason"] for r in listed(tmp_path / "out", "doubtful")}
    assert doubtful == {
        "t0y": "kept: question without its answer",
        "t1x": "kept: words inside a longer text",
        "t1y": "kept: words like its own",
        "t2x": "kept: question and answer, short, or beside another or an unread picture",
    }

    def removed(name: str, policy: Policy) -> dict[str, str]:
        write_clean_split(open_tables(source), run, tmp_path / name, policy)
        rows = listed(tmp_path / name, "removed")
        return {row["benchmark_id"]: row["reason"] for row in rows if row["benchmark_id"] < "t3"}

    asked = removed("text", Policy(text=True))
    assert asked.keys() == {"t0x", "t0y", "t1x"}
    assert asked["t0y"] == "question without its answer"  # nothing is kept here
    assert removed("soft", Policy("soft", text=True)).keys() == {"t0x", *doubtful}
    assert removed("images", Policy("same-image")) == {}


def test_what_is_removed_is_what_the_claim_says_survives(tmp_path: Path) -> None:
    """One number in both: the items that stand in the corpus word for word with their answer."""
    asked = [
        f"Which organ shows the {word} enhancing lesion after contrast on this late axial slice?"
        for word in ("nodular", "ring", "diffusely", "faintly")
    ]
    test = [
        {"id": f"q{n}", "question": text, "answer": f"organ {n}"} for n, text in enumerate(asked)
    ]
    corpus = [test[0], {"question": asked[1]}, {"text": f"Quiz of the day. {asked[2]} Think."}]
    for name, rows in (("test", test), ("corpus", corpus)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    bench = tmp_path / "test.jsonl"
    run = Run.create(tmp_path / "run", command=["test"])
    with open_engine("local", 1) as engine:
        told = audit_overlap(
            read_benchmark(bench),
            [open_corpus(str(tmp_path / "corpus.jsonl"))],
            run,
            engine,
            quiet=True,
        )
    claim = next(one for one in told.conclusion.claims if one.id.startswith("text/"))
    assert claim.status == "survives" and claim.why.startswith("1 item ")
    manifest = write_clean_split(open_tables(bench), run, tmp_path / "out", Policy())
    assert [row["benchmark_id"] for row in listed(tmp_path / "out", "removed")] == ["q0"]
    assert manifest["doubtful"]["by_reason"] == {
        "kept: question without its answer": 1,
        "kept: words inside a longer text": 1,
    }


def test_removing_words_nobody_searched_for_is_refused_with_the_command(
    bench: Path, tmp_path: Path
) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    with pytest.raises(InputError, match="^text: ") as told:
        write_clean_split(open_tables(source), run, tmp_path / "out", Policy(text=True))
    command = f"--against 'train={bench}#split=train' --out {tmp_path / 'run'}"
    assert str(told.value).endswith(command)
    assert not (tmp_path / "out").exists()


def test_items_nobody_could_compare_are_kept_and_listed(bench: Path, tmp_path: Path) -> None:
    (bench / "images/0.png").write_bytes(b"no picture")
    (bench / "images/1.png").unlink()
    run = scan(bench / "test.jsonl", bench / "train.jsonl", tmp_path / "run")
    opened = open_tables(str(bench / "test.jsonl"))
    manifest = write_clean_split(opened, run, tmp_path / "clean", Policy())
    listed_ids = {
        row["benchmark_id"]: row["reason"] for row in listed(tmp_path / "clean", "doubtful")
    }
    assert set(listed_ids) == {"t0x", "t0y", "t1x", "t1y"}
    assert set(listed_ids.values()) == {"kept: its picture could not be compared"}
    assert any(c.startswith("4 kept items ") for c in manifest["cautions"])


def test_another_revision_is_refused(bench: Path, tmp_path: Path) -> None:
    run = scan(f"{bench}#split=test", f"{bench}#split=train", tmp_path / "run")
    with pytest.raises(InputError, match=r"'bench-test' \(10 items"):
        write_clean_split(open_tables(f"{bench}#split=train"), run, tmp_path / "out", Policy())
    text = (bench / "test.jsonl").read_text()
    (bench / "test.jsonl").write_text(text.replace("What x is it?", "What x was it?", 1))
    with pytest.raises(InputError, match="fingerprint"):
        write_clean_split(open_tables(f"{bench}#split=test"), run, tmp_path / "out", Policy())
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match="no finished scan"):
        write_clean_split(
            open_tables(f"{bench}#split=test"),
            Run.create(tmp_path / "new"),
            tmp_path / "out",
            Policy(),
        )


def test_a_folder_that_holds_something_is_not_written_over(bench: Path, tmp_path: Path) -> None:
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/precious").write_text("x")
    with pytest.raises(InputError, match="not empty"):
        write_clean_split(open_tables(source), run, tmp_path / "out", Policy())
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["precious"]
    assert not list(tmp_path.glob(".out.*"))  # nothing half-written is left behind


def test_rows_that_cannot_be_read_are_in_the_list(bench: Path, tmp_path: Path) -> None:
    with (bench / "test.jsonl").open("a") as file:
        file.write('{"id": broken\n')
    source = f"{bench}#split=test"
    run = scan(source, f"{bench}#split=train", tmp_path / "run")
    manifest = write_clean_split(open_tables(source), run, tmp_path / "out", Policy())
    assert manifest["benchmark"]["rows_not_readable"] == 1
    last = listed(tmp_path / "out", "removed")[-1]
    assert (last["benchmark_id"], last["reason"]) == (
        "test.jsonl line 11",
        "could not be read: not JSON",
    )


def test_items_without_an_id_are_found_by_what_they_were_called(
    tmp_path: Path, picture: Picture
) -> None:
    (tmp_path / "b").mkdir()
    for n in range(4):
        (tmp_path / f"b/{n}.png").write_bytes(picture(n))
    lines = [f"{n}.png,what is {n}?,{'a' * n}\n" for n in range(4)]
    (tmp_path / "b/test.csv").write_text("image,question,answer\n" + "".join(lines))
    (tmp_path / "c").mkdir()
    (tmp_path / "c/x.png").write_bytes(picture(1))
    run = scan(tmp_path / "b/test.csv", tmp_path / "c", tmp_path / "run")
    manifest = write_clean_split(
        open_tables(tmp_path / "b/test.csv"), run, tmp_path / "out", Policy()
    )
    assert manifest["differences"] == []
    assert manifest["clean"]["renamed_items"] == 2
    names = [(row["benchmark_id"], row["written_id"]) for row in listed(tmp_path / "out", "kept")]
    assert names == [("1", "1"), ("3", "2"), ("4", "3")]


def test_images_given_by_a_folder_travel_with_the_split(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "pictures/sub").mkdir(parents=True)
    for n in range(3):
        (tmp_path / f"pictures/sub/{n}.png").write_bytes(picture(n))
    rows = [{"id": f"q{n}", "image": f"sub/{n}.png", "question": f"what {n}"} for n in range(3)]
    (tmp_path / "tables/test.json").write_text(json.dumps(rows))
    (tmp_path / "c").mkdir()
    (tmp_path / "c/x.png").write_bytes(picture(2))
    run = Run.create(tmp_path / "run", command=["test"])
    opened = open_tables(tmp_path / "tables/test.json", images=tmp_path / "pictures")
    with open_engine("local", 1) as engine:
        corpora = [open_corpus(str(tmp_path / "c"))]
        audit_overlap(opened.benchmark, corpora, run, engine, text=False, quiet=True)
    manifest = write_clean_split(opened, run, tmp_path / "out", Policy())
    assert manifest["differences"] == []
    back = read_benchmark(tmp_path / "out" / manifest["clean"]["open"])
    assert [one.images[0].read() for one in back] == [picture(0), picture(1)]


def test_turns_of_a_conversation_go_together(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "b").mkdir()
    for n in range(2):
        (tmp_path / f"b/{n}.png").write_bytes(picture(n))
    rows = [
        {
            "id": f"c{n}",
            "image": f"{n}.png",
            "conversations": [
                {"from": "human", "value": "<image>\nWhat?"},
                {"from": "gpt", "value": "ct"},
                {"from": "human", "value": "Why?"},
                {"from": "gpt", "value": "so"},
            ],
        }
        for n in range(2)
    ]
    (tmp_path / "b/test.json").write_text(json.dumps(rows))
    train = [{"id": "r", "image": "0.png", "question": "What?", "answer": "CT"}]
    (tmp_path / "b/train.jsonl").write_text(json.dumps(train[0]))
    run = scan(tmp_path / "b/test.json", tmp_path / "b/train.jsonl", tmp_path / "run")
    write_clean_split(open_tables(tmp_path / "b/test.json"), run, tmp_path / "out", Policy("full"))
    removed = listed(tmp_path / "out", "removed")
    assert [(row["benchmark_id"], row["because_of"]) for row in removed] == [
        ("c0_1", None),
        ("c0_2", "c0_1"),
    ]
    assert removed[1]["reason"] == "stands in one entry of the file with a removed item"
    assert json.loads((tmp_path / "out/clean/test.json").read_text()) == rows[1:]
