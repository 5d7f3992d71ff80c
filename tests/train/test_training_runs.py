"""Real trainings of tiny models on a CPU: what is learnt, what is kept, what goes on after a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import heldout
from heldout.errors import InputError, MachineError
from heldout.model.local.load import load
from heldout.train import _trainers as trainers
from heldout.train import _watching as watching
from heldout.train import running
from heldout.train._trainers import supervised_rows
from heldout.train._training_set import ChatForm, read_training_set, reply_to
from heldout.train.settings import TrainSettings

SMALL: dict[str, Any] = {
    "open_gate": "a test",
    "device": "cpu",
    "quiet": True,
    "learning_rate": 1e-3,
    "batch": 4,
    "micro_batch": 2,
    "epochs": 2,
}
GROUPS: dict[str, Any] = {
    **SMALL,
    "recipe": "grpo",
    "mini_batch": 2,
    "group": 4,
    "reply_tokens": 8,
    "micro_batch": 4,
    "epochs": 1,
    "reply_batch": 6,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, checkpoint: Path, rows: Path) -> Any:
    out = tmp_path_factory.mktemp("trained") / "run"
    return heldout.train(data=str(rows), model=str(checkpoint), out=out, save_every=2, **SMALL)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return dict(load_file(folder / "model.safetensors"))


def test_the_loss_is_on_the_reply_and_its_end_alone(checkpoint: Path, rows: Path) -> None:
    from trl.trainer.sft_trainer import DataCollatorForVisionLanguageModeling

    loaded = load(
        str(checkpoint), revision=None, dtype="float32", device="cpu", trust_remote_code=False
    )
    form = ChatForm(loaded.processor, loaded.tokenizer, loaded.model, "tiny")
    items = read_training_set(str(rows)).items[:3]
    data = supervised_rows(items, form)
    collate = DataCollatorForVisionLanguageModeling(loaded.processor, completion_only_loss=True)
    batch = collate([data[place] for place in range(3)])
    for item, ids, labels in zip(items, batch["input_ids"], batch["labels"], strict=True):
        learnt = loaded.tokenizer.decode(labels[labels >= 0])
        assert learnt == reply_to(item) + "<eos>"  # where this checkpoint stops
        read = loaded.tokenizer.decode(ids[labels < 0])
        assert item.question in read
        assert "<answer>A" not in read


def test_a_training_leaves_steps_a_model_and_a_card(trained: Any, checkpoint: Path) -> None:
    steps = trained.steps
    assert steps["step"].to_list() == [1, 2, 3, 4, 5, 6]
    assert steps["loss"][5] < steps["loss"][0]
    assert steps["reward"].null_count() == 6
    opened = load(
        str(trained.model), revision=None, dtype="float32", device="cpu", trust_remote_code=False
    )
    assert opened.processor.chat_template
    before, after = weights(checkpoint), weights(trained.model)
    assert before.keys() == after.keys()
    assert any(not torch.equal(before[name], after[name]) for name in before)
    card = (trained.model / "README.md").read_text()
    assert "Reason given: a test" in card
    assert "- not-decontaminated" in card
    assert (trained.run.path / "report.html").read_text().count("<svg") >= 2
    assert not (trained.run.path / "train/checkpoints").exists()
    assert trained.run.manifest()["train"]["gate"]["forced"] == "a test"


def test_a_finished_training_is_not_done_again(
    trained: Any, checkpoint: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainers.Training, "trainer", None)  # would be called
    again = heldout.train(
        data=str(rows), model=str(checkpoint), out=trained.run.path, save_every=2, **SMALL
    )
    assert again.trained == trained.trained
    with pytest.raises(InputError, match=r"other settings \(learning_rate\)"):
        heldout.train(
            data=str(rows),
            model=str(checkpoint),
            out=trained.run.path,
            **{**SMALL, "learning_rate": 0.5},
        )


class Killed(BaseException):
    pass


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call a training that is killed right after an update."""
    logged = watching.Watch.logged

    def run(after: int, **values: Any) -> None:
        def kill(self: Any, step: int, told: dict[str, Any]) -> None:
            logged(self, step, told)
            if step == after:
                raise Killed

        with monkeypatch.context() as patched:
            patched.setattr(watching.Watch, "logged", kill)
            with pytest.raises(Killed):
                heldout.train(**values)

    return run


def close(ours: Path, whole: Path) -> None:
    mine, theirs = weights(ours), weights(whole)
    assert mine.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(mine[name], value, rtol=1e-4, atol=1e-5, msg=name)


