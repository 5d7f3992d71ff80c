"""A small copy encoder of our own, trained on drawn pictures alone: is it worth having?

    python bench/copy_encoder.py --out FILE.pt [--pictures 60000] [--seconds 300]    # on a GPU

Trains 1.6 million weights (6.4 MB) as SSCD was trained (Pizzi et al. 2022): two views of a picture belong
together, all others of a batch do not (InfoNCE), and a term spreads the descriptors (KoLeo). A view is a crop of
10 to 100 % of the area, turned, in another tone, of fewer pixels, stored as JPEG, under a mark, or a panel among
others. Written is a TorchScript model that `heldout overlap --encoder torchscript:FILE` reads;
`bench/picture_encoders.py` compares it with the default encoder.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import time
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from torch import nn
from torch.nn import functional

DRAWN, SEEN = 256, 160  # pixels a side: of a drawn picture, of what the network sees
TEMPERATURE, SPREAD = 0.05, 0.5  # of InfoNCE; weight of KoLeo
STATISTICS = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))  # what heldout prepares pictures with


def _noise(draw: np.random.Generator, power: float) -> np.ndarray[Any, Any]:
    """Clouds: noise whose spectrum falls with frequency."""
    across = np.fft.rfftfreq(DRAWN)[None]
    down = np.fft.fftfreq(DRAWN)[:, None]
    fall = np.maximum(np.hypot(across, down), 1 / DRAWN) ** -power
    phase = np.exp(2j * np.pi * draw.random((DRAWN, DRAWN // 2 + 1)))
    clouds = np.fft.irfft2(fall * phase, (DRAWN, DRAWN))
    scaled: np.ndarray[Any, Any] = (clouds - clouds.min()) / max(np.ptp(clouds), 1e-9) * 255
    return scaled.astype(np.float32)


def _leaves(draw: np.random.Generator) -> np.ndarray[Any, Any]:
    """Things that hide each other, of all sizes."""
    picture = np.full((DRAWN, DRAWN, 3), draw.integers(0, 256, 3), np.uint8)
    for _ in range(int(draw.integers(20, 250))):
        size = int(min(120, 3 / draw.random() ** 0.8))
        centre = tuple(int(v) for v in draw.integers(0, DRAWN, 2))
        colour = tuple(int(v) for v in draw.integers(0, 256, 3))
        if draw.random() < 0.5:
            axes = (size, max(1, int(size * draw.uniform(0.3, 1))))
            cv2.ellipse(
                picture, centre, axes, draw.uniform(0, 180), 0, 360, colour, -1, cv2.LINE_AA
            )
        else:
            corners = np.array(centre) + draw.normal(0, size, (int(draw.integers(3, 7)), 2))
            cv2.fillPoly(picture, [corners.astype(np.int32)], colour, cv2.LINE_AA)
    return picture.astype(np.float32)


def _film(draw: np.random.Generator) -> np.ndarray[Any, Any]:
    """Soft bodies with ribs and grain on black, as a film or a slice."""
    grey = np.zeros((DRAWN, DRAWN), np.float32)
    for _ in range(int(draw.integers(4, 14))):
        body = np.zeros_like(grey)
        centre = tuple(int(v) for v in draw.integers(40, DRAWN - 40, 2))
        axes = tuple(int(v) for v in draw.integers(12, 100, 2))
        cv2.ellipse(
            body, centre, axes, draw.uniform(0, 180), 0, 360, float(draw.uniform(-60, 110)), -1
        )
        grey += cv2.GaussianBlur(body, (0, 0), float(draw.uniform(1, 9)))
    for _ in range(int(draw.integers(0, 16))):
        rib = np.zeros_like(grey)
        points = draw.integers(0, DRAWN, (4, 2))
        cv2.polylines(rib, [points], False, float(draw.uniform(20, 70)), int(draw.integers(1, 9)))
        grey += cv2.GaussianBlur(rib, (0, 0), float(draw.uniform(0.8, 3)))
    grey += (_noise(draw, draw.uniform(0.6, 1.6)) - 128) * draw.uniform(0.1, 0.7)
    return np.repeat(np.clip(grey, 0, 255)[..., None], 3, axis=2)


def _page(draw: np.random.Generator) -> np.ndarray[Any, Any]:
    """Lines, bars and words on a light ground."""
    ground = int(draw.integers(200, 256))
    page = np.full((DRAWN, DRAWN, 3), ground, np.uint8)
    for _ in range(int(draw.integers(3, 30))):
        first, second = (tuple(int(v) for v in draw.integers(0, DRAWN, 2)) for _ in range(2))
        colour = tuple(int(v) for v in draw.integers(0, 220, 3))
        kind = draw.integers(4)
        if kind == 0:
            cv2.rectangle(
                page, first, (first[0] + second[0] // 4, first[1] + second[1] // 2), colour, -1
            )
        elif kind == 1:
            cv2.line(page, first, second, colour, int(draw.integers(1, 4)), cv2.LINE_AA)
        else:
            _write(page, draw, first, colour)
    return page.astype(np.float32)


def _write(
    page: np.ndarray[Any, Any], draw: np.random.Generator, at: tuple[int, ...], colour: Any
) -> None:
    letters = "".join(chr(v) for v in draw.integers(48, 123, int(draw.integers(3, 16))))
    size = float(draw.uniform(0.3, 1.4))
    cv2.putText(page, letters, at, int(draw.integers(4)), size, colour, int(draw.integers(1, 3)))


def drawn(seed: int) -> np.ndarray[Any, Any]:
    draw = np.random.default_rng(seed)
    cv2.setNumThreads(1)
    kinds = (_leaves, _film, _page)
    picture = kinds[int(draw.choice(3, p=(0.35, 0.45, 0.2)))](draw)
    if draw.random() < 0.3:  # of two pictures, the one here and the other there
        other = kinds[int(draw.integers(3))](draw)
        where = (_noise(draw, 1.6) > draw.uniform(90, 170))[..., None]
        picture = np.where(where, other, picture)
    if draw.random() < 0.5:
        picture = picture + (_noise(draw, draw.uniform(0.5, 1.5))[..., None] - 128) * draw.uniform(
            0, 0.6
        )
    if draw.random() < 0.4:
        picture = np.repeat(picture.mean(axis=2, keepdims=True), 3, axis=2)
    levels: np.ndarray[Any, Any] = np.clip(picture, 0, 255).astype(np.uint8)
    return levels.transpose(2, 0, 1)


def mark(seed: int) -> np.ndarray[Any, Any]:
    """Where a watermark, a caption or an arrow lies."""
    draw = np.random.default_rng([seed, 1])
    page = np.zeros((SEEN, SEEN), np.uint8)
    for _ in range(int(draw.integers(1, 6))):
        at = tuple(int(v) for v in draw.integers(-20, SEEN, 2))
        _write(page, draw, at, 255)
    if draw.random() < 0.3:
        first, second = (tuple(int(v) for v in draw.integers(0, SEEN, 2)) for _ in range(2))
        cv2.arrowedLine(page, first, second, 255, int(draw.integers(1, 4)))
    return page


def _uniform(count: int, low: float, high: float, device: Any) -> torch.Tensor:
    return low + (high - low) * torch.rand(count, device=device)


def _some(share: float, count: int, device: Any) -> torch.Tensor:
    return (torch.rand(count, device=device) < share)[:, None, None, None]


def viewed(pictures: torch.Tensor, marks: torch.Tensor) -> torch.Tensor:
    """One view of each picture (n, 3, DRAWN, DRAWN), 0 to 1, as (n, 3, SEEN, SEEN)."""
    count, device = len(pictures), pictures.device
    area = torch.exp(_uniform(count, math.log(0.1), 0, device)).clamp(max=1)
    area = torch.where(torch.rand(count, device=device) < 0.3, torch.ones_like(area), area)
    ratio = torch.exp(_uniform(count, -0.3, 0.3, device))
    width, height = (area * ratio).sqrt().clamp(max=1), (area / ratio).sqrt().clamp(max=1)
    centre = [_uniform(count, -1, 1, device) * (1 - side) for side in (width, height)]
    angle = _uniform(count, -0.15, 0.15, device) * (torch.rand(count, device=device) < 0.3)
    angle = angle + (math.pi / 2) * torch.randint(4, (count,), device=device) * (
        torch.rand(count, device=device) < 0.3
    )
    flip = torch.where(torch.rand(count, device=device) < 0.3, -1.0, 1.0)
    cos, sin = angle.cos(), angle.sin()
    rows = (
        torch.stack((width * cos * flip, -width * sin, centre[0]), 1),
        torch.stack((height * sin * flip, height * cos, centre[1]), 1),
    )
    grid = functional.affine_grid(torch.stack(rows, 1), [count, 3, SEEN, SEEN], align_corners=False)
    seen = functional.grid_sample(pictures, grid, padding_mode="border", align_corners=False)
    for side in (32, 48, 80, 112):  # of fewer pixels
        small = functional.interpolate(
            functional.interpolate(seen, (side, side), mode="area"), (SEEN, SEEN), mode="bilinear"
        )
        seen = torch.where(_some(0.1, count, device), small, seen)
    tone = _uniform(count, 0.6, 1.6, device)[:, None, None, None]
    seen = torch.where(_some(0.5, count, device), seen.clamp(1e-4, 1) ** tone, seen)
    contrast = _uniform(count, 0.6, 1.5, device)[:, None, None, None]
    lift = _uniform(count, -0.15, 0.15, device)[:, None, None, None]
    seen = torch.where(_some(0.5, count, device), (seen - 0.5) * contrast + 0.5 + lift, seen)
    shade = 1 + 0.3 * torch.randn(count, 3, 1, 1, device=device)
    seen = torch.where(_some(0.3, count, device), seen * shade, seen).clamp(0, 1)
    seen = torch.where(_some(0.3, count, device), seen.mean(1, keepdim=True).expand_as(seen), seen)
    seen = torch.where(_some(0.05, count, device), 1 - seen, seen)
    seen = torch.where(_some(0.3, count, device), _stored(seen), seen)
    noise = seen + 0.04 * torch.randn_like(seen)
    seen = torch.where(_some(0.2, count, device), noise, seen)
    over = marks[torch.randint(len(marks), (count,), device=device)].float()[:, None] / 255
    strength = over * _uniform(count, 0.25, 1, device)[:, None, None, None]
    ink = torch.rand(count, 3, 1, 1, device=device)
    seen = torch.where(_some(0.3, count, device), seen * (1 - strength) + ink * strength, seen)
    return _beside_others(seen).clamp(0, 1)


def _stored(pictures: torch.Tensor) -> torch.Tensor:
    """Compressed as JPEG does it: blocks of 8 pixels, fine detail rounded more coarsely."""
    count, channels, side, _ = pictures.shape
    k = torch.arange(8, device=pictures.device, dtype=torch.float32)
    base = torch.cos((2 * k[None] + 1) * k[:, None] * math.pi / 16) / 2
    base[0] /= math.sqrt(2)
    blocks = pictures.reshape(count, channels, side // 8, 8, side // 8, 8).transpose(3, 4)
    step = (0.02 + 0.02 * (k[None] + k[:, None])) * _uniform(count, 0.5, 3, pictures.device)[
        :, None, None, None, None, None
    ]
    rounded = torch.round(base @ blocks @ base.T / step) * step
    return (base.T @ rounded @ base).transpose(3, 4).reshape(pictures.shape)


def _beside_others(pictures: torch.Tensor, share: float = 0.2) -> torch.Tensor:
    """Some of them as the larger panel of a figure with another picture and a gutter."""
    count = len(pictures)
    chosen = torch.randperm(count, device=pictures.device)[: int(share * count)]
    if not len(chosen):
        return pictures
    figures = pictures.clone()
    panel = int(SEEN * float(torch.empty(1).uniform_(0.55, 0.75)))
    ground = (torch.rand(len(chosen), 1, 1, 1, device=pictures.device) > 0.5).float()
    page = ground.expand(-1, 3, SEEN, SEEN).clone()
    small = functional.interpolate(
        pictures[chosen], (panel, panel), mode="bilinear", antialias=True
    )
    rest = SEEN - panel - 4
    others = functional.interpolate(
        pictures[chosen.flip(0)], (panel, rest), mode="bilinear", antialias=True
    )
    page[:, :, :panel, :panel] = small
    page[:, :, :panel, panel + 4 :] = others
    figures[chosen] = page
    return figures


class _Block(nn.Module):  # type: ignore[misc]
    """Inverted residual (MobileNetV2)."""

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        inner = 4 * before
        self.layers = nn.Sequential(
            nn.Conv2d(before, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.SiLU(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False),
            nn.BatchNorm2d(inner),
            nn.SiLU(),
            nn.Conv2d(inner, after, 1, bias=False),
            nn.BatchNorm2d(after),
        )
        self.same = stride == 1 and before == after

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return x + y if self.same else y


class CopyEncoder(nn.Module):  # type: ignore[misc]
    def __init__(self, dimension: int = 256) -> None:
        super().__init__()
        widths = [(32, 64, 2), (64, 64, 1), (64, 112, 2), (112, 112, 1), (112, 112, 1)]
        widths += [(112, 192, 2), (192, 192, 1), (192, 192, 1), (192, 192, 1)]
        self.stem = nn.Sequential(
            nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.SiLU()
        )
        self.body = nn.Sequential(*(_Block(*width) for width in widths), nn.Conv2d(192, 512, 1))
        self.head = nn.Linear(512, dimension)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        features = self.body(self.stem(pictures)).float()
        pooled = features.clamp(min=1e-6).pow(3).mean(dim=(2, 3)).pow(1 / 3)  # GeM, as SSCD
        return functional.normalize(self.head(pooled), dim=1)


def loss_of(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """InfoNCE with KoLeo, and how often the other view is the nearest; ``rows``: all first views, then all second."""
    count = len(rows) // 2
    alike = rows @ rows.T
    alike.fill_diagonal_(-2.0)
    other = torch.arange(2 * count, device=rows.device).roll(count)
    nearest = alike.clone()
    nearest[torch.arange(2 * count, device=rows.device), other] = -2.0
    spread = -(2 - 2 * nearest.max(dim=1).values).clamp(min=1e-6).log().mean() / 2
    right = (alike.argmax(dim=1) == other).float().mean()
    return functional.cross_entropy(alike / TEMPERATURE, other) + SPREAD * spread, right


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pictures", type=int, default=60_000)
    parser.add_argument("--seconds", type=float, default=300, help="of training")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--rate", type=float, default=2e-3)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    start = time.monotonic()
    with multiprocessing.Pool() as pool:
        bank = torch.from_numpy(np.stack(pool.map(drawn, range(options.pictures), chunksize=64)))
        marks = torch.from_numpy(np.stack(pool.map(mark, range(2000), chunksize=64)))
    bank, marks = bank.to(device), marks.to(device)
    print(f"{len(bank):,} pictures drawn in {time.monotonic() - start:.0f} s", flush=True)
    torch.manual_seed(0)
    network = CopyEncoder().to(device, memory_format=torch.channels_last)
    weights = sum(weight.numel() for weight in network.parameters())
    print(f"{weights:,} weights, {4 * weights / 1e6:.1f} MB", flush=True)
    optimiser = torch.optim.AdamW(network.parameters(), lr=options.rate, weight_decay=0.05)
    mean, deviation = (torch.tensor(part, device=device)[:, None, None] for part in STATISTICS)
    start, step, seen = time.monotonic(), 0, 0.0
    while seen < 1:
        seen = (time.monotonic() - start) / options.seconds
        rate = options.rate * min(1, step / 100) * 0.5 * (1 + math.cos(math.pi * min(1, seen)))
        for group in optimiser.param_groups:
            group["lr"] = rate
        chosen = torch.randint(len(bank), (options.batch,), device=device)
        pictures = bank[chosen].float() / 255
        both = torch.cat([(viewed(pictures, marks) - mean) / deviation for _ in range(2)])
        with torch.autocast(device.type, torch.bfloat16):
            rows = network(both.contiguous(memory_format=torch.channels_last))
        loss, right = loss_of(rows.float())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimiser.step()
        if step % 100 == 0:
            print(
                f"step {step}: loss {loss.item():.3f}, other view nearest {right.item():.3f}",
                flush=True,
            )
        step += 1
    network = network.eval().float().cpu().to(memory_format=torch.contiguous_format)
    traced = torch.jit.trace(network, torch.zeros(1, 3, SEEN, SEEN))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    traced.save(str(options.out))
    print(f"{step} steps of {options.batch} pictures; {options.out}")


if __name__ == "__main__":
    main()
