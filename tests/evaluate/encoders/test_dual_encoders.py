"""Text towers of the encoders: real classes of every library, tiny, without a hub."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tiny_duals import picture, write_clip, write_open_clip, write_siglip

from heldout.errors import InputError
from heldout.overlap.images.encoder import open_encoder

pytest.importorskip("torch", reason="torch is not installed on this platform's suite")
pytest.importorskip("transformers")

TEXTS = ["a photo of the large red circle", "a small blue square .", "b c d e f g h"]


def hold_to_the_protocol(spec: str) -> None:
    encoder = open_encoder(spec)
    rows = encoder.encode_texts(TEXTS)
    assert rows.shape == (3, encoder.dimension)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    assert np.abs(rows[0] - rows[1]).max() > 1e-4  # it reads
    # A text's row does not depend on its neighbours in the batch.
    alone = np.concatenate([encoder.encode_texts([text]) for text in TEXTS])
    assert np.allclose(rows, alone, atol=1e-5)
    assert encoder.encode_texts([]).shape == (0, encoder.dimension)
    assert encoder.encode([picture(1)]).shape == (1, encoder.dimension)
    assert encoder.text_identity.startswith(encoder.identity)


def test_clip_reads_texts(tmp_path: Path) -> None:
    hold_to_the_protocol(write_clip(tmp_path / "clip"))


def test_siglip_reads_texts_filled_up_to_one_length(tmp_path: Path) -> None:
    spec = write_siglip(tmp_path / "siglip")
    hold_to_the_protocol(spec)
    encoder = open_encoder(spec)
    seen: list[tuple[int, ...]] = []
    model = encoder._model  # type: ignore[attr-defined]
    original = model.get_text_features

    def watched(**inputs: object) -> object:
        seen.append(tuple(inputs["input_ids"].shape))  # type: ignore[attr-defined]
        assert "attention_mask" not in inputs
        return original(**inputs)

    model.get_text_features = watched
    encoder.encode_texts(["red"])
    assert seen == [(1, 16)]


def test_open_clip_reads_texts(tmp_path: Path) -> None:
    pytest.importorskip("open_clip")
    hold_to_the_protocol(write_open_clip(tmp_path / "open"))


def test_texts_longer_than_the_tower_are_cut(tmp_path: Path) -> None:
    encoder = open_encoder(write_clip(tmp_path / "clip"))
    long = " ".join(["red"] * 100)
    assert np.allclose(
        encoder.encode_texts([long]), encoder.encode_texts([" ".join(["red"] * 14)]), atol=1e-5
    )


def test_the_tokenizer_is_part_of_what_reads(tmp_path: Path) -> None:
    import transformers as t

    spec = write_clip(tmp_path / "clip")
    before = open_encoder(spec).text_identity
    tokenizer = t.AutoTokenizer.from_pretrained(tmp_path / "clip")
    tokenizer.add_tokens(["hexagon"])
    tokenizer.save_pretrained(tmp_path / "clip")
    changed = open_encoder(spec)
    assert changed.text_identity != before
    assert before.startswith(changed.identity)  # the pictures' side is what it was


def test_an_encoder_without_a_text_tower_says_so() -> None:
    with pytest.raises(InputError, match="reads no texts.*CLIP, SigLIP"):
        open_encoder("pixels").encode_texts(["a"])


def test_a_checkpoint_without_a_tokenizer_says_so(tmp_path: Path) -> None:
    spec = write_clip(tmp_path / "clip")
    for path in (tmp_path / "clip").glob("tokenizer*"):
        path.unlink()
    encoder = open_encoder(spec)
    assert encoder.encode([picture(1)]).shape == (1, 12)  # pictures need none
    with pytest.raises(InputError, match="tokenizer cannot be"):
        encoder.encode_texts(["a"])
