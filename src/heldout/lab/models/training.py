"""Training on one device: pictures and tokens lie there whole, and every step is drawn from a seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from heldout.lab.models._reading import decoder_block, embed, head, look, read
from heldout.lab.models.planting import PlantedRows
from heldout.lab.models.pool import Pool

LANGUAGE = "model.language_model."


@dataclass(frozen=True)
class Schedule:
    """``warm`` steps up, then level, then ``fall`` steps straight down to a tenth."""

    steps: int
    rate: float
    batch: int = 512
    texts: int = 24
    warm: int = 100
    fall: int = 0

    def at(self, step: int) -> float:
        up = min(1.0, (step + 1) / max(self.warm, 1))
        left = self.steps - step
        down = 1.0 if left > self.fall else 0.1 + 0.9 * left / max(self.fall, 1)
        return self.rate * up * down


class Data:
    """Rows on the device. Planted rows stand behind the pool's, and their pictures behind its own."""

    def __init__(self, pool: Pool, device: str, spare: int = 0, spare_pictures: int = 0) -> None:
        self.device = device
        self.rows, self.texts, self.pictures = len(pool.ids), len(pool.text_ids), len(pool.pixels)
        self.pixels = _with_room(pool.pixels, spare_pictures, device)
        self.ids = _with_room(pool.ids, spare, device)
        self.learnt = _with_room(pool.learnt, spare, device)
        self.picture = _with_room(pool.picture, spare, device)
        self.text_ids = _with_room(pool.text_ids, spare, device)
        self.text_learnt = _with_room(pool.text_learnt, spare, device)

    def show(self, pixels: NDArray[np.uint8]) -> None:
        """Pictures of a benchmark, for planted rows to point at."""
        self._put(self.pixels, self.pictures, pixels)

    def plant(self, planted: PlantedRows) -> tuple[int, int]:
        """Rows of one arm in place of another's; how many stand under pictures and how many alone."""
        if planted.ids:
            self._put(self.ids, self.rows, np.stack(planted.ids))
            self._put(self.learnt, self.rows, np.stack(planted.learnt))
            self._put(self.picture, self.rows, np.asarray(planted.picture) + self.pictures)
        if planted.text:
            self._put(self.text_ids, self.texts, np.stack([ids for ids, _ in planted.text]))
            self._put(self.text_learnt, self.texts, np.stack([array for _, array in planted.text]))
        return len(planted.ids), len(planted.text)

    def _put(self, tensor: Any, start: int, values: NDArray[Any]) -> None:
        if start + len(values) > len(tensor):
            raise ValueError(f"{len(values)} rows do not fit into room for {len(tensor) - start}")
        tensor[start : start + len(values)] = torch.from_numpy(values).to(self.device, tensor.dtype)


def _with_room(values: NDArray[Any], spare: int, device: str) -> Any:
    tensor = torch.from_numpy(values)
    room = torch.zeros((len(values) + spare, *values.shape[1:]), dtype=tensor.dtype, device=device)
    room[: len(values)] = tensor.to(device)
    return room