def test_a_killed_training_goes_on_to_the_same_weights(
    tmp_path: Path, trained: Any, checkpoint: Path, rows: Path, killed: Callable[..., None]
) -> None:
    """Killed after update 5, with checkpoints at 2 and 4, of which the last was cut off."""
    out = tmp_path / "run"
    same: dict[str, Any] = {
        "data": str(rows),
        "model": str(checkpoint),
        "out": out,
        "save_every": 2,
        **SMALL,
    }
    killed(5, **same)
    (out / "train/checkpoints/checkpoint-4" / watching.COMPLETE).unlink()
    with (out / "train/steps.jsonl").open("a") as file:
        file.write('{"step": 6, "lo')
    done = heldout.train(**same)
    assert done.trained.resumed == 2
    assert done.steps["step"].to_list() == [1, 2, 3, 4, 5, 6]
    close(done.model, trained.model)


def test_adapters_and_rewards_go_on_after_a_kill_too(
    tmp_path: Path, checkpoint: Path, rows: Path, killed: Callable[..., None]
) -> None:
    same = {
        "data": str(rows),
        "model": str(checkpoint),
        "save_every": 2,
        **GROUPS,
        "batch": 2,
        "max_steps": 3,
        "lora": 4,
        "group": 2,
    }
    whole = heldout.train(**same, out=tmp_path / "whole")
    killed(3, **same, out=tmp_path / "run")
    done = heldout.train(**same, out=tmp_path / "run")
    assert done.trained.resumed == 2
    assert done.steps["step"].to_list() == [1, 2, 3]
    close(done.model, whole.model)


