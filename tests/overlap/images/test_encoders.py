"""Encoders: the built-in descriptor, views, saved embeddings, and what must never be compared."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image, ImageOps

from heldout.corpus import EmbeddingCorpus, open_corpus
from heldout.errors import InputError
from heldout.overlap.images.embed import embed_shard, read_identity, save_shard
from heldout.overlap.images.encoder import (
    POSES,
    Preprocessing,
    open_encoder,
    require_same,
    views,
    with_options,
)


def scene(seed: int, size: tuple[int, int] = (160, 120)) -> Image.Image:
    blocks = np.random.default_rng(seed).integers(0, 256, (9, 12, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize(size, Image.Resampling.BICUBIC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "pictures"
    root.mkdir()
    for number in range(7):
        scene(number).save(root / f"{number}.png")
    (root / "3.png").write_bytes(b"\x89PNG\r\n\x1a\n broken")
    return root


def test_pixels_gives_unit_rows_that_do_not_depend_on_the_batch():
    encoder = open_encoder("pixels")
    images = [scene(seed) for seed in range(5)]
    together = encoder.encode(images)
    assert together.shape == (5, encoder.dimension)
    assert together.dtype == np.float32
    assert np.allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)
    alone = np.concatenate([encoder.encode([image]) for image in images])
    assert np.allclose(together, alone, atol=1e-5)
    assert encoder.encode([]).shape == (0, encoder.dimension)


def test_pixels_finds_resized_compressed_grey_and_brightened_copies_among_others():
    encoder = open_encoder("pixels")
    others = encoder.encode([scene(seed) for seed in range(40)])
    original = scene(0)
    buffer = io.BytesIO()
    original.save(buffer, "JPEG", quality=30)
    copies = [
        original.resize((128, 128)),
        Image.open(buffer),
        ImageOps.grayscale(original),
        original.point(lambda level: 40 + level // 2),
    ]
    for copy in copies:
        similarity = others @ encoder.encode([copy])[0]
        assert similarity.argmax() == 0
        assert similarity[0] > np.sort(similarity)[-2] + 0.15


def test_pixels_finds_real_radiographs_under_changes(shared_data):
    encoder = open_encoder("pixels")
    files = sorted((shared_data / "vqa_rad").rglob("*.jpg"))[::8]
    pictures = [Image.open(path).convert("RGB").resize((256, 256)) for path in files]
    corpus = encoder.encode(pictures)
    for change in (ImageOps.grayscale, lambda image: image.resize((128, 96))):
        rows = encoder.encode([change(image) for image in pictures])
        assert ((rows @ corpus.T).argmax(axis=1) == np.arange(len(files))).mean() > 0.97


def test_pixels_alone_misses_a_flip_which_a_view_finds():
    encoder = open_encoder("pixels")
    image = scene(1)
    copy = encoder.encode([ImageOps.mirror(image)])[0]
    names, rows = encoder.encode_views(image)
    found = rows @ copy
    assert names[int(found.argmax())] == "flipped horizontally"
    assert found.max() > encoder.encode([image])[0] @ copy + 0.15


def test_a_flat_picture_has_a_finite_vector():
    rows = open_encoder("pixels").encode([Image.new("RGB", (50, 50), (9, 9, 9))])
    assert np.isfinite(rows).all()


def test_views_are_the_poses_crops_and_the_negative():
    image = scene(2, (101, 60))
    found = views(image)
    assert [name for name, _ in found[:8]] == list(POSES)
    pixels = np.asarray(image)
    for pose, (_, view) in enumerate(found[:8]):
        expected = np.rot90(pixels[:, ::-1] if pose >= 4 else pixels, pose % 4)
        assert np.array_equal(np.asarray(view), expected)
    named = dict(found)
    assert len(named) == len(found) == 14
    assert np.array_equal(np.asarray(named["inverted"]), 255 - pixels)
    assert np.array_equal(np.asarray(named["bottom right crop"]), pixels[-42:, -71:])
    more = views(image, thorough=True)
    assert len(dict(more)) == len(more) == 51
    assert [name for name, _ in more[:14]] == [name for name, _ in found]


def test_views_of_the_smallest_picture():
    assert all(min(view.size) >= 1 for _, view in views(Image.new("L", (1, 1)), thorough=True))


def test_embeddings_of_different_identity_are_not_compared(folder):
    require_same("pixels-1", "pixels-1")
    with pytest.raises(InputError, match="cannot be compared"):
        require_same("clip | crop 224", "clip | squash 224")


def test_a_shard_is_embedded_in_order_and_what_is_broken_is_dropped(folder):
    corpus, encoder = open_corpus(folder), open_encoder("pixels")
    shard = next(iter(corpus.shards()))
    found = embed_shard(corpus, shard, encoder, batch=2, threads=3)
    assert [item.image.name.rsplit("/")[-1] for item in found.items] == [
        f"{number}.png" for number in (0, 1, 2, 4, 5, 6)
    ]
    assert found.rows.dtype == np.float16
    for item, row in zip(found.items, found.rows, strict=True):
        assert row.astype(np.float32) @ encoder.encode([item.image.open()])[0] > 0.999
    (lost,) = found.dropped
    assert lost.stage == "corpus"
    assert "3.png" in lost.detail
    again = embed_shard(corpus, shard, encoder, batch=5, threads=1)
    assert np.allclose(found.rows, again.rows, atol=1e-3)


def test_saved_embeddings_are_a_corpus_in_laions_layout(folder, tmp_path):
    corpus, encoder = open_corpus(folder), open_encoder("pixels")
    shard = next(iter(corpus.shards()))
    embedded = embed_shard(corpus, shard, encoder)
    out = tmp_path / "saved"
    save_shard(out, 0, embedded)
    save_shard(out, 1, embedded)
    assert read_identity(out).identity == encoder.identity
    assert sorted(str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()) == [
        "encoder.json",
        "img_emb/img_emb_0000.npy",
        "img_emb/img_emb_0001.npy",
        "metadata/metadata_0000.parquet",
        "metadata/metadata_0001.parquet",
    ]
    saved = open_corpus(out)
    assert isinstance(saved, EmbeddingCorpus)
    first, second = saved.shards()
    assert np.array_equal(saved.embeddings(second), embedded.rows)
    items = list(saved.read(first))
    assert [item.metadata["id"] for item in items] == [item.id for item in embedded.items]
    assert pq.read_table(out / "metadata/metadata_0000.parquet").num_rows == len(embedded.items)


def test_a_folder_of_embeddings_has_one_encoder(folder, tmp_path):
    corpus = open_corpus(folder)
    embedded = embed_shard(corpus, next(iter(corpus.shards())), open_encoder("pixels"))
    save_shard(tmp_path / "saved", 0, embedded)
    embedded.identity = "another"
    with pytest.raises(InputError, match="cannot be compared"):
        save_shard(tmp_path / "saved", 1, embedded)
    (tmp_path / "saved" / "encoder.json").write_text(
        '{"format": 99, "identity": "", "dimension": 1}'
    )
    with pytest.raises(InputError, match="format 99"):
        read_identity(tmp_path / "saved")
    (tmp_path / "saved" / "encoder.json").write_text("[]")
    with pytest.raises(InputError, match=r"encoder\.json "):
        read_identity(tmp_path / "saved")
    assert read_identity(tmp_path / "elsewhere") is None


def test_preprocessing_crops_the_middle_or_squashes_the_whole():
    image = Image.new("RGB", (90, 30), (255, 0, 0))
    image.paste((0, 255, 0), (30, 0, 60, 30))
    base = Preprocessing(size=16, statistics="none")
    cropped = with_options(base, {"resize": "crop"}, "x")(image)
    assert cropped.shape == (3, 16, 16)
    assert cropped[0].max() < 0.35
    assert base(image)[0].max() == pytest.approx(1)
    assert str(base) != str(with_options(base, {"resize": "crop"}, "x"))


@pytest.mark.parametrize(
    "options", [{"size": "big"}, {"resize": "wrap"}, {"colour": "red"}, {"size": "2"}]
)
def test_options_that_mean_nothing_are_refused(options):
    with pytest.raises(InputError, match="expected"):
        with_options(Preprocessing(), options, "x")


@pytest.mark.parametrize(
    "spec", ["magic", "onnx", "onnx:/nowhere.onnx", "torchscript:/nowhere.pt", "pixels:8"]
)
def test_specs_that_name_nothing_are_refused(spec):
    needed = {"onnx": "onnxruntime", "torchscript": "torch"}.get(spec.split(":")[0])
    if needed:
        pytest.importorskip(needed)
    with pytest.raises(InputError):
        open_encoder(spec)
