"""Records every update of a training, and reports when it cannot continue."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.errors import InputError, percent
from heldout.store import Run, make_table, opened, write_atomic
from heldout.train._training_set import ChatForm, TrainingItem
from heldout.train.reward import Graded, grade

# The steps of a training: a journal that survives a kill, and the table made of it.


#: Columns of ``tables/steps.parquet``, by TRL's names for them.
LOGGED = {
    "loss": "loss",
    "grad_norm": "gradient",
    "learning_rate": "learning_rate",
    "epoch": "epoch",
    "reward": "reward",
    "reward_std": "reward_spread",
    "frac_reward_zero_std": "constant_groups",
    "kl": "kl",
    "entropy": "entropy",
    "format": "format_rate",
    "completions/mean_length": "reply_tokens",
    "completions/clipped_ratio": "cut_replies",
    "mean_token_accuracy": "token_accuracy",
}


class StepJournal:
    """One JSON line per update. After a kill it holds every update up to it, and the last checkpoint says
    from which one on they are made again."""

    def __init__(self, folder: Path, name: str = "steps.jsonl") -> None:
        self.path = folder / name

    def restart_after(self, step: int) -> None:
        """Remove the updates that will be made again."""
        kept = [row for row in self.rows() if row["step"] <= step]
        write_atomic(self.path, "".join(json.dumps(row) + "\n" for row in kept))

    def add(self, row: Mapping[str, Any]) -> None:
        with opened(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def rows(self) -> list[dict[str, Any]]:
        if not self.path.exists():
            return []
        rows = []
        with opened(self.path, "r", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
        for line in lines:
            try:
                rows.append(json.loads(line))
            except ValueError:  # the line that a kill cut off
                break
        return rows


def step_row(step: int, logged: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """One update from what the trainer logged; what it did not log is empty."""
    row: dict[str, Any] = {"step": step, "seconds": round(seconds, 3)}
    for theirs, ours in LOGGED.items():
        value = logged.get(theirs)
        number = float(value) if isinstance(value, int | float) else math.nan
        row[ours] = number if math.isfinite(number) else None
    return row


def write_steps(run: Run, journal: StepJournal) -> None:
    """``tables/steps.parquet`` from the journal."""
    run.write_table("steps", make_table("steps", journal.rows()))


def write_replies(run: Run, journal: StepJournal) -> None:
    """``tables/replies.parquet``: the first group of replies of every update, with their rewards."""
    run.write_table("replies", make_table("replies", journal.rows()))


COMPLETE = "heldout-complete"  # the last file of a checkpoint
SAID_AFTER, ENDED_AFTER = 3, 30  # batches without a learning signal


class NoSignalError(InputError):
    """The reward never varies within a group: nothing can be learnt from it."""


@dataclass
class Watch:
    """The trainer calls it after every update. ``say`` shows a sentence to the user at once."""

    journal: StepJournal
    step: Callable[[], None]
    say: Callable[[str], None]
    status: dict[str, str] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    earlier: float = 0.0  # seconds that finished updates took before this start
    flat: int = 0  # batches in a row without a learning signal
    half: bool = False  # it computes in bfloat16

    def logged(self, step: int, logged: dict[str, Any]) -> None:
        if "loss" not in logged:  # the summary at the end
            return
        for name in ("loss", "grad_norm"):
            value = logged.get(name)
            if isinstance(value, int | float) and not math.isfinite(value):
                raise InputError(
                    f"the {'loss' if name == 'loss' else 'gradient'} is {value} at update {step}: the "
                    f"model cannot go on from here, and nothing of this update is kept. {self.advice()}"
                )
        spent = self.earlier + time.monotonic() - self.started
        self.journal.add(step_row(step, logged, spent))
        self._show(logged)
        self.step()
        self._signal(step, logged)

    def advice(self) -> str:
        """What to do where a training diverged."""
        lower = (
            "Lower learning_rate, set precision to float32,"
            if self.half
            else "Lower learning_rate,"
        )
        kept = any(self.journal.path.parent.glob(f"*/checkpoint-*/{COMPLETE}"))
        rest = "the last checkpoint is from before" if kept else "no checkpoint was saved yet"
        return f"{lower} or look at the rows of this batch and the weights of the model; {rest}"

    def _show(self, logged: dict[str, Any]) -> None:
        shown = {
            "loss": ("loss", "{:.4f}"),
            "reward": ("reward", "{:.3f}"),
            "kl": ("KL", "{:.4f}"),
            "completions/mean_length": ("length", "{:.0f}"),
            "format": ("format", "{:.0%}"),
        }
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
        message = (
            f"no learning signal: in the last {self.flat} batches all replies to a prompt had the same "
            f"reward (mean {logged.get('reward', 0.0):.3f}, {percent(logged.get('format', 0.0), 0)} well-formed)"
        )
        if not logged.get("reward"):
            message += ". Where no reply is ever right, train with the recipe sft first"
        else:
            message += ". Where every reply is right, the items are too easy for this model"
        if self.flat >= ENDED_AFTER:
            raise NoSignalError(f"{message}. Training ended at update {step}")
        self.say(message)


class VerifiableReward:
    """The reward as TRL calls it. Replies are read with their special tokens, which count as well."""

    __name__ = "verifiable_reward"

    def __init__(self, tokenizer: Any, form: ChatForm, journal: StepJournal, keep: int) -> None:
        self._tokenizer = tokenizer
        self._stop = {*form.stop, tokenizer.pad_token_id}
        self._journal = journal
        self._keep = keep

    def __call__(self, **record: Any) -> list[float]:
        items: Sequence[TrainingItem] = record["item"]
        replies = [self._decode(ids) for ids in record["completion_ids"]]
        graded = [grade(reply, item.solution) for reply, item in zip(replies, items, strict=True)]
        record["log_metric"]("format", sum(result.well_formed for result in graded) / len(graded))
        self._keep_some(record["trainer_state"].global_step + 1, items, replies, graded)
        return [result.reward for result in graded]

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
        for item, reply, result in list(zip(items, replies, graded, strict=True))[: self._keep]:
            row = {"step": step, "id": item.id, "solution": item.solution.letter or item.answer}
            text = reply.encode("utf-8", "replace").decode()
            record = {"reply": text, "reward": result.reward, "well_formed": result.well_formed}
            self._journal.add({**row, **record})


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
