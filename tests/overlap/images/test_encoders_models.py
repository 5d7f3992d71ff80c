"""Encoders with weights: the real classes of every library, at a tiny size, made on the spot."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heldout.errors import InputError
from heldout.overlap.images.encoder import Encoder, open_encoder, require_same

torch = pytest.importorskip("torch", reason="torch is not installed on this platform's suite")


def scene(seed: int, size: tuple[int, int] = (80, 50)) -> Image.Image:
    blocks = np.random.default_rng(seed).integers(0, 256, (5, 8, 3), dtype=np.uint8)
    return Image.fromarray(blocks).resize(size, Image.Resampling.BICUBIC)


def hold_to_the_protocol(encoder: Encoder) -> None:
    images = [scene(1), scene(2), scene(1).convert("L"), scene(3, (31, 90)).convert("RGBA")]
    rows = encoder.encode(images)
    assert rows.shape == (4, encoder.dimension)
    assert rows.dtype == np.float32
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-4)
    assert np.abs(rows[0] - rows[1]).max() > 1e-4  # it looks at the picture
    alone = np.concatenate([encoder.encode([image]) for image in images])
    assert np.allclose(rows, alone, atol=1e-4)


def _small(**more: int) -> dict[str, int]:
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    return {**sizes, "num_attention_heads": 2, "image_size": 32, "patch_size": 8, **more}


def write_clip(folder: Path) -> int:
    import transformers as t

    text = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 20}
    config = t.CLIPConfig(
        vision_config=_small(), text_config={**text, "num_attention_heads": 2}, projection_dim=12
    )
    t.CLIPModel(config).save_pretrained(folder)
    _save_processor(
        "CLIPImageProcessor", folder, {"shortest_edge": 32}, {"height": 32, "width": 32}
    )
    return 12


def write_siglip(folder: Path) -> int:
    import transformers as t

    text = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "vocab_size": 20}
    config = t.SiglipConfig(vision_config=_small(), text_config={**text, "num_attention_heads": 2})
    t.SiglipModel(config).save_pretrained(folder)
    _save_processor("SiglipImageProcessor", folder, {"height": 32, "width": 32})
    return 16


def write_dinov2(folder: Path) -> int:
    import transformers as t

    sizes = _small()
    del sizes["intermediate_size"]
    t.Dinov2Model(t.Dinov2Config(**sizes)).save_pretrained(folder)
    _save_processor("BitImageProcessor", folder, {"shortest_edge": 32}, {"height": 32, "width": 32})
    return 16


def write_resnet(folder: Path) -> int:
    import transformers as t

    config = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1])
    t.ResNetModel(config).save_pretrained(folder)
    _save_processor("ConvNextImageProcessor", folder, {"shortest_edge": 32})
    return 16


def _save_processor(
    name: str, folder: Path, size: dict[str, int], crop: dict[str, int] | None = None
) -> None:
    import transformers as t

    kind = getattr(t, f"{name}Pil", None) or getattr(t, name)
    kind(size=size, **({"crop_size": crop} if crop else {})).save_pretrained(folder)


FAMILIES: dict[str, Callable[[Path], int]] = {
    "clip": write_clip,
    "siglip": write_siglip,
    "dinov2": write_dinov2,
    "resnet": write_resnet,
}


@pytest.mark.parametrize("family", FAMILIES)
def test_transformers_towers(family, tmp_path):
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    width = FAMILIES[family](tmp_path / family)
    encoder = open_encoder(f"transformers:{tmp_path / family}")
    assert encoder.dimension == width
    assert str(tmp_path) not in encoder.identity
    hold_to_the_protocol(encoder)


def test_pictures_are_prepared_by_pillow_with_torchvision_there(tmp_path):
    t = pytest.importorskip("transformers")
    write_clip(tmp_path / "clip")
    image = scene(4, (97, 61))
    pillow = getattr(t, "CLIPImageProcessorPil", None) or t.CLIPImageProcessor
    expected = pillow.from_pretrained(tmp_path / "clip")(images=image, return_tensors="np")
    found = open_encoder(f"transformers:{tmp_path / 'clip'}").prepare(image)
    assert np.array_equal(found, expected["pixel_values"][0])


def test_identity_follows_weights_and_preprocessing(tmp_path):
    pytest.importorskip("transformers")
    torch.manual_seed(0)
    write_resnet(tmp_path / "a" / "model")
    torch.manual_seed(1)
    write_resnet(tmp_path / "b" / "model")
    first, second = (open_encoder(f"transformers:{tmp_path / x / 'model'}") for x in "ab")
    with pytest.raises(InputError, match="cannot be compared"):
        require_same(first.identity, second.identity)
    _save_processor("ConvNextImageProcessor", tmp_path / "a" / "model", {"shortest_edge": 48})
    assert open_encoder(f"transformers:{tmp_path / 'a' / 'model'}").identity != first.identity


def test_a_name_that_is_no_model_is_refused(tmp_path):
    pytest.importorskip("transformers")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InputError, match="transformers:"):
        open_encoder(f"transformers:{tmp_path}")


@pytest.fixture
def network() -> torch.nn.Module:
    torch.manual_seed(0)
    layers = [torch.nn.Conv2d(3, 6, 5, stride=4), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(2)]
    return torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(24, 10)).eval()


def test_torchscript_files(network, tmp_path):
    path = tmp_path / "copy_detector.pt"
    torch.jit.trace(network, torch.zeros(1, 3, 64, 64)).save(str(path))
    encoder = open_encoder(f"torchscript:{path}#trust=yes,size=64,resize=crop")
    assert encoder.dimension == 10
    hold_to_the_protocol(encoder)
    assert encoder.identity != open_encoder(f"torchscript:{path}#trust=yes,size=64").identity
    path.write_bytes(b"not a model")
    with pytest.raises(InputError, match="not a readable TorchScript"):
        open_encoder(f"torchscript:{path}#trust=yes")


class Writes(torch.nn.Module):
    def __init__(self, target: str) -> None:
        super().__init__()
        self.target = target

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return pictures.mean(dim=(2, 3))

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.target, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.target, self.training = state
        assert torch.from_file(self.target, shared=True, size=4).numel() == 4


@pytest.mark.parametrize("options", ["", "#size=64", "#trust=no"])
def test_a_torchscript_file_runs_only_where_it_is_trusted(tmp_path, options):
    made, path = tmp_path / "made", tmp_path / "writes.pt"
    torch.jit.script(Writes(str(made))).save(str(path))
    made.unlink(missing_ok=True)
    with pytest.raises(InputError, match="trust=yes"):
        open_encoder(f"torchscript:{path}{options}")
    assert not made.exists()
    open_encoder(f"torchscript:{path}#trust=yes")
    assert made.exists()


def write_onnx(path: Path, batch: int | str) -> None:
    from onnx import TensorProto, helper, numpy_helper, save

    kernel = np.random.default_rng(0).normal(size=(7, 3, 4, 4)).astype(np.float32)
    nodes = [
        helper.make_node("Conv", ["pictures", "kernel"], ["maps"], strides=[4, 4]),
        helper.make_node("Relu", ["maps"], ["vectors"]),
    ]
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info("pictures", TensorProto.FLOAT, [batch, 3, 32, 32])],
        [helper.make_tensor_value_info("vectors", TensorProto.FLOAT, [batch, 7, 8, 8])],
        [numpy_helper.from_array(kernel, "kernel")],
    )
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


@pytest.mark.parametrize("batch", ["n", 1])
def test_onnx_files_with_and_without_a_batch_axis(batch, tmp_path):
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnx")
    path = tmp_path / "tiny.onnx"
    write_onnx(path, batch)
    encoder = open_encoder(f"onnx:{path}")
    assert encoder.dimension == 7
    assert "32" in encoder.identity  # the size the model asks for
    hold_to_the_protocol(encoder)
    with pytest.raises(InputError, match="does not fit"):
        open_encoder(f"onnx:{path}#size=64")
    path.write_bytes(b"not a model")
    with pytest.raises(InputError, match="ONNX"):
        open_encoder(f"onnx:{path}")


def test_open_clip_models(tmp_path):
    open_clip = pytest.importorskip("open_clip")
    with pytest.raises(InputError, match="MODEL/TAG"):
        open_encoder("open_clip:tiny-test")

    config = {
        "embed_dim": 12,
        "vision_cfg": {
            "image_size": 32,
            "layers": 1,
            "width": 16,
            "head_width": 8,
            "patch_size": 8,
        },
        "text_cfg": {
            "context_length": 8,
            "vocab_size": 49408,
            "width": 16,
            "heads": 2,
            "layers": 1,
        },
    }
    (tmp_path / "tiny-test.json").write_text(json.dumps(config))
    open_clip.add_model_config(tmp_path)
    torch.manual_seed(0)
    weights = tmp_path / "weights.pt"
    torch.save(open_clip.create_model("tiny-test").state_dict(), weights)
    encoder = open_encoder(f"open_clip:tiny-test/{weights}")
    assert encoder.dimension == 12
    assert "32" in encoder.identity
    hold_to_the_protocol(encoder)
    assert encoder.identity == open_encoder(f"open_clip:tiny-test/{weights}").identity
