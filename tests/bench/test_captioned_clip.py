"""Captioned scenes with known leaks, and the small CLIP that is trained on them."""

from __future__ import annotations

import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from captioned_scenes import ARMS, World, classes, write_test, write_train
from heldout.corpus import open_corpus

WORLD = World(strangers=30, each=3, clean=6)


def test_leaks_are_what_their_arm_says() -> None:
    seen = Counter()
    for index in range(WORLD.strangers, WORLD.train):
        leak = WORLD.train_picture(index)
        test = WORLD.test_picture(index - WORLD.strangers)
        arm = next(one for one in ARMS if one.name == leak.arm)
        assert (leak.of, test.arm) == (test.id, leak.arm)
        assert (leak.label == test.label) == (arm.label == "same")
        assert leak.label in leak.caption.replace("striped ", "").replace("dotted ", "").replace(
            "checkered ", ""
        )
        assert leak.label in classes()
        assert leak.label in leak.title
        apart = np.abs(_pixels(leak.data) - _pixels(test.data)).mean()
        assert apart < 4 if arm.degree == "hard" else apart > 4
        seen[arm.name] += 1
        assert not WORLD.train_picture(index, leaky=False).arm  # a stranger in its place
    assert set(seen.values()) == {WORLD.each}
    assert not WORLD.test_picture(WORLD.test - 1).arm


def test_pictures_depend_on_their_number_alone() -> None:
    assert WORLD.train_picture(7) == World(strangers=50, each=3, clean=6).train_picture(7)
    assert WORLD.train_picture(7) != World(strangers=30, each=3, clean=6, seed=1).train_picture(7)


def test_files_bring_labels_to_the_search(tmp_path: Path) -> None:
    test = write_test(tmp_path / "test", WORLD)
    rows = [json.loads(line) for line in test.read_text().splitlines()]
    assert len(rows) == WORLD.test
    assert set(rows[0]) == {"id", "image", "label", "caption"}
    corpus = open_corpus(str(write_train(tmp_path / "train", WORLD)))
    items = [item for shard in corpus.shards() for item in corpus.read(shard)]
    assert len(items) == WORLD.train
    assert all(item.answer in classes() and "large" in item.text for item in items)
    truth = [json.loads(line) for line in (tmp_path / "train.truth.jsonl").read_text().splitlines()]
    by_id = {item.id: item for item in items}
    labels = {row["id"]: row["label"] for row in rows}
    for row in truth:
        same = by_id[row["corpus_id"]].answer == labels[row["benchmark_id"]]
        assert same == (row["label"] == "same")


def test_training_learns_and_what_is_saved_is_an_encoder(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed on this platform's suite")
    pytest.importorskip("transformers")
    from heldout.overlap.images.encoder import open_encoder
    from small_clip import TINY, Pairs, Schedule, embed_pairs, new_clip, save_clip, train_clip
    from small_clip import word_tokenizer as tokenizer_of

    shown = [WORLD.test_picture(n) for n in range(8)]
    pixels = np.stack([_pixels(one.data) for one in shown]).astype(np.uint8)
    pairs = Pairs(pixels, [one.caption for one in shown], [one.title for one in shown])
    tokenizer = tokenizer_of([*pairs.captions, *pairs.titles], TINY.context)
    model = new_clip(TINY, tokenizer, 0)
    log = tmp_path / "loss.jsonl"
    steps = train_clip(
        model,
        tokenizer,
        pairs,
        Schedule(steps=50, batch=8, rate=1e-3),
        device="cpu",
        seed=0,
        log=log,
    )
    losses = [json.loads(line)["loss"] for line in log.read_text().splitlines()]
    assert steps == 50
    assert losses[-1] < 0.5 < np.log(8)
    near = (
        embed_pairs(model, tokenizer, pairs.pixels, None, "cpu")
        @ embed_pairs(model, tokenizer, None, pairs.captions, "cpu").T
    )
    assert (near.argmax(axis=1) == np.arange(8)).mean() >= 0.75  # it knows them by heart
    save_clip(model, tokenizer, TINY, tmp_path / "clip")
    encoder = open_encoder(f"transformers:{tmp_path / 'clip'}")
    rows = encoder.encode([Image.open(io.BytesIO(one.data)) for one in shown])
    again = rows @ encoder.encode_texts(pairs.captions).T
    assert np.abs(again - near).max() < 0.02  # half precision, and the processor's own arithmetic


def _pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)), np.float32)
