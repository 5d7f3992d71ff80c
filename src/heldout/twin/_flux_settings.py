"""What a drawing by FLUX depends on; the defaults are those of the paper that introduced twins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heldout.errors import InputError

MODEL = "black-forest-labs/FLUX.1-dev"
CONTROLNET = "XLabs-AI/flux-controlnet-canny-diffusers"
OFFLOADS = ("none", "model", "sequential")


@dataclass(frozen=True)
class FluxSettings:
    """``model`` and ``controlnet``: names on the hub, or folders in diffusers' layout.

    For the first ``true_cfg_from`` steps only the caption guides; from then on the picture is also guided away
    from ``negative_prompt``, by ``true_cfg``. Pictures of more than ``most_pixels`` are
    drawn smaller and enlarged: FLUX repeats itself beyond two megapixels.
    """

    model: str = MODEL
    controlnet: str = CONTROLNET
    revision: str | None = None
    controlnet_revision: str | None = None
    control_weight: float = 0.8
    steps: int = 25
    guidance: float = 4.0
    true_cfg: float = 3.5
    true_cfg_from: int = 5
    negative_prompt: str = ""
    caption_tokens: int = 512
    most_pixels: int = 2**21
    dtype: str = "auto"  # bfloat16 on a GPU, float32 elsewhere
    device: str = "auto"
    offload: str = "none"

    def __post_init__(self) -> None:
        for name, least in _LEAST.items():
            value: Any = getattr(self, name)
            kinds = int if isinstance(least, int) else (int, float)
            # Written so that NaN fails the check.
            if isinstance(value, bool) or not isinstance(value, kinds) or not value >= least:
                kind = "a whole number" if isinstance(least, int) else "a number"
                raise InputError(f"FLUX: {name} is {value!r}; expected {kind}, at least {least:g}")
        for name in ("model", "controlnet", "negative_prompt", "dtype", "device"):
            if not isinstance(getattr(self, name), str):
                raise InputError(f"FLUX: {name} is {getattr(self, name)!r}; expected text")
        if self.offload not in OFFLOADS:
            raise InputError(
                f"FLUX: offload is '{self.offload}'; expected one of {', '.join(OFFLOADS)}"
            )


_LEAST: dict[str, float] = {
    "steps": 1,
    "true_cfg_from": 0,
    "most_pixels": 256,
    "caption_tokens": 8,
    "control_weight": 0.0,
    "guidance": 0.0,
    "true_cfg": 1.0,
}


def drawing_size(width: int, height: int, multiple: int, most_pixels: int) -> tuple[int, int]:
    """The nearest size the pipeline can draw: sides are multiples, the area at most ``most_pixels``."""
    shrunk = min(1.0, (most_pixels / (width * height)) ** 0.5)
    sides = (max(1, round(side * shrunk / multiple)) * multiple for side in (width, height))
    wide, high = sides
    return wide, high
