"""Presets are the published recipes; what is given by name wins."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from pydantic import ValidationError

from heldout.errors import InputError
from heldout.train import TrainSettings
from heldout.train._trainers import UpdatePace, save_steps
from heldout.train._training_set import read_training_set
from heldout.train._verl import config, write_verl
from heldout.train.running import planned_steps


def settings(**values: object) -> TrainSettings:
    return TrainSettings(data="rows.jsonl", model="folder", **values)


def test_the_published_sft_recipe() -> None:
    one = settings()
    assert (one.preset, one.recipe) == ("medvlsynther-sft", "sft")
    assert (one.learning_rate, one.schedule, one.warmup, one.batch) == (1e-5, "cosine", 0.05, 16)
    assert (one.epochs, one.weight_decay, one.betas) == (5, 1e-4, (0.9, 0.95))
    assert one.precision == "bfloat16"


def test_the_published_grpo_recipes() -> None:
    small, large = settings(recipe="grpo"), settings(preset="medvlsynther-grpo-13k")
    assert (small.batch, small.mini_batch, large.batch, large.mini_batch) == (48, 24, 64, 32)
    for one in (small, large):
        assert (one.learning_rate, one.group, one.kl, one.entropy) == (1e-6, 8, 0.01, 0.0)
        assert (one.reply_tokens, one.epochs) == (4096, 1)
        assert one.updates_per_batch == 2
    assert small.update_rows == 24 * 8
    assert planned_steps(small, 5000) == 2 * (5000 // 48)


def test_what_is_given_wins_over_the_preset() -> None:
    one = settings(preset="medvlsynther-sft", learning_rate=3e-4)
    assert (one.learning_rate, one.batch) == (3e-4, 16)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"preset": "medvlthinker"}, "expected .*medvlsynther-sft"),
        ({"preset": "medvlsynther-sft", "recipe": "grpo"}, "is for the recipe sft, not grpo"),
        ({"recipe": "grpo", "mini_batch": 7}, "expected a divisor of batch"),
        ({"remove_leaks": True}, "name the benchmarks"),
        ({"schedule": "wavy"}, "expected cosine, linear or constant"),
        ({"learning_rate": 0}, "greater than 0"),
        ({"leraning_rate": 1}, "Extra inputs"),
    ],
)
def test_bad_settings_are_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        settings(**values)


def test_what_goes_through_at_a_time_divides_the_batch() -> None:
    one = settings(batch=18, micro_batch=8)
    pace = UpdatePace.of(one)
    sizes = [pace.micro]
    while (smaller := pace.halved(writing=False)) is not None:
        pace = smaller
        sizes.append(pace.micro)
    assert sizes == [6, 3, 1]
    assert all(one.update_rows % size == 0 for size in sizes)


def test_checkpoints_lie_between_two_batches_of_replies() -> None:
    assert save_steps(settings(recipe="grpo", save_every=5)) == 6
    assert save_steps(settings(save_every=5)) == 5


def test_verl_gets_rows_reward_configuration_and_command(tmp_path: Path, rows: Path) -> None:
    chosen = settings(recipe="grpo", max_steps=7)
    data = read_training_set(str(rows))
    write_verl(chosen, data, tmp_path / "verl")
    table = pq.read_table(tmp_path / "verl/train.parquet").to_pylist()
    assert len(table) == 12
    first, item = table[0], data.items[0]
    assert first["images"][0]["bytes"] == item.images[0].read()
    assert first["prompt"][0]["content"].startswith("<image>What colour")
    assert first["prompt"][0]["content"].endswith("inside <answer> and </answer>.")
    assert first["reward_model"] == {"style": "rule", "ground_truth": item.solution.letter}
    assert first["extra_info"]["options"] == list(item.options)
    told = yaml.safe_load((tmp_path / "verl/config.yaml").read_text())
    assert told["data"]["train_batch_size"] == 48
    actor = told["actor_rollout_ref"]["actor"]
    assert (actor["ppo_mini_batch_size"], actor["optim"]["lr"]) == (24, 1e-6)
    assert (actor["use_kl_loss"], actor["kl_loss_coef"], actor["kl_loss_type"]) == (
        True,
        0.01,
        "low_var_kl",
    )
    assert told["algorithm"] == {"adv_estimator": "grpo", "use_kl_in_reward": False}
    assert told["actor_rollout_ref"]["rollout"]["n"] == 8
    assert told["trainer"]["total_training_steps"] == 4  # batches, of two updates each
    assert told["reward"]["custom_reward_function"] == told["custom_reward_function"]
    assert told["actor_rollout_ref"]["model"]["path"] == "folder"  # a name on the hub


def test_the_command_for_verl_starts_where_its_files_are(
    tmp_path: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    target = tmp_path / "a run" / "verl"
    write_verl(settings(recipe="grpo"), read_training_set(str(rows)), target)
    told = yaml.safe_load((target / "config.yaml").read_text())
    assert Path(told["actor_rollout_ref"]["model"]["path"]) == (tmp_path / "folder").resolve()
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text('#!/bin/sh\npwd -P\nfor one in "$@"; do echo "$one"; done\n')
    python.chmod(0o755)
    started = subprocess.run(
        ["a run/verl/run.sh", "trainer.nnodes=2"],
        check=True,
        capture_output=True,
        text=True,
        env={"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"},
    )
    where, *arguments = started.stdout.splitlines()
    assert Path(where) == target.resolve()
    assert arguments[:2] == ["-m", "verl.trainer.main_ppo"]
    assert Path(arguments[arguments.index("--config-path") + 1]).resolve() == target.resolve()
    assert arguments[-1] == "trainer.nnodes=2"
    names = [told["data"]["train_files"], told["reward"]["custom_reward_function"]["path"]]
    assert all((target / name).is_file() for name in names)


#: Names that verl's reference configuration has (verl/trainer/config/_generated_ppo_trainer.yaml).
VERL_KEYS = {
    "algorithm": "adv_estimator use_kl_in_reward norm_adv_by_std_in_grpo kl_penalty kl_ctrl gamma lam",
    "data": "train_files val_files prompt_key max_prompt_length max_response_length train_batch_size "
    "shuffle seed filter_overlong_prompts truncation image_key video_key trust_remote_code",
    "actor_rollout_ref": "actor ref rollout model hybrid_engine",
    "actor_rollout_ref.model": "path tokenizer_path trust_remote_code enable_gradient_checkpointing "
    "use_remove_padding lora_rank lora_alpha target_modules",
    "actor_rollout_ref.actor": "optim ppo_mini_batch_size ppo_micro_batch_size_per_gpu clip_ratio "
    "freeze_vision_tower loss_agg_mode entropy_coeff use_kl_loss kl_loss_coef kl_loss_type grad_clip",
    "actor_rollout_ref.actor.optim": "lr lr_warmup_steps_ratio weight_decay betas lr_scheduler_type",
    "actor_rollout_ref.rollout": "name n temperature top_k top_p tensor_model_parallel_size "
    "gpu_memory_utilization max_num_batched_tokens log_prob_micro_batch_size_per_gpu",
    "actor_rollout_ref.ref": "log_prob_micro_batch_size_per_gpu log_prob_use_dynamic_bsz",
    "reward": "custom_reward_function reward_manager num_workers",
    "trainer": "total_epochs total_training_steps n_gpus_per_node nnodes save_freq test_freq "
    "val_before_train critic_warmup logger project_name experiment_name default_local_dir resume_mode",
}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {
            "lora": 8,
            "freeze_vision": True,
            "schedule": "cosine",
            "betas": (0.9, 0.95),
            "max_steps": 3,
        },
    ],
)
def test_verl_is_told_nothing_that_it_does_not_know(more: dict[str, Any]) -> None:
    told = config(settings(recipe="grpo", **more))
    assert told.pop("defaults") == ["ppo_trainer", "_self_"]
    del told["hydra"], told["custom_reward_function"]
    for place, names in VERL_KEYS.items():
        section = told
        for part in place.split("."):
            section = section[part]
        assert set(section) <= set(names.split()), place
    assert set(told) <= set(VERL_KEYS)
    actor = told["actor_rollout_ref"]["actor"]
    assert ("freeze_vision_tower" in actor, "betas" in actor["optim"]) == (bool(more), bool(more))
    assert told["actor_rollout_ref"]["model"].get("lora_alpha") == (16 if more else None)


def test_verl_is_for_grpo(tmp_path: Path, rows: Path) -> None:
    with pytest.raises(InputError, match="recipe grpo"):
        write_verl(settings(), read_training_set(str(rows)), tmp_path / "verl")
    with pytest.raises(InputError, match="constant and cosine"):
        linear = settings(recipe="grpo", schedule="linear")
        write_verl(linear, read_training_set(str(rows)), tmp_path / "verl")
