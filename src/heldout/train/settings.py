"""TrainSettings: every setting of ``heldout train``, once, for the command line and Python."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from heldout.settings import Settings


class Recipe(StrEnum):
    """How to train."""

    SFT = "sft"  # supervised: the loss is on the reply alone
    GRPO = "grpo"  # reinforcement learning with the verifiable reward


class Precision(StrEnum):
    """``bfloat16`` keeps weights and optimizer in float32 and computes in bfloat16, where a GPU does."""

    BFLOAT16 = "bfloat16"
    FLOAT32 = "float32"


#: Published recipes. What a preset sets can be overridden setting by setting.
PRESETS: Mapping[str, Mapping[str, Any]] = {
    # MedVLSynther and MedVLThinker: SFT on (reasoning trace, answer) pairs.
    "medvlsynther-sft": {
        "recipe": "sft",
        "learning_rate": 1e-5,
        "schedule": "cosine",
        "warmup": 0.05,
        "batch": 16,
        "epochs": 5.0,
        "weight_decay": 1e-4,
        "betas": (0.9, 0.95),
        "precision": "bfloat16",
    },
    # GRPO as run with verl: prompts per batch and per update, replies per prompt.
    "medvlsynther-grpo-5k": {
        "recipe": "grpo",
        "learning_rate": 1e-6,
        "schedule": "constant",
        "warmup": 0.0,
        "batch": 48,
        "mini_batch": 24,
        "epochs": 1.0,
        "weight_decay": 0.01,
        "betas": (0.9, 0.999),
        "group": 8,
        "kl": 0.01,
        "entropy": 0.0,
        "reply_tokens": 4096,
        "precision": "bfloat16",
    },
    "medvlsynther-grpo-13k": {
        "recipe": "grpo",
        "learning_rate": 1e-6,
        "schedule": "constant",
        "warmup": 0.0,
        "batch": 64,
        "mini_batch": 32,
        "epochs": 1.0,
        "weight_decay": 0.01,
        "betas": (0.9, 0.999),
        "group": 8,
        "kl": 0.01,
        "entropy": 0.0,
        "reply_tokens": 4096,
        "precision": "bfloat16",
    },
}
_DEFAULT_PRESET = {"sft": "medvlsynther-sft", "grpo": "medvlsynther-grpo-5k"}


class TrainSettings(Settings):
    """Settings of ``heldout train``. Defaults of the recipe are those of its preset."""

    data: str
    """Training set: JSON Lines, Parquet, a folder or name of any format that benchmarks have, or the run
    folder of ``heldout synth``."""
    model: str
    """Image-text-to-text checkpoint to train: a folder, or a name on the hub."""
    recipe: Recipe = Recipe.SFT
    """``sft`` (supervised) or ``grpo`` (reinforcement learning with the verifiable reward)."""
    preset: str = ""
    """Published recipe: medvlsynther-sft, medvlsynther-grpo-5k or medvlsynther-grpo-13k; default: the one of
    MedVLSynther for ``recipe``."""

    prompt: str = ""
    """What the model is asked: ``medvlthinker`` (the published prompt), or a text with {question} and
    {options}; default: question, options, and the instruction of ``heldout synth``."""

    # the gate
    against: tuple[str, ...] = ()
    """Benchmarks that the model will be evaluated on, or suites of them (``heldout evaluate``); the
    training set is compared with each benchmark."""
    remove_leaks: bool = False
    """Remove the rows that hold items of a benchmark, and train on the rest."""
    open_gate: str = ""
    """Reason to train although the gate failed, or although nothing was compared; recorded in the
    manifest and on the model's card."""
    strict: bool = False
    """Undecided images and questions without their answer count as leaks."""
    image_encoder: str | None = "pixels"
    """Encoder for near neighbours of images (default: pixels); none compares hashes alone."""
    text_encoder: str | None = None
    """Encoder for reworded texts; default: the best one installed."""

    # optimization
    learning_rate: Annotated[float, Field(gt=0)] = 1e-5
    """Highest learning rate; default: the preset's."""
    schedule: str = "cosine"
    """Learning-rate schedule: cosine, linear or constant; default: the preset's."""
    warmup: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of the steps over which the learning rate rises; default: the preset's."""
    batch: Annotated[int, Field(ge=1)] = 16
    """Training rows of one batch; with GRPO, prompts for which replies are written together;
    default: the preset's."""
    mini_batch: Annotated[int, Field(ge=1)] | None = None
    """GRPO: prompts of one update; default: the whole batch."""
    micro_batch: Annotated[int, Field(ge=1)] = 8
    """Sequences that go through the model at a time; halved where memory runs out, at the same batch."""
    epochs: Annotated[float, Field(gt=0)] = 5.0
    """Passes over the training set; default: the preset's."""
    max_steps: Annotated[int, Field(ge=1)] | None = None
    """Stop after this many updates; default: after all epochs."""
    weight_decay: Annotated[float, Field(ge=0)] = 1e-4
    """Weight decay of AdamW; default: the preset's."""
    betas: tuple[float, float] = (0.9, 0.95)
    """Moments of AdamW."""
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    """Longest gradient."""
    precision: Precision = Precision.BFLOAT16
    """``bfloat16`` (float32 weights, bfloat16 arithmetic; float32 without a GPU) or ``float32``."""
    lora: Annotated[int, Field(ge=1)] | None = None
    """Rank of LoRA adapters in the language model's linear layers; default: all weights are trained."""
    freeze_vision: bool = False
    """Leave the vision tower as it is."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a fifth slower."""

    # GRPO
    group: Annotated[int, Field(ge=2)] = 8
    """Replies per prompt; default: the preset's."""
    kl: Annotated[float, Field(ge=0)] = 0.01
    """Weight of the KL loss (low-variance estimate) to the checkpoint that training starts from;
    default: the preset's."""
    entropy: Annotated[float, Field(ge=0)] = 0.0
    """Weight of an entropy bonus."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Sampling temperature of replies."""
    reply_tokens: Annotated[int, Field(ge=8)] = 4096
    """Longest reply in tokens; default: the preset's."""
    reply_batch: Annotated[int, Field(ge=1)] = 128
    """Replies written at a time; halved where memory runs out."""

    # the run
    limit: Annotated[int, Field(ge=1)] | None = None
    """Train on the first rows only."""
    save_every: Annotated[int, Field(ge=1)] = 50
    """Updates between checkpoints; a killed run goes on from the last one."""
    device: str = "auto"
    """``auto``, ``cuda`` or ``cpu``."""
    revision: str | None = None
    """Revision of the checkpoint on the hub."""
    trust_remote_code: bool = False
    """Run Python code that the checkpoint brings."""
    seed: int = 42
    """Seed of every draw."""

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        preset = values.get("preset") or ""
        recipe = str(values.get("recipe") or (PRESETS.get(preset) or {}).get("recipe") or "sft")
        preset = preset or _DEFAULT_PRESET.get(recipe, "")
        if preset and preset not in PRESETS:
            raise ValueError(f"preset {preset}: expected one of {', '.join(PRESETS)}")
        chosen = {**PRESETS.get(preset, {}), **values, "preset": preset}
        if preset and str(chosen["recipe"]) != PRESETS[preset]["recipe"]:
            raise ValueError(
                f"preset {preset} is for the recipe {PRESETS[preset]['recipe']}, not {chosen['recipe']}"
            )
        return chosen

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.schedule not in ("cosine", "linear", "constant"):
            raise ValueError(f"schedule {self.schedule}: expected cosine, linear or constant")
        if self.mini_batch is not None and self.batch % self.mini_batch:
            raise ValueError(
                f"mini_batch {self.mini_batch}: expected a divisor of batch ({self.batch})"
            )
        if self.prompt and self.prompt != "medvlthinker" and "{question}" not in self.prompt:
            raise ValueError(
                "prompt: expected medvlthinker, or a text with {question} and {options}"
            )
        if self.remove_leaks and not self.against:
            raise ValueError("remove_leaks: name the benchmarks with the setting against")
        return self

    @property
    def update_rows(self) -> int:
        """Sequences of one update: rows, or replies to the prompts of a mini-batch."""
        if self.recipe is Recipe.SFT:
            return self.batch
        return (self.mini_batch or self.batch) * self.group

    @property
    def updates_per_batch(self) -> int:
        """Updates for which the replies of one batch are used."""
        return self.batch // (self.mini_batch or self.batch) if self.recipe is Recipe.GRPO else 1
