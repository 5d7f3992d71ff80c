"""The grid: bases trained once, arms branched from them, every one read right after its training."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from heldout.lab.models._reading import SheetReading, read_sheet
from heldout.lab.models.planting import Arm, Base, PlantedRows, ReleasedPicture, plant
from heldout.lab.models.pool import Lengths, Pool, joined, paint
from heldout.lab.models.sheet import Sheet
from heldout.lab.models.training import Data, Schedule, Trainer, clock
from heldout.lab.models.vlm import SIZES, Size, new_model
from heldout.lab.models.worlds import LabItem, RowPacker

if TYPE_CHECKING:  # where models are trained nothing but torch, transformers and NumPy is needed
    from heldout.lab.settings import GridSettings


SPARE = 60_000  # planted rows that an arm may have


@dataclass(frozen=True)
class GridRecipe:
    """Steps and rates. ``level``: a base at constant rate; ``fall``: the decay after it, with or without
    planted rows; ``tuned``: arms of the stage "finetune"."""

    size: Size
    lengths: Lengths
    level: Schedule
    fall: Schedule
    tuned: Schedule
    pictures: int = 30_000
    clean_steps: int = 168  # as long as an arm that saw a release of 96 pictures ten times
    lora_rate: float = 3e-3
    real_share: float = 0.3
    half: bool = False  # whether models are read with products of matrices in bfloat16
    layered: bool = False  # whether one layer is compiled for all, instead of the whole step
    #: whether arms of the stage "pretrain" are trained from the start like their base, instead of its decay alone
    whole: bool = False


def standing_recipe(
    size: Size,
    *,
    level: int = 4000,
    fall: int = 700,
    rate: float = 2e-3,
    batch: int = 512,
    pictures: int = 30_000,
) -> GridRecipe:
    """The published grid's; toy sizes give fewer steps and smaller batches."""
    texts = max(2, batch // 21)
    return GridRecipe(
        size,
        Lengths(),
        Schedule(level, rate, batch=batch, texts=texts, warm=min(300, level)),
        Schedule(fall, rate, batch=batch, texts=texts, warm=1, fall=fall),
        Schedule(0, 5e-4, batch=min(32, batch), texts=min(8, texts), warm=10, fall=20),
        pictures,
    )


def recipe_of(settings: GridSettings) -> GridRecipe:
    """The recipe of a grid of other sizes and lengths, in the proportions of the published one."""
    return standing_recipe(
        SIZES[settings.size],
        level=settings.steps,
        fall=max(1, 2 * settings.steps // 13),
        batch=settings.batch,
        pictures=settings.pictures,
    )


@dataclass
class PreparedGrid:
    """What was prepared where the product is installed: tokenizer, sheets and pools of real data."""

    folder: Path

    def __post_init__(self) -> None:
        from transformers import PreTrainedTokenizerFast

        self.tokenizer_file = str(self.folder / "tokenizer.json")
        self.tokenizer = PreTrainedTokenizerFast(
            tokenizer_file=self.tokenizer_file,
            pad_token="<pad>",
            bos_token="<s>",
            eos_token="</s>",
            extra_special_tokens={"image_token": "<image>"},
            clean_up_tokenization_spaces=False,
        )
        self._sheets: dict[str, Sheet] = {}

    def sheet(self, name: str) -> Sheet:
        if name not in self._sheets:
            self._sheets[name] = Sheet.load(self.folder, name)
        return self._sheets[name]

    def released(self, name: str) -> list[ReleasedPicture]:
        return [
            ReleasedPicture(
                page["picture"],
                tuple(LabItem(q, a, tuple(o)) for q, a, o in page["items"]),
                tuple(page["paraphrases"]),
                tuple(LabItem(q, a, tuple(o)) for q, a, o in page["other"]),
            )
            for page in self.sheet(name).released
        ]

    def has_real(self, name: str) -> bool:
        return (self.folder / f"{name}-pool.npz").exists()

    def real(self, name: str) -> Pool:
        with np.load(self.folder / f"{name}-pool.npz") as arrays:
            return Pool(**{field: arrays[field] for field in arrays.files})


@dataclass
class Grid:
    """Trains bases and arms and reads them; what lies in ``state`` is not made again."""

    prepared: PreparedGrid
    recipe: GridRecipe
    state: Path
    device: str
    compiled: bool
    #: by arm, or by base for all its arms; bases read every sheet but those of real data they do not know
    reads: dict[str, tuple[str, ...]]
    tell: Callable[[str], None]
    keeps: frozenset[str] = frozenset()  # models whose weights stay in ``state``
    log: list[dict[str, Any]] = field(default_factory=list)
    build: Callable[[int], Any] | None = None  # of a seed, a model of other parts

    def __post_init__(self) -> None:
        (self.state / "readings").mkdir(parents=True, exist_ok=True)
        self.model = self._new(0).to(self.device)
        lengths, tokenizer = self.recipe.lengths, self.prepared.tokenizer
        self._rows = RowPacker(tokenizer, lengths.pictured), RowPacker(tokenizer, lengths.text)
        self._trainers: dict[tuple[str, ...], tuple[Trainer, Trainer]] = {}
        self._pools: dict[str, Pool] = {}
        self._loss: Any = None

    def run(self, bases: Iterable[Base], arms: Iterable[Arm], *, until: float) -> bool:
        """Every base with its arms; False where the clock (``until``, in seconds of it) stopped it."""
        arms = list(arms)
        for base in bases:
            open_arms = [arm for arm in arms if arm.base == base.name and not self.done(arm.name)]
            if self.done(base.name) and not open_arms:
                continue
            if clock(self.device) > until:
                return False
            self.base(base)
            for arm in open_arms:
                if clock(self.device) > until:
                    return False
                self.arm(base, arm)
        return True

    def base(self, base: Base) -> None:
        trunk, final = (self.state / f"{base.name}.{part}.pt" for part in ("trunk", "final"))
        large, _ = self._trainer(base)
        started = clock(self.device)
        if not trunk.exists():
            fresh = self._new(base.seed)
            large.load(fresh.to(self.device).state_dict())
            self._train(large, base.name, self.recipe.level, (0, 0), (base.seed, 1), "full")
            torch.save(large.weights(), trunk)
        if not final.exists():
            large.load(torch.load(trunk, map_location=self.device))
            self._train(large, base.name, self.recipe.fall, (0, 0), (base.seed, 2), "full")
            torch.save(large.weights(), final)
        if not self.done(base.name):
            large.load(torch.load(final, map_location=self.device))
            self._read(base, base.name, {"base": asdict(base)}, started)

    def arm(self, base: Base, arm: Arm) -> None:
        plan, recipe = arm.contamination, self.recipe
        large, small = self._trainer(base)
        started = clock(self.device)
        sheet = self.prepared.sheet(plan.benchmark)
        large.data.show(sheet.pixels)
        released = self.prepared.released(plan.benchmark)
        rows = plant(released, plan, *self._rows, arm.seed) if plan.dose else PlantedRows()
        planted = large.data.plant(rows)
        if plan.stage == "pretrain":
            trainer, schedule, start = large, recipe.fall, "trunk"
            if recipe.whole:
                schedule, start = self._whole(planted), ""
        else:
            trainer, schedule, start = small, self._tuned(planted, plan.dilution), "final"
            if plan.mode == "lora":
                schedule = replace(schedule, rate=recipe.lora_rate)
        if start:
            path = self.state / f"{base.name}.{start}.pt"
            trainer.load(torch.load(path, map_location=self.device))
        else:
            trainer.load(self._new(base.seed).to(self.device).state_dict())
        loss = self._train(trainer, arm.name, schedule, planted, (arm.seed, 3), plan.mode)
        record = {
            **arm.as_json(),
            "steps": schedule.steps,
            "planted_rows": planted,
            "loss": loss,
            "leaked": [released[place].picture for place in rows.leaked],
        }
        self._read(base, arm.name, record, started)

    def _new(self, seed: int) -> Any:
        if self.build is not None:
            return self.build(seed)
        return new_model(self.recipe.size, self.prepared.tokenizer, seed)

    def _tuned(self, planted: tuple[int, int], dilution: float) -> Schedule:
        """As many steps as the planted rows and their dilution ask for; a clean arm has a fixed number."""
        tuned = self.recipe.tuned
        if not any(planted):
            return replace(tuned, steps=self.recipe.clean_steps)
        steps = max(planted[0] / dilution / tuned.batch, planted[1] / dilution / tuned.texts)
        return replace(tuned, steps=max(1, int(np.ceil(steps))))

    def _whole(self, planted: tuple[int, int]) -> Schedule:
        """All of a base's training, longer by what is planted: the arm reads as much else as its base."""
        level, fall = self.recipe.level, self.recipe.fall
        more = max(planted[0] / level.batch, planted[1] / level.texts)
        return replace(level, steps=level.steps + fall.steps + int(np.ceil(more)), fall=fall.steps)

    def _train(
        self,
        trainer: Trainer,
        name: str,
        schedule: Schedule,
        planted: tuple[int, int],
        seed: tuple[int, int],
        mode: str,
    ) -> float:
        started = clock(self.device)

        def report(step: int, loss: float) -> None:
            spent = clock(self.device) - started
            rate = schedule.batch * step / spent
            self.log.append({"model": name, "step": step, "loss": loss, "seconds": spent})
            self.tell(f"{name}: step {step}, loss {loss:.4f}, {spent:.1f} s, {rate:,.0f} rows/s")

        return trainer.train(
            schedule, planted, seed[0] * 100 + seed[1], mode=mode, tell=report, every=250
        )

    def _read(self, base: Base, name: str, record: dict[str, Any], started: float) -> None:
        trained = clock(self.device)
        accuracy = {}
        every = sorted({name for names in self.reads.values() for name in names})
        if name == base.name:
            sheet_names = [s for s in every if s in base.real or not self.prepared.has_real(s)]
        else:
            sheet_names = list(self.reads.get(name) or self.reads[base.name])
        for sheet_name in sheet_names:
            sheet = self.prepared.sheet(sheet_name)
            reading = read_sheet(
                self.model,
                sheet,
                self.device,
                self.prepared.tokenizer.eos_token_id,
                half=self.recipe.half,
            )
            save_reading(self.state / "readings" / f"{name}--{sheet_name}.npz", reading)
            accuracy[sheet_name] = accuracies(sheet, reading, self.prepared.tokenizer)
        if name in self.keeps:
            weights = {
                key: value.detach().clone() for key, value in self.model.state_dict().items()
            }
            torch.save(weights, self.state / f"{name}.kept.pt")
        done = clock(self.device)
        record |= {
            "name": name,
            "accuracy": accuracy,
            "train_seconds": round(trained - started, 2),
            "read_seconds": round(done - trained, 2),
        }
        (self.state / "readings" / f"{name}.json").write_text(json.dumps(record))
        short = {s: {v: round(r["all"][0], 3) for v, r in a.items()} for s, a in accuracy.items()}
        self.tell(f"{name}: {trained - started:.1f} s + {done - trained:.1f} s, {short}")

    def restore(self, name: str) -> bool:
        """The weights of a kept model in the grid's own; False where it has none yet."""
        path = self.state / f"{name}.kept.pt"
        if path.exists():
            self.model.load_state_dict(torch.load(path, map_location=self.device))
        return path.exists()

    def done(self, name: str) -> bool:
        return (self.state / "readings" / f"{name}.json").exists()

    def _trainer(self, base: Base) -> tuple[Trainer, Trainer]:
        """One for the pre-training batch, compiled, and one for the few steps of an arm."""
        key = (*base.worlds, *base.real)
        if key not in self._trainers:
            pools = [self._pool(world) for world in base.worlds]
            rows = sum(len(pool) for pool in pools)
            for name in base.real:
                pools.append(repeated(self.prepared.real(name), rows, self.recipe.real_share))
            data = Data(joined(pools), self.device, SPARE, 2000)
            layered = self.recipe.layered
            large = Trainer(self.model, data, self.compiled, layered=self.compiled and layered)
            if self._loss is not None:
                large._loss = self._loss  # compiled once, for every world
            self._loss = large._loss
            self._trainers[key] = large, large if layered else Trainer(self.model, data)
        return self._trainers[key]

    def _pool(self, world: str) -> Pool:
        if world not in self._pools:
            started = clock(self.device)
            self._pools[world] = paint(
                world,
                self.recipe.pictures,
                0,
                self.prepared.tokenizer_file,
                self.recipe.size.picture,
                self.recipe.lengths,
                self.state / "pool",
            )
            spent = clock(self.device) - started
            self.tell(f"{world}: {self.recipe.pictures:,} pictures painted in {spent:.1f} s")
        return self._pools[world]


def repeated(pool: Pool, others: int, share: float) -> Pool:
    """A small pool so often that it is ``share`` of all rows."""
    times = max(1, round(others * share / (1 - share) / max(len(pool), 1)))
    return replace(
        pool,
        ids=np.tile(pool.ids, (times, 1)),
        learnt=np.tile(pool.learnt, (times, 1)),
        picture=np.tile(pool.picture, times),
        text_ids=np.tile(pool.text_ids, (times, 1)),
        text_learnt=np.tile(pool.text_learnt, (times, 1)),
    )


def accuracies(
    sheet: Sheet, reading: SheetReading, tokenizer: Any
) -> dict[str, dict[str, list[float]]]:
    """By variant and by what is asked: share of exact replies, and of how many. For the log; the tables
    are graded by the product."""
    counts: dict[str, dict[str, list[int]]] = {}
    for (variant, about, gold), tokens in zip(sheet.golds, reading.replies, strict=True):
        reply = tokenizer.decode([int(token) for token in tokens if token >= 0]).strip().lower()
        for name in ("all", about):
            cell = counts.setdefault(variant, {}).setdefault(name, [0, 0])
            cell[0] += reply == gold.strip().lower()
            cell[1] += 1
    return {
        variant: {name: [right / count, count] for name, (right, count) in sorted(cells.items())}
        for variant, cells in counts.items()
    }


def save_reading(path: Path, reading: SheetReading) -> None:
    np.savez_compressed(path, **vars(reading))


def load_reading(path: str | Path) -> SheetReading:
    with np.load(path) as arrays:
        values = {name: arrays[name] for name in arrays.files}
    return SheetReading(**{**values, "forward_tokens": int(values["forward_tokens"])})


#: sheets that arms read, by the kind of their base
READS = {"scenes": ("scenes",), "films": ("films",), "slake": ("slake",)}


def reads_of(bases: Iterable[Base]) -> dict[str, tuple[str, ...]]:
    return {base.name: READS[base.real[0] if base.real else base.worlds[0]] for base in bases}