def test_out_of_memory_halves_what_goes_through_at_the_same_batch(
    tmp_path: Path, trained: Any, checkpoint: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = trainers.open_checkpoint

    def small_device(settings: TrainSettings) -> Any:
        """A device that holds one sequence at a time."""
        loaded = opened(settings)

        def look(module: Any, args: Any, named: dict[str, Any]) -> None:
            if named["input_ids"].shape[0] > 1:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB")

        loaded.model.register_forward_pre_hook(look, with_kwargs=True)
        return loaded

    monkeypatch.setattr(running, "open_checkpoint", small_device)
    done = heldout.train(data=str(rows), model=str(checkpoint), out=tmp_path / "run", **SMALL)
    assert (done.trained.pace.micro, done.trained.halved) == (1, 1)
    assert "memory ran out" in done.warnings[0]
    assert done.steps.height == 6
    # The batch is the same, so the losses are.
    for ours, whole in zip(done.steps["loss"], trained.steps["loss"], strict=True):
        assert ours == pytest.approx(whole, rel=1e-3)


def test_a_loss_that_is_not_a_number_ends_the_training_with_a_sentence(
    tmp_path: Path, checkpoint: Path, rows: Path
) -> None:
    with pytest.raises(InputError, match=r"\bnan at update 2\b.*learning_rate"):
        heldout.train(
            data=str(rows),
            model=str(checkpoint),
            out=tmp_path / "run",
            save_every=1,
            **{**SMALL, "learning_rate": 1e30, "schedule": "constant", "warmup": 0.0},
        )
    assert heldout.Run.open(tmp_path / "run").read_table("steps").num_rows == 1


def test_a_full_disk_is_said_before_training(
    tmp_path: Path, checkpoint: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Usage:
        free = 1000

    monkeypatch.setattr(running.shutil, "disk_usage", lambda _: Usage)
    with pytest.raises(MachineError, match="MiB free.*make room"):
        heldout.train(data=str(rows), model=str(checkpoint), out=tmp_path / "run", **SMALL)


def test_a_disk_that_fills_up_is_said_and_finished_updates_are_kept(
    tmp_path: Path, checkpoint: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    def full(self: Any, *_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device", "model.safetensors")

    monkeypatch.setattr(transformers.PreTrainedModel, "save_pretrained", full)
    with pytest.raises(MachineError, match="disk is full"):
        heldout.train(
            data=str(rows), model=str(checkpoint), out=tmp_path / "run", save_every=3, **SMALL
        )
    assert heldout.Run.open(tmp_path / "run").read_table("steps").num_rows == 3


def test_a_checkpoint_without_a_chat_template_is_refused(
    tmp_path: Path, rows: Path, tiny_families: ModuleType
) -> None:
    folder = tiny_families.save("blip_2", tmp_path / "blip-2")
    with pytest.raises(InputError, match="no chat template"):
        heldout.train(data=str(rows), model=str(folder), out=tmp_path / "run", **SMALL)
    assert not (tmp_path / "run").exists()  # said before the comparison


def test_fewer_rows_than_a_batch_are_refused(tmp_path: Path, checkpoint: Path, rows: Path) -> None:
    with pytest.raises(InputError, match=r"\b12 rows.*\bbatch\b.*\b12\b"):
        heldout.train(
            data=str(rows), model=str(checkpoint), out=tmp_path / "run", **{**SMALL, "batch": 16}
        )
    with pytest.raises(InputError, match="recipe grpo"):
        heldout.train(
            data=str(rows), model=str(checkpoint), out=tmp_path / "run", to="verl", **SMALL
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("family", ["llava", "idefics3", "internvl", "gemma3"])
def test_other_families_train_with_lora(
    tmp_path: Path, rows: Path, tiny_families: ModuleType, family: str
) -> None:
    folder = tiny_families.save(family, tmp_path / family)
    done = heldout.train(
        data=str(rows),
        model=str(folder),
        out=tmp_path / "run",
        lora=4,
        max_steps=1,
        warmup=0.0,
        **SMALL,
    )
    assert done.trained.trainable < 0.3 * done.trained.weights
    before, after = weights(folder), weights(done.model)
    assert before.keys() == after.keys()
    changed = [name for name in before if not torch.equal(before[name], after[name])]
    assert changed
    assert not [name for name in changed if "vision" in name or "lm_head" in name]


def test_rewards_are_logged_with_the_form_and_silence_is_said(
    tmp_path: Path, checkpoint: Path, rows: Path
) -> None:
    """Random weights never write a right reply: no learning signal, which is said after three batches."""
    done = heldout.train(data=str(rows), model=str(checkpoint), out=tmp_path / "run", **GROUPS)
    assert done.steps.height == 6
    assert done.steps["kl"].null_count() == 0
    for column in ("reward", "format_rate", "reply_tokens", "constant_groups"):
        told = done.steps[column].is_not_null().to_list()
        assert told == [True, False] * 3, column  # two updates on the replies of one batch
    assert done.steps["reward"].sum() == 0
    assert "the last 3 batches" in done.warnings[0] and "recipe sft" in done.warnings[0]
    assert done.replies.height == 3 * 4  # the first group of every batch
    assert set(done.replies["step"]) == {1, 3, 5}


def test_a_reward_that_stays_constant_ends_the_training(
    tmp_path: Path, checkpoint: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "ENDED_AFTER", 2)
    with pytest.raises(watching.NoSignalError, match="at update 3"):
        heldout.train(data=str(rows), model=str(checkpoint), out=tmp_path / "run", **GROUPS)


def test_a_reply_is_read_with_its_special_tokens(
    checkpoint: Path, rows: Path, tmp_path: Path
) -> None:
    """Text that decoding would hide is part of the reply: a hidden second turn is no whole reply."""
    from heldout.train._watching import StepJournal

    loaded = load(
        str(checkpoint), revision=None, dtype="float32", device="cpu", trust_remote_code=False
    )
    form = ChatForm(loaded.processor, loaded.tokenizer, loaded.model, "tiny")
    item = read_training_set(str(rows)).items[0]
    journal = StepJournal(tmp_path)
    reward = watching.VerifiableReward(loaded.tokenizer, form, journal, 2)
    right = reply_to(item)
    hidden = right.replace("</answer>", "<|im_start|></answer>")
    ids = [loaded.tokenizer(f"{text}<eos>")["input_ids"] for text in (right, hidden)]

    class State:
        global_step = 0

    shares: dict[str, float] = {}
    given = reward(
        item=[item, item],
        completion_ids=ids,
        trainer_state=State,
        log_metric=lambda name, value: shares.update({name: value}),
    )
    assert given == [1.0, 0.0]
    assert shares == {"format": 1.0}
    assert [row["reward"] for row in journal.rows()] == [1.0, 0.0]


def test_replies_are_written_in_parts_when_memory_runs_out(
    tmp_path: Path, checkpoint: Path, rows: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import transformers

    whole = transformers.Qwen2VLForConditionalGeneration.generate

    def small_device(self: Any, **inputs: Any) -> Any:
        if inputs["input_ids"].shape[0] > 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return whole(self, **inputs)

    monkeypatch.setattr(transformers.Qwen2VLForConditionalGeneration, "generate", small_device)
    done = heldout.train(
        data=str(rows),
        model=str(checkpoint),
        out=tmp_path / "run",
        max_steps=2,
        **{**GROUPS, "reply_batch": 16},
    )
    assert (done.trained.pace.replies, done.trained.pace.micro) == (4, 4)
    assert "replies were written" in done.warnings[0]


def test_leaks_on_the_command_line_exit_with_one(
    tmp_path: Path,
    make_rows: Callable[..., Path],
    checkpoint: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from heldout.cli.app import main

    path = make_rows(8, seed=2)
    bench = path.with_name("test.jsonl")
    bench.write_text("".join(f"{line}\n" for line in path.read_text().splitlines()[:2]))
    command = [
        "heldout",
        "train",
        str(path),
        "--model",
        str(checkpoint),
        "--against",
        str(bench),
        "--workers",
        "1",
        "--out",
        str(tmp_path / "run"),
        "--quiet",
        "--batch",
        "4",
    ]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 1
    said = capsys.readouterr().err
    assert "Gate failed: 2" in " ".join(said.split())
    assert "--remove-leaks" in said
    files = ["--recipe", "grpo", "--to", "verl", "--mini-batch", "2", "--json"]
    monkeypatch.setattr("sys.argv", [*command, "--remove-leaks", *files])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["rows"], told["gate"]["removed"]) == (6, 2)
