"""A dual encoder on a benchmark: which items take part, what is kept, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError
from tiny_duals import picture, write_clip, write_pictures

from heldout.benchmark import read_benchmark
from heldout.errors import InputError
from heldout.evaluate.encoders import (
    EncoderEvaluation,
    EncoderSettings,
    EncoderTask,
    evaluate_encoder,
)
from heldout.overlap.images.encoder import open_encoder
from heldout.store import Run

pytest.importorskip("torch", reason="torch is not installed on this platform's suite")
pytest.importorskip("transformers")

COLOURS = ("red", "green", "blue")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_clip(tmp_path_factory.mktemp("models") / "clip")


def rows(count: int = 18) -> list[dict[str, Any]]:
    return [
        {
            "label": COLOURS[n % 3],
            "caption": f"a {COLOURS[n % 3]} {'bcdefgh'[n % 7]} {'bcd'[n // 7]}",
        }
        for n in range(count)
    ]


def settings(encoder: str, **more: Any) -> EncoderSettings:
    return EncoderSettings(encoder=encoder, templates="a photo of the {}.", **more)


def test_every_item_is_measured_as_by_hand(clip: str, tmp_path: Path) -> None:
    benchmark = read_benchmark(str(write_pictures(tmp_path / "b", rows())))
    found = evaluate_encoder(benchmark, settings(clip), quiet=True)
    assert [one.task.value for one in found.tasks] == [
        "zero-shot",
        "image-to-text",
        "text-to-image",
    ]
    assert "train" in found.skipped["probe"]
    encoder = open_encoder(clip)
    pictures = encoder.encode([picture(n) for n in range(18)])
    words = encoder.encode_texts([f"a photo of the {one}." for one in sorted(COLOURS)])
    guesses = (pictures @ words.T).argmax(axis=1)
    right = [sorted(COLOURS)[guess] == COLOURS[n % 3] for n, guess in enumerate(guesses)]
    zero = found.tasks[0]
    assert [zero.measures["top-1"][f"i{n}"] for n in range(18)] == [float(one) for one in right]
    assert set(zero.measures) == {"top-1"}  # of three classes five say nothing
    captions = encoder.encode_texts([row["caption"] for row in rows()])
    near = pictures @ captions.T
    for cut in (1, 5, 10):
        hits = [(near[n] >= near[n, n] - 1e-6).sum() <= cut for n in range(18)]
        assert [found.tasks[1].measures[f"R@{cut}"][f"i{n}"] for n in range(18)] == hits
        back = [(near[:, n] >= near[n, n] - 1e-6).sum() <= cut for n in range(18)]
        assert [found.tasks[2].measures[f"R@{cut}"][f"i{n}"] for n in range(18)] == back
    assert found.items.height == 18 * 7
    assert found.summary.filter(found.summary["measure"] == "top-1")["value"][0] == np.mean(right)
    assert "R@10" in found._repr_html_()
    assert "\n" not in repr(found) and len(repr(found)) < 400


def test_a_run_keeps_rows_and_a_second_call_encodes_nothing(
    clip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = read_benchmark(str(write_pictures(tmp_path / "b", rows())))
    run = Run.create(tmp_path / "run", command=["test"])
    first = evaluate_encoder(benchmark, settings(clip), run, quiet=True)

    def refuse(*_: object) -> object:
        raise AssertionError("encoded again")

    kind = type(open_encoder(clip))
    monkeypatch.setattr(kind, "encode", refuse)
    monkeypatch.setattr(kind, "_forward_texts", refuse)
    assert evaluate_encoder(benchmark, settings(clip), run, quiet=True).items.equals(first.items)


def test_a_call_that_broke_off_goes_on_where_it_was(
    clip: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmark = read_benchmark(str(write_pictures(tmp_path / "b", rows())))
    run = Run.create(tmp_path / "run", command=["test"])
    monkeypatch.setattr("heldout.overlap.images.embedding_rows._IMAGES_PER_TASK", 4)
    kind = type(open_encoder(clip))
    encode, seen = kind.encode, []

    def breaking(self: Any, images: Any) -> Any:
        if len(seen) == 2:
            raise OSError("the machine went away")
        seen.append(len(images))
        return encode(self, images)

    monkeypatch.setattr(kind, "encode", breaking)
    with pytest.raises(InputError, match="the machine went away"):
        evaluate_encoder(benchmark, settings(clip), run, quiet=True)
    seen.clear()

    def counting(self: Any, images: Any) -> Any:
        seen.append(len(images))
        return encode(self, images)

    monkeypatch.setattr(kind, "encode", counting)
    found = evaluate_encoder(benchmark, settings(clip), run, quiet=True)
    assert sum(seen) == 18 - 8  # two pieces were kept
    plain = evaluate_encoder(benchmark, settings(clip), quiet=True)
    assert found.items.equals(plain.items)


def test_a_probe_learns_the_labels_of_its_training_set(clip: str, tmp_path: Path) -> None:
    pytest.importorskip("cv2")
    train = write_pictures(
        tmp_path / "train", [{"label": COLOURS[n % 3], "caption": "x"} for n in range(20)]
    )
    # The test shows training pictures: under their own label, the others under another.
    shown = [{"label": COLOURS[(n + (n >= 9)) % 3], "seed": n} for n in range(18)]
    shown.append({"label": "purple", "seed": 19})
    benchmark = read_benchmark(str(write_pictures(tmp_path / "b", shown)))
    run = Run.create(tmp_path / "run", command=["test"])
    asked = settings(clip, tasks=("probe",), train=f"train={train}", strengths=(1e7,))
    found = evaluate_encoder(benchmark, asked, run, quiet=True).tasks[0]
    values = [found.measures["top-1"][f"i{n}"] for n in range(18)]
    assert np.mean(values[:9]) > 0.8 > 0.2 > np.mean(values[9:])
    assert found.details["training pictures"] == 20
    assert [(one.id, one.reason) for one in found.dropped] == [
        ("i18", "class not in the training set")
    ]
    with pytest.raises(InputError, match="run folder"):
        evaluate_encoder(benchmark, asked, quiet=True)


def test_items_without_one_readable_picture_are_dropped_with_the_reason(
    clip: str, tmp_path: Path
) -> None:
    path = write_pictures(tmp_path / "b", rows(9))
    (tmp_path / "b/images/0003.png").write_bytes(b"no picture")
    lines = path.read_text().splitlines()
    several = json.loads(lines[4])
    several["image"] = ["images/0004.png", "images/0005.png"]
    unnamed = {**json.loads(lines[5]), "label": "", "caption": None}
    lines[4], lines[5] = json.dumps(several), json.dumps(unnamed)
    path.write_text("\n".join(lines) + "\n")
    found = evaluate_encoder(read_benchmark(str(path)), settings(clip), quiet=True)
    assert {one.id: one.reason for one in found.dropped} == {
        "i3": "image not readable",
        "i4": "several pictures",
    }
    assert {one.id: one.reason for one in found.tasks[0].dropped} == {"i5": "no label"}
    assert {one.id: one.reason for one in found.tasks[1].dropped} == {"i5": "no caption"}
    assert "i5" not in found.tasks[1].measures["R@1"]


def test_what_cannot_be_done_is_said(clip: str, tmp_path: Path) -> None:
    plain = read_benchmark(
        str(write_pictures(tmp_path / "a", [{"caption": f"{n} b"} for n in range(4)]))
    )
    with pytest.raises(InputError, match=r"^task zero-shot: .*\blabel\b"):
        evaluate_encoder(plain, settings(clip, tasks=("zero-shot",)), quiet=True)
    with pytest.raises(InputError, match="^label 'kind': .*it has: "):
        evaluate_encoder(plain, settings(clip, label="kind"), quiet=True)
    with pytest.raises(InputError, match="no task.*reads no texts"):
        evaluate_encoder(plain, settings("pixels"), quiet=True)
    with pytest.raises(ValidationError, match="train: "):
        settings(clip, tasks=("probe",))
    with pytest.raises(ValidationError, match="class_embeddings"):
        settings(clip, class_embeddings="x")
    named = tmp_path / "names.txt"
    named.write_text("cat\ndog\n")
    labelled = read_benchmark(str(write_pictures(tmp_path / "b", rows(6))))
    asked = settings(clip, tasks=("zero-shot",), class_names=named)
    with pytest.raises(InputError, match=r"among the 2 candidates"):
        evaluate_encoder(labelled, asked, quiet=True)


def write_saved(folder: Path, images: Any, texts: Any, table: dict[str, list[Any]]) -> None:
    for name in ("img_emb", "text_emb", "metadata"):
        (folder / name).mkdir(parents=True)
    if images is not None:
        np.save(folder / "img_emb/img_emb_0.npy", np.asarray(images, np.float16))
    if texts is not None:
        np.save(folder / "text_emb/text_emb_0.npy", np.asarray(texts, np.float16))
    pq.write_table(pa.table(table), folder / "metadata/metadata_0.parquet")


def test_saved_embeddings_in_laions_layout(tmp_path: Path) -> None:
    benchmark = read_benchmark(str(write_pictures(tmp_path / "b", rows(6))))
    eye = np.eye(6)
    turned = eye[[0, 1, 2, 3, 5, 4]]  # the last two captions are mixed up
    names = [f"/far/away/{n:04d}.png" for n in range(6)] + ["/far/away/other.png"]
    write_saved(
        tmp_path / "e",
        np.vstack([eye, eye[:1]]),
        np.vstack([turned, eye[:1]]),
        {"image_path": names, "caption": [f"caption {n}" for n in range(7)]},
    )
    write_saved(tmp_path / "c", None, eye[:3], {"label": ["red", "green", "blue"]})
    asked = EncoderSettings(encoder=f"saved:{tmp_path / 'e'}", class_embeddings=tmp_path / "c")
    found = evaluate_encoder(benchmark, asked, quiet=True)
    by_task = {one.task: one.measures for one in found.tasks}
    assert list(by_task[EncoderTask.ZERO_SHOT]["top-1"].values()) == [1, 1, 1, 0, 0, 0]
    assert list(by_task[EncoderTask.IMAGE_TO_TEXT]["R@1"].values()) == [1, 1, 1, 1, 0, 0]
    assert list(by_task[EncoderTask.TEXT_TO_IMAGE]["R@1"].values()) == [1, 1, 1, 1, 0, 0]
    assert found.name == "e"


def test_saved_rows_that_point_nowhere_are_left_out(tmp_path: Path) -> None:
    benchmark = read_benchmark(str(write_pictures(tmp_path / "b", rows(6))))
    ids = {"id": [f"i{n}" for n in range(6)]}
    images, texts = np.eye(6), np.eye(6)
    images[0], images[1, 2], images[2] = np.nan, np.inf, 0
    texts[3, 0] = np.nan
    classes = {"label": ["red", "green", "blue", "blue"]}
    prompts = np.vstack([np.eye(6)[:3], np.full((1, 6), np.nan)])
    write_saved(tmp_path / "e", images, texts, ids)
    write_saved(tmp_path / "c", None, prompts, classes)

    def evaluated(name: str, classes: str = "c") -> EncoderEvaluation:
        settings = EncoderSettings(
            encoder=f"saved:{tmp_path / name}", class_embeddings=tmp_path / classes
        )
        return evaluate_encoder(benchmark, settings, quiet=True)

    found = evaluated("e")
    gone = {one.id: one.reason for one in found.dropped}
    assert gone == dict.fromkeys(["i0", "i1", "i2"], "unusable embedding")
    by_task = {one.task: one for one in found.tasks}
    assert list(by_task[EncoderTask.ZERO_SHOT].measures["top-1"]) == ["i3", "i4", "i5"]
    there = by_task[EncoderTask.IMAGE_TO_TEXT]
    assert there.measures == {"R@1": {"i4": 1.0, "i5": 1.0}}
    assert [(one.id, one.reason) for one in there.dropped] == [("i3", "unusable text embedding")]
    write_saved(tmp_path / "none", np.full((6, 6), np.nan), texts, ids)
    with pytest.raises(InputError, match="none .*rows of 6"):
        evaluated("none")
    write_saved(tmp_path / "mute", np.eye(6), np.zeros((6, 6)), ids)
    assert set(evaluated("mute").skipped) == {"image-to-text", "text-to-image", "probe"}
    assert not any(one.remarks for one in found.tasks)
    write_saved(tmp_path / "same", np.ones((6, 6)), np.eye(6), ids)
    assert all(len(one.remarks) == 1 for one in evaluated("same").tasks)
    write_saved(tmp_path / "twice", None, np.eye(6)[[0, 0, 1, 1]], classes)
    assert len(evaluated("e", "twice").tasks[0].remarks) == 1
    write_saved(tmp_path / "spoilt", None, prompts, {"label": ["red", "green", "blue", "grey"]})
    with pytest.raises(InputError, match="such as 'grey'"):
        evaluated("e", "spoilt")
    write_saved(tmp_path / "short", None, np.eye(4), classes)
    with pytest.raises(InputError, match=r"\bshort: .*\b4 numbers.* 6: "):
        evaluated("e", "short")
    write_saved(tmp_path / "odd", np.eye(6), np.ones((6, 5)), ids)
    with pytest.raises(InputError, match=r"\b6 numbers, .*text_emb_0\.npy of 5"):
        evaluated("odd")
    learnt = np.eye(6)[[0, 1, 0, 1]]
    learnt[3] = np.nan
    write_saved(tmp_path / "t", learnt, None, {"label": ["red", "green"] * 2, "id": list("abcd")})
    asked = EncoderSettings(
        encoder=f"saved:{tmp_path / 'e'}",
        tasks=("probe",),
        train=str(tmp_path / "t"),
        strengths=(1,),
    )
    run = Run.create(tmp_path / "run", command=["test"])
    probe = evaluate_encoder(benchmark, asked, run, quiet=True).tasks[0]
    assert probe.details["training pictures"] == 3
    assert "unusable embedding" in {one.reason for one in probe.dropped}


def test_saved_embeddings_that_fit_nothing_are_refused(tmp_path: Path) -> None:
    benchmark = read_benchmark(str(write_pictures(tmp_path / "b", rows(3))))

    def asked(name: str) -> EncoderSettings:
        return EncoderSettings(encoder=f"saved:{tmp_path / name}")

    write_saved(tmp_path / "e", np.eye(3), np.eye(3), {"image_path": ["x", "y", "z"]})
    with pytest.raises(InputError, match="of its 3 rows"):
        evaluate_encoder(benchmark, asked("e"), quiet=True)
    write_saved(tmp_path / "f", np.eye(3), np.eye(4), {"id": ["i0", "i1", "i2"]})
    with pytest.raises(InputError, match="4 rows but .* has 3"):
        evaluate_encoder(benchmark, asked("f"), quiet=True)
    with pytest.raises(InputError, match="^saved:.*folder"):
        evaluate_encoder(benchmark, asked("g"), quiet=True)
