"""Files for verl: the rows that passed the gate, the reward function, the configuration, the command."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml  # type: ignore[import-untyped]

from heldout.errors import InputError
from heldout.store import replacing, write_atomic
from heldout.train import reward
from heldout.train._training_set import TrainingItem, TrainingSet, asked
from heldout.train.settings import Recipe, TrainSettings

_BATCH = 64
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
_INFO = pa.struct(
    [
        ("index", pa.int64()),
        ("id", pa.string()),
        ("answer", pa.string()),
        ("options", pa.list_(pa.string())),
    ]
)
SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(_MESSAGE)),
        ("images", pa.list_(_IMAGE)),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", pa.string())])),
        ("extra_info", _INFO),
    ]
)
_GPUS = 8
_PROMPT_TOKENS = 4096
_BETAS = (0.9, 0.999)  # verl's own
_COMMAND = """\
#!/bin/sh
# Needs verl with vLLM.
set -e
cd "$(dirname "$0")"
python -m verl.trainer.main_ppo --config-path "$PWD" --config-name config "$@"
"""


def write_verl(settings: TrainSettings, data: TrainingSet, folder: Path) -> None:
    """``train.parquet``, ``reward.py``, ``config.yaml`` and ``run.sh``."""
    check_verl(settings)
    folder.mkdir(parents=True, exist_ok=True)
    _write_rows(data, folder / "train.parquet", settings.prompt)
    write_atomic(folder / "reward.py", inspect.getsource(reward))
    write_atomic(folder / "config.yaml", yaml.safe_dump(config(settings), sort_keys=False))
    write_atomic(folder / "run.sh", _COMMAND)
    (folder / "run.sh").chmod(0o755)


def check_verl(settings: TrainSettings) -> None:
    """InputError where verl cannot do what the settings ask for."""
    if settings.recipe is not Recipe.GRPO:
        raise InputError(
            "verl is written for the recipe grpo: train the recipe sft here, and give its checkpoint as "
            "model"
        )
    if settings.schedule not in ("constant", "cosine"):
        raise InputError(f"schedule {settings.schedule}: verl has constant and cosine")


def config(settings: TrainSettings) -> dict[str, Any]:
    """verl's configuration over its own defaults (``ppo_trainer``). Files are beside ``run.sh``."""
    model = Path(settings.model).expanduser()
    longest = _PROMPT_TOKENS + settings.reply_tokens
    lora = {"lora_rank": settings.lora, "lora_alpha": 2 * settings.lora} if settings.lora else {}
    # Keys of newer releases only are written where they differ from verl's default.
    vision = {"freeze_vision_tower": True} if settings.freeze_vision else {}
    optimizer: dict[str, Any] = {}
    if settings.schedule != "constant":
        optimizer["lr_scheduler_type"] = settings.schedule
    if settings.betas != _BETAS:
        optimizer["betas"] = list(settings.betas)
    reward_function = {"path": "reward.py", "name": "compute_score"}
    return {
        "hydra": {"searchpath": ["pkg://verl.trainer.config"]},
        "defaults": ["ppo_trainer", "_self_"],
        "algorithm": {"adv_estimator": "grpo", "use_kl_in_reward": False},
        "data": {
            "train_files": "train.parquet",
            "val_files": "train.parquet",  # verl wants one; nothing is validated (test_freq)
            "train_batch_size": settings.batch,
            "max_prompt_length": _PROMPT_TOKENS,
            "max_response_length": settings.reply_tokens,
            "filter_overlong_prompts": True,
            "truncation": "error",
            "image_key": "images",
            "seed": settings.seed,
            "trust_remote_code": settings.trust_remote_code,
        },
        "actor_rollout_ref": {
            "model": {
                "path": str(model.resolve()) if model.is_dir() else settings.model,
                "enable_gradient_checkpointing": True,
                "trust_remote_code": settings.trust_remote_code,
                **lora,
            },
            "actor": {
                "optim": {
                    "lr": settings.learning_rate,
                    "weight_decay": settings.weight_decay,
                    "lr_warmup_steps_ratio": settings.warmup,
                    **optimizer,
                },
                **vision,
                "ppo_mini_batch_size": settings.mini_batch or settings.batch,
                "ppo_micro_batch_size_per_gpu": max(1, settings.micro_batch // _GPUS),
                "use_kl_loss": settings.kl > 0,
                "kl_loss_coef": settings.kl,
                "kl_loss_type": "low_var_kl",
                "entropy_coeff": settings.entropy,
                "loss_agg_mode": "token-mean",
                "grad_clip": settings.max_grad_norm,
            },
            "rollout": {
                "name": "vllm",
                "n": settings.group,
                "temperature": settings.temperature,
                "tensor_model_parallel_size": 1,
                "gpu_memory_utilization": 0.6,
                "max_num_batched_tokens": max(8192, longest),
                "log_prob_micro_batch_size_per_gpu": max(1, settings.micro_batch // _GPUS),
            },
            "ref": {"log_prob_micro_batch_size_per_gpu": max(1, settings.micro_batch // _GPUS)},
        },
        "reward": {"custom_reward_function": reward_function},
        "custom_reward_function": dict(reward_function),  # where older releases look
        "trainer": {
            "total_epochs": max(1, round(settings.epochs)),
            **(
                {"total_training_steps": _batches(settings, settings.max_steps)}
                if settings.max_steps
                else {}
            ),
            "n_gpus_per_node": _GPUS,
            "nnodes": 1,
            "save_freq": _batches(settings, settings.save_every),
            "test_freq": -1,
            "val_before_train": False,
            "critic_warmup": 0,
            "logger": ["console"],
            "project_name": "heldout",
            "experiment_name": settings.preset or "grpo",
            "default_local_dir": "checkpoints",
        },
    }


def _batches(settings: TrainSettings, updates: int) -> int:
    """verl counts batches where heldout counts updates."""
    return max(1, -(-updates // settings.updates_per_batch))


def _write_rows(data: TrainingSet, path: Path, prompt: str) -> None:
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as file,
    ):
        rows = list(enumerate(data.items))
        for start in range(0, len(rows), _BATCH):
            records = [
                _row(data.name, number, item, prompt)
                for number, item in rows[start : start + _BATCH]
            ]
            file.write_table(pa.Table.from_pylist(records, schema=SCHEMA))


def _row(name: str, number: int, item: TrainingItem, prompt: str) -> dict[str, Any]:
    marks = "<image>" * len(item.images)
    return {
        "data_source": name,
        "prompt": [{"role": "user", "content": f"{marks}{asked(item, prompt)}"}],
        "images": list(_images(item)),
        "ability": "visual question answering",
        "reward_model": {"style": "rule", "ground_truth": item.solution.letter or item.answer},
        "extra_info": {
            "index": number,
            "id": item.id,
            "answer": item.answer,
            "options": list(item.options),
        },
    }


def _images(item: TrainingItem) -> Iterator[dict[str, Any]]:
    for ref in item.images:
        yield {"bytes": ref.read(), "path": Path(ref.name).name}
