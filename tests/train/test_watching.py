"""What a user sees while a model trains."""

from __future__ import annotations

from pathlib import Path

import pytest

from heldout.engine.progress import Progress
from heldout.errors import InputError
from heldout.train._watching import COMPLETE, StepJournal, Watch


def watch(folder: Path, said: list[str]) -> Watch:
    journal = StepJournal(folder)
    journal.restart_after(0)
    return Watch(journal, lambda: None, said.append)


def test_the_line_says_reward_kl_length_and_form(tmp_path: Path) -> None:
    one = watch(tmp_path, [])
    line = Progress("GRPO", 100, "updates", note=one.note)
    assert "reward" not in line.describe()
    told = {
        "loss": 0.01,
        "reward": 0.25,
        "kl": 0.003,
        "completions/mean_length": 41.6,
        "format": 0.875,
    }
    one.logged(1, told)
    assert line.describe().endswith(
        "loss 0.0100 · reward 0.250 · KL 0.0030 · length 42 · format 88%"
    )
    # A further update on the same replies has no reward of its own: the last one stays.
    one.logged(2, {"loss": 0.02, "kl": 0.004})
    assert "loss 0.0200 · reward 0.250 · KL 0.0040" in line.describe()
    assert [row["reward"] for row in one.journal.rows()] == [0.25, None]


def test_a_signal_that_comes_back_ends_the_count(tmp_path: Path) -> None:
    said: list[str] = []
    one = watch(tmp_path, said)
    for step, constant in enumerate((1.0, 1.0, 0.9, 1.0, 1.0), 1):
        one.logged(step, {"loss": 0.0, "reward": 1.0, "frac_reward_zero_std": constant})
    assert said == []
    one.logged(6, {"loss": 0.0, "reward": 1.0, "frac_reward_zero_std": 1.0})
    assert len(said) == 1
    assert "last 3 batches" in said[0]
    assert "too easy" in said[0]


@pytest.mark.parametrize("name", ["loss", "grad_norm"])
def test_what_is_not_a_number_is_not_kept(tmp_path: Path, name: str) -> None:
    one = watch(tmp_path, [])
    one.logged(1, {"loss": 1.0, "grad_norm": 2.0})
    with pytest.raises(InputError, match="at update 2"):
        one.logged(2, {"loss": 1.0, "grad_norm": 2.0, name: float("inf")})
    assert [row["step"] for row in one.journal.rows()] == [1]
    assert "float32" not in one.advice()
    assert "no checkpoint" in one.advice()
    saved = tmp_path / "checkpoints" / "checkpoint-1"
    saved.mkdir(parents=True)
    (saved / COMPLETE).write_text("1")
    one.half = True
    assert "float32" in one.advice()
    assert "no checkpoint" not in one.advice()
