"""A folder of graphs that is broken, and a checkpoint that cannot become one: a sentence each."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import onnx
import torch
import transformers
from exported import by_torch, make, pictures, requests
from tiny_models import TEXT, save, tokenizer
from tiny_models import VISION as TOWER

from heldout.audit.init_file import look_around
from heldout.errors import InputError
from heldout.lab.models import onnx_export
from heldout.lab.models.onnx_export import export_onnx
from heldout.model.onnx import CARD, OnnxModel
from heldout.model.onnx.graphs import (
    CHAT_TEMPLATE,
    DECODER,
    PROJECTOR,
    TOKENIZER,
    VISION,
    Preparation,
    file_sha256,
)
from heldout.model.onnx.onnx_model import prepare
from heldout.model.request import Score
from heldout.model.settings import open_model


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make(tmp_path_factory.mktemp("onnx"))


@pytest.fixture
def copy(folders: tuple[Path, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(folders[1], tmp_path / "copy"))


def change(folder: Path, **keys: Any) -> None:
    card = json.loads((folder / CARD).read_text())
    (folder / CARD).write_text(json.dumps({**card, **keys}))


def rehash(folder: Path) -> None:
    """As somebody who exchanges a file on purpose."""
    files = json.loads((folder / CARD).read_text())["files"]
    change(folder, files={name: file_sha256(folder / name) for name in files})


def test_the_card_says_what_is_there(folders: tuple[Path, Path]) -> None:
    card = json.loads((folders[1] / CARD).read_text())
    weights = folders[0] / "model.safetensors"
    assert card["source"]["weights"] == {weights.name: file_sha256(weights)}
    assert set(card["files"]) == {VISION, PROJECTOR, DECODER, TOKENIZER, CHAT_TEMPLATE}
    assert card["places"] == 4 and card["stored"] == "float32"
    assert card["decoder"]["heads"] == 2 and card["decoder"]["context"] == 512
    assert 0 < card["largest_difference"] < 1e-4


@pytest.mark.parametrize("name", [VISION, PROJECTOR, DECODER, TOKENIZER, CHAT_TEMPLATE, CARD])
def test_a_missing_file_is_named(copy: Path, name: str) -> None:
    (copy / name).unlink()
    with pytest.raises(InputError, match=name):
        OnnxModel.load(copy)


@pytest.mark.parametrize("name", [VISION, DECODER, TOKENIZER, CHAT_TEMPLATE])
def test_a_file_that_was_cut_or_changed_is_named(copy: Path, name: str) -> None:
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=f"{name} .*{CARD}"):
        OnnxModel.load(copy)
    rehash(copy)
    if name != CHAT_TEMPLATE:
        with pytest.raises(InputError, match=f"{name}: not a"):
            OnnxModel.load(copy)


def test_graphs_of_another_model_are_refused(copy: Path) -> None:
    shutil.copy(copy / PROJECTOR, copy / VISION)
    rehash(copy)
    with pytest.raises(InputError, match=r"vision\.onnx: .*'pixel_values'"):
        OnnxModel.load(copy)


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("preparation", {"height": 56}, "vision.onnx.*expected sizes 3, 56, 28"),
        ("decoder", {"width": 64}, "projector.onnx.*expected sizes 64"),
        ("decoder", {"vocabulary": 9_000}, "decoder.onnx.*'logits'.*expected sizes 9000"),
        ("decoder", {"heads": 3}, "decoder.onnx.*'past.0.keys'.*expected sizes 3, 8"),
        ("decoder", {"layers": 3}, "decoder.onnx.*no input 'past.2.keys'"),
    ],
)
def test_shapes_must_be_those_of_the_card(
    copy: Path, part: str, value: dict[str, int], told: str
) -> None:
    card = json.loads((copy / CARD).read_text())
    change(copy, **{part: {**card[part], **value}})
    with pytest.raises(InputError, match=told):
        OnnxModel.load(copy)


def test_the_tokenizer_of_another_model_is_refused(copy: Path) -> None:
    other = tokenizer("<|im_start|>", "<|im_end|>", "<image>", bos="<s>")
    other.backend_tokenizer.save(str(copy / TOKENIZER))
    rehash(copy)
    with pytest.raises(InputError, match="tokenizer .*another model"):
        OnnxModel.load(copy)
    change(copy, image_token="<picture>")
    with pytest.raises(InputError, match="'<picture>'.* None"):
        OnnxModel.load(copy)


def test_a_card_that_cannot_be_read_is_told(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        OnnxModel.load(tmp_path / "nowhere")
    change(copy, places=0)
    with pytest.raises(InputError, match="places: .*export"):
        OnnxModel.load(copy)
    change(copy, format=2)
    with pytest.raises(InputError, match=r"\bformat 2\b.*\b1\b"):
        OnnxModel.load(copy)
    (copy / CARD).write_text("{")
    with pytest.raises(InputError, match="is not JSON"):
        OnnxModel.load(copy)


def test_what_does_not_fit_the_backend_is_refused(folders: tuple[Path, Path]) -> None:
    name = f"onnx:{folders[1]}"
    for how, told in (
        ({"dtype": "bfloat16"}, "calculate in float32"),
        ({"device": "nonsense"}, "device nonsense: .*cpu, cuda"),
        ({"device": "cuda:7"}, "device cuda:7"),
        ({"revision": "main"}, "revision main"),
    ):
        with pytest.raises(InputError, match=told):
            open_model(name, **how)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="onnx:"):
        open_model(str(folders[1]))


def test_audit_init_finds_the_folder(copy: Path) -> None:
    assert look_around(copy.parent).models == {"copy": "onnx:copy"}


@pytest.mark.parametrize(("dtype", "stored"), [("float16", "float16"), ("bfloat16", "bfloat16")])
def test_weights_are_stored_as_narrow_as_they_are_exact(
    tmp_path: Path, picture: Callable[..., bytes], dtype: str, stored: str
) -> None:
    checkpoint = save("llava", tmp_path / "tiny")
    model = transformers.LlavaForConditionalGeneration.from_pretrained(checkpoint)
    model.to(getattr(torch, dtype)).save_pretrained(checkpoint)
    card = export_onnx(str(checkpoint), tmp_path / "narrow")
    assert card.stored == stored
    kinds = {one.data_type for one in onnx.load(tmp_path / "narrow" / VISION).graph.initializer}
    assert getattr(onnx.TensorProto, stored.upper()) in kinds
    asked = requests(pictures(picture))[:6]
    expected = {one.id: one for one in by_torch(checkpoint).score(asked)}
    for ours in OnnxModel.load(tmp_path / "narrow", device="cpu").score(asked):
        theirs = expected[ours.id]
        assert isinstance(ours, Score) and isinstance(theirs, Score)
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)


def _siglip_and_qwen(tok: Any) -> tuple[Any, Any]:
    """Every patch of a tower without a class token, and a decoder with biases, tied to its head."""
    text = transformers.Qwen2Config(**TEXT, vocab_size=len(tok), tie_word_embeddings=True)
    vision = transformers.SiglipVisionConfig(**TOWER, vision_use_head=False)
    config = transformers.LlavaConfig(
        text_config=text,
        vision_config=vision,
        vision_feature_select_strategy="full",
        image_token_index=tok.convert_tokens_to_ids("<image>"),
        tie_word_embeddings=True,
    )
    images = transformers.SiglipImageProcessor(size={"height": 28, "width": 28})
    how = {"vision_feature_select_strategy": "full", "num_additional_image_tokens": 0}
    return config, transformers.LlavaProcessor(images, tok, patch_size=14, **how)


def _layers_and_mistral(tok: Any) -> tuple[Any, Any]:
    """Two layers of the tower side by side."""
    text = transformers.MistralConfig(**TEXT, vocab_size=len(tok), head_dim=8, sliding_window=None)
    vision = transformers.CLIPVisionConfig(**TOWER, projection_dim=32)
    config = transformers.LlavaConfig(
        text_config=text,
        vision_config=vision,
        vision_feature_layer=[-2, -1],
        image_token_index=tok.convert_tokens_to_ids("<image>"),
    )
    images = transformers.CLIPImageProcessor(
        size={"shortest_edge": 30}, crop_size={"height": 28, "width": 28}
    )
    how = {"vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return config, transformers.LlavaProcessor(images, tok, patch_size=14, **how)


@pytest.mark.parametrize("made", [_siglip_and_qwen, _layers_and_mistral])
def test_other_towers_and_decoders_are_exported(
    tmp_path: Path, picture: Callable[..., bytes], made: Callable[[Any], tuple[Any, Any]]
) -> None:
    torch.manual_seed(0)
    config, processor = made(tokenizer("<image>", bos="<s>"))
    transformers.LlavaForConditionalGeneration(config).save_pretrained(tmp_path / "tiny")
    processor.save_pretrained(tmp_path / "tiny")
    card = export_onnx(str(tmp_path / "tiny"), tmp_path / "out")
    assert card.largest_difference < 1e-4 and CHAT_TEMPLATE not in card.files
    asked = requests(pictures(picture))
    expected = {one.id: one for one in by_torch(tmp_path / "tiny").score(asked)}
    for ours in OnnxModel.load(tmp_path / "out", device="cpu").score(asked):
        theirs = expected[ours.id]
        if isinstance(theirs, Score):
            assert isinstance(ours, Score)
            assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
        else:
            assert ours == theirs


def test_a_checkpoint_that_cannot_be_exported_gets_a_sentence(
    folders: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    qwen = save("qwen2_5_vl", tmp_path / "qwen")
    with pytest.raises(InputError, match="LLaVA-style models.*'qwen2_5_vl'"):
        export_onnx(str(qwen), tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("no")
    with pytest.raises(InputError, match="holds other things"):
        export_onnx(str(folders[0]), tmp_path / "full")
    monkeypatch.setattr(onnx_export, "TOLERANCE", 1e-12)
    with pytest.raises(InputError, match="graphs .*log-probabilities"):
        export_onnx(str(folders[0]), tmp_path / "out")
    monkeypatch.setattr(onnx_export, "_LARGEST", 10_000)
    with pytest.raises(InputError, match="ONNX file .*2 GiB"):
        export_onnx(str(folders[0]), tmp_path / "out")
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ({"model_type": "mistral", "sliding_window": 16}, "within a window"),
        (
            {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
            "'dynamic'",
        ),
    ],
)
def test_a_decoder_that_a_graph_cannot_follow_gets_a_sentence(
    folders: tuple[Path, Path], tmp_path: Path, keys: dict[str, Any], told: str
) -> None:
    checkpoint = Path(shutil.copytree(folders[0], tmp_path / "changed"))
    config = json.loads((checkpoint / "config.json").read_text())
    config["text_config"] |= keys
    (checkpoint / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=told):
        export_onnx(str(checkpoint), tmp_path / "out")


@pytest.mark.parametrize("edge", [None, 20, 28, 40])
def test_pictures_are_prepared_as_transformers_prepares_them(edge: int | None) -> None:
    size = {"height": 28, "width": 30} if edge is None else {"shortest_edge": edge}
    theirs = transformers.CLIPImageProcessorPil(
        size=size, do_center_crop=edge is not None, crop_size={"height": 28, "width": 30}
    )
    how = Preparation(
        height=28,
        width=30,
        shortest_edge=edge,
        rescale_factor=1 / 255,
        mean=theirs.image_mean,
        std=theirs.image_std,
    )
    rng = np.random.default_rng(0)
    for width, height in ((60, 44), (44, 61), (28, 28), (7, 100), (101, 20)):
        shown = Image.fromarray(rng.integers(0, 256, (height, width, 3), dtype=np.uint8))
        expected = theirs(images=[shown], return_tensors="np")["pixel_values"][0]
        assert prepare(shown, how) == pytest.approx(expected, abs=1e-6)