def drawn_steps(
    data: Data, schedule: Schedule, planted: tuple[int, int], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Row numbers of every step. Every planted row stands exactly once, at a drawn place."""
    rng = np.random.default_rng((seed, 31))
    rows = rng.integers(0, data.rows, (schedule.steps, schedule.batch))
    texts = rng.integers(0, data.texts, (schedule.steps, schedule.texts))
    for table, count, start in ((rows, planted[0], data.rows), (texts, planted[1], data.texts)):
        if count > table.size:
            raise ValueError(f"{count} planted rows, and only {table.size} places in this schedule")
        places = rng.permutation(table.size)[:count]
        table.reshape(-1)[places] = start + np.arange(count)
    return rows, texts


def loss_of(
    model: Any,
    pixels: Any,
    ids: Any,
    learnt: Any,
    text_ids: Any,
    text_learnt: Any,
    block: Callable[..., Any] | None = None,
) -> Any:
    """Mean over learnt tokens of rows under pictures, and of texts at a fifth of the weight."""
    under = _token_loss(model, ids, learnt, look(model, pixels), block)
    return under + 0.2 * _token_loss(model, text_ids, text_learnt, None, block)


def _token_loss(
    model: Any, ids: Any, learnt: Any, seen: Any | None, block: Callable[..., Any] | None
) -> Any:
    hidden = read(model, embed(model, ids, seen), block)
    start = 0 if seen is None else seen.shape[1]
    logits = head(model, hidden[:, start : start + ids.shape[1] - 1])
    each = functional.cross_entropy(
        logits.flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="none"
    )
    weight = learnt[:, 1:].flatten().float()
    return (each * weight).sum() / weight.sum().clamp(min=1)


@dataclass
class Trainer:
    """One model that is trained many times: weights come and go, the compiled step stays."""

    model: Any
    data: Data
    compiled: bool = False
    graphed: bool = True
    layered: bool = False  # one compiled layer for all: a deep model takes minutes to compile whole

    def __post_init__(self) -> None:
        self._loss: Callable[..., Any] = loss_of
        if self.layered:
            self._loss = partial(loss_of, block=torch.compile(decoder_block, dynamic=False))
        elif self.compiled:
            self._loss = torch.compile(loss_of, dynamic=False)

    def train(
        self,
        schedule: Schedule,
        planted: tuple[int, int],
        seed: int,
        *,
        mode: str = "full",
        tell: Callable[[int, float], None] | None = None,
        every: int = 200,
    ) -> float:
        """The loss at the end, as a mean of the last steps. ``mode``: full, language, or lora."""
        rows, texts = drawn_steps(self.data, schedule, planted, seed)
        device = self.data.device
        rows_there, texts_there = (torch.from_numpy(array).to(device) for array in (rows, texts))
        rates = torch.tensor([schedule.at(step) for step in range(schedule.steps)], device=device)
        total = torch.zeros((), device=device)
        counted, last = 0, float("nan")
        with trainable(self.model, mode, seed) as weights:
            step_once = self._stepper(weights, schedule)
            for step in range(schedule.steps):
                total += step_once(rows_there[step], texts_there[step], rates[step])
                counted += 1
                if tell is not None and (step + 1) % every == 0:
                    last = float(total) / counted
                    tell(step + 1, last)
                    total.zero_()
                    counted = 0
        return float(total) / counted if counted else last

    def _stepper(self, weights: list[Any], schedule: Schedule) -> Callable[[Any, Any, Any], Any]:
        """One step of training as a function of rows, texts and rate, each a tensor on the device."""
        device = self.data.device
        cuda = device.startswith("cuda")
        rate = torch.tensor(schedule.rate, device=device)
        rows = torch.zeros(schedule.batch, dtype=torch.long, device=device)
        texts = torch.zeros(schedule.texts, dtype=torch.long, device=device)
        optimizer = torch.optim.AdamW(
            [
                {"params": [w for w in weights if w.ndim >= 2], "weight_decay": 0.05},
                {"params": [w for w in weights if w.ndim < 2], "weight_decay": 0.0},
            ],
            lr=rate,
            betas=(0.9, 0.98),
            fused=cuda,
            capturable=cuda,
        )

        def once() -> Any:
            with torch.autocast(device.split(":")[0], torch.bfloat16, enabled=cuda):
                loss = self._loss(self.model, *self._batch(rows, texts))
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(weights, 1.0, foreach=True)
            optimizer.step()
            return loss.detach()

        again = _captured(once, weights, optimizer) if cuda and self.graphed else once

        def step(next_rows: Any, next_texts: Any, next_rate: Any) -> Any:
            rows.copy_(next_rows)
            texts.copy_(next_texts)
            rate.copy_(next_rate)
            return again()

        return step

    def _batch(self, rows: Any, texts: Any) -> tuple[Any, ...]:
        data = self.data
        return (
            data.pixels[data.picture[rows]],
            data.ids[rows].long(),
            data.learnt[rows],
            data.text_ids[texts].long(),
            data.text_learnt[texts],
        )

    def weights(self) -> dict[str, Any]:
        return {name: value.detach().clone() for name, value in self.model.state_dict().items()}

    def load(self, weights: dict[str, Any]) -> None:
        """In place: a compiled step goes on with the same tensors."""
        with torch.no_grad():
            for name, value in self.model.state_dict().items():
                value.copy_(weights[name])


def _captured(once: Callable[[], Any], weights: list[Any], optimizer: Any) -> Callable[[], Any]:
    """The step as one CUDA graph: a small model's kernels take less time than launching them.

    What the trial steps did to weights and moments is undone, so that nothing was learnt from them."""
    before = [weight.detach().clone() for weight in weights]
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            once()
    torch.cuda.current_stream().wait_stream(aside)
    optimizer.zero_grad(set_to_none=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = once()
    with torch.no_grad():
        for weight, old in zip(weights, before, strict=True):
            weight.copy_(old)
        for moments in optimizer.state.values():
            for value in moments.values():
                value.zero_()

    def again() -> Any:
        graph.replay()
        return loss

    return again


class trainable:  # noqa: N801 - reads as a phrase: with trainable(model, "lora", seed) as weights
    """Weights that a mode trains. LoRA's low-rank additions are folded into the weights at the end."""

    def __init__(self, model: Any, mode: str, seed: int, rank: int = 8) -> None:
        self.model, self.mode, self.seed, self.rank = model, mode, seed, rank
        self._adapted: list[Any] = []

    def __enter__(self) -> list[Any]:
        for name, weight in self.model.named_parameters():
            wanted = self.mode == "full" or (self.mode == "language" and LANGUAGE in name)
            weight.requires_grad_(wanted)
        if self.mode == "lora":
            self._adapt()
        return [weight for weight in self.model.parameters() if weight.requires_grad]

    def _adapt(self) -> None:
        from torch.nn.utils import parametrize

        generator = torch.Generator().manual_seed(self.seed)
        for module in self._linear():
            parametrize.register_parametrization(
                module, "weight", _LowRank(module.weight, self.rank, generator)
            )
            module.parametrizations.weight.original.requires_grad_(False)
            self._adapted.append(module)

    def _linear(self) -> Iterator[Any]:
        for layer in self.model.model.language_model.layers:
            attention, mlp = layer.self_attn, layer.mlp
            yield from (attention.q_proj, attention.k_proj, attention.v_proj, attention.o_proj)
            yield from (mlp.gate_proj, mlp.up_proj, mlp.down_proj)

    def __exit__(self, *_: object) -> None:
        from torch.nn.utils import parametrize

        for module in self._adapted:
            parametrize.remove_parametrizations(module, "weight", leave_parametrized=True)
        for weight in self.model.parameters():
            weight.requires_grad_(True)


class _LowRank(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, weight: Any, rank: int, generator: torch.Generator) -> None:
        super().__init__()
        out, into = weight.shape
        down = torch.randn(rank, into, generator=generator) / into**0.5
        self.down = torch.nn.Parameter(down.to(weight.device))
        self.up = torch.nn.Parameter(torch.zeros(out, rank, device=weight.device))

    def forward(self, weight: Any) -> Any:
        return weight + 2.0 * (self.up @ self.down)


def clock(device: str) -> float:
    """Seconds, after what was asked of the device is done."""
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter()
