"""What is watched while a model trains: every update is kept, and what cannot go on is said."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.errors import InputError
from heldout.train.prompts import ChatForm
from heldout.train.reward import Graded, grade
from heldout.train.steps import StepJournal, step_row
from heldout.train.training_set import TrainingItem

COMPLETE = "heldout-complete"  # the last file of a checkpoint
SAID_AFTER, ENDED_AFTER = 3, 30  # batches without a learning signal


class NoSignalError(InputError):
    """The reward never varies within a group: nothing can be learnt from it."""


@dataclass
class Watch:
    """Told by the trainer after every update. ``say`` shows a sentence to the user at once."""

    journal: StepJournal
    step: Callable[[], None]
    say: Callable[[str], None]
    status: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    earlier: float = 0.0  # seconds that finished updates took before this start
    flat: int = 0  # batches in a row without a learning signal

    def logged(self, step: int, logged: dict[str, Any]) -> None:
        if "loss" not in logged:  # the summary at the end
            return
        for name in ("loss", "grad_norm"):
            value = logged.get(name)
            if isinstance(value, int | float) and not math.isfinite(value):
                raise InputError(
                    f"the {'loss' if name == 'loss' else 'gradient'} is {value} at update {step}: the "
                    f"model cannot go on from here, and nothing of this update is kept. Lower "
                    f"learning_rate, set precision to float32, or look at the rows of this batch; the "
                    f"last checkpoint is from before"
                )
        spent = self.earlier + time.monotonic() - self.started
        self.journal.add(step_row(step, logged, spent))
        self._show(logged)
        self.step()
        self._signal(step, logged)

    def _show(self, logged: dict[str, Any]) -> None:
        shown = {
            "loss": ("loss", "{:.4f}"), "reward": ("reward", "{:.3f}"), "kl": ("KL", "{:.4f}"),
            "completions/mean_length": ("length", "{:.0f}"), "format": ("format", "{:.0%}"),
        }  # fmt: skip
        for key, (name, form) in shown.items():
            if isinstance(logged.get(key), int | float):
                self.status[name] = form.format(logged[key])

    def note(self) -> str:
        """Loss, reward, KL, length and format rate of the last update."""
        return " · ".join(f"{name} {value}" for name, value in self.status.items())

    def _signal(self, step: int, logged: dict[str, Any]) -> None:
        constant = logged.get("frac_reward_zero_std")
        if constant is None:  # a further update on the replies of the same batch
            return
        self.flat = self.flat + 1 if constant >= 1.0 else 0
        if self.flat not in (SAID_AFTER, ENDED_AFTER):
            return
        told = (
            f"no learning signal: in the last {self.flat} batches all replies to a prompt had the same "
            f"reward (mean {logged.get('reward', 0.0):.3f}, {logged.get('format', 0.0):.0%} well-formed)"
        )
        if not logged.get("reward"):
            told += ". Where no reply is ever right, train with the recipe sft first"
        else:
            told += ". Where every reply is right, the items are too easy for this model"
        if self.flat >= ENDED_AFTER:
            raise NoSignalError(f"{told}. Training ended at update {step}")
        self.say(told)


class VerifiableReward:
    """The reward as TRL calls it. Replies are read with their special tokens: what is hidden counts."""

    __name__ = "verifiable_reward"

    def __init__(self, tokenizer: Any, form: ChatForm, journal: StepJournal, keep: int) -> None:
        self._tokenizer = tokenizer
        self._stop = {*form.stop, tokenizer.pad_token_id}
        self._journal = journal
        self._keep = keep

    def __call__(self, **told: Any) -> list[float]:
        items: Sequence[TrainingItem] = told["item"]
        replies = [self._decode(ids) for ids in told["completion_ids"]]
        graded = [grade(reply, one.solution) for reply, one in zip(replies, items, strict=True)]
        told["log_metric"]("format", sum(one.well_formed for one in graded) / len(graded))
        self._keep_some(told["trainer_state"].global_step + 1, items, replies, graded)
        return [one.reward for one in graded]

    def _decode(self, ids: Sequence[int]) -> str:
        end = len(ids)
        while end and ids[end - 1] in self._stop:
            end -= 1
        return str(self._tokenizer.decode(list(ids[:end]), skip_special_tokens=False))

    def _keep_some(
        self,
        step: int,
        items: Sequence[TrainingItem],
        replies: Sequence[str],
        graded: Sequence[Graded],
    ) -> None:
        for item, reply, one in list(zip(items, replies, graded, strict=True))[: self._keep]:
            row = {"step": step, "id": item.id, "solution": item.solution.letter or item.answer}
            text = reply.encode("utf-8", "replace").decode()
            told = {"reply": text, "reward": one.reward, "well_formed": one.well_formed}
            self._journal.add({**row, **told})


def watching_callback(watch: Watch) -> Any:
    """The watch as a callback of transformers' trainer."""
    from transformers import TrainerCallback

    class Watching(TrainerCallback):  # type: ignore[misc]
        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            watch.logged(int(state.global_step), dict(logs or {}))

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            (folder / COMPLETE).write_text(str(state.global_step), encoding="utf-8")

    return Watching()
