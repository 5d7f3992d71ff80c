"""On a machine without torchvision: models that need it say so, and what does not need it works.

One process for both: importing torch and transformers takes longer than all that is asked of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
t = pytest.importorskip("transformers")

from tiny_models import save  # noqa: E402

from heldout.overlap import open_encoder  # noqa: E402

WITHOUT = """
import importlib.abc, importlib.util, sys
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name == "torchvision" else real(name, *rest)

class Nowhere(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torchvision":
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)

sys.meta_path.insert(0, Nowhere())
from PIL import Image
from heldout.errors import HeldoutError
from heldout.model.local import LocalModel
from heldout.overlap import open_encoder
encoder = open_encoder(f"transformers:{sys.argv[1]}")
print(encoder.identity, encoder.encode([Image.new("RGB", (40, 30), (9, 99, 200))]).shape)
for folder in sys.argv[2:]:
    try:
        LocalModel.load(folder, device="cpu")
        print("loaded")
    except HeldoutError as error:
        print(type(error).__name__, str(error).replace(folder, "it"))
"""


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip") / "clip"
    shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    shape |= {"num_attention_heads": 2, "projection_dim": 12}
    torch.manual_seed(0)
    vision = {**shape, "image_size": 32, "patch_size": 16}
    config = t.CLIPConfig(text_config=shape, vision_config=vision, projection_dim=12)
    t.CLIPModel(config).save_pretrained(folder)
    kind = getattr(t, "CLIPImageProcessorPil", None) or t.CLIPImageProcessor
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    kind(**sizes).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def printed(clip: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    families = ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "internvl", "llava_onevision", "llava"]
    made = tmp_path_factory.mktemp("models")
    folders = [str(save(family, made / family)) for family in families]
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(clip), *folders],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_a_processor_with_a_video_part_names_the_package_it_lacks(printed: list[str]) -> None:
    refused = (
        "PrerequisiteError model it: needs torchvision, which is not installed. Install it with: "
        "pip install 'heldout[hf]'"
    )
    assert printed[1:] == [refused] * 5 + ["loaded"]


def test_an_encoder_works_and_is_the_same(printed: list[str], clip: Path) -> None:
    """With torchvision there, other code must not prepare the pictures."""
    here = open_encoder(f"transformers:{clip}").identity
    assert printed[0] == f"{here} (1, 12)"
