"""Run a training to its end: it continues after a kill, and halves its batches when memory runs out."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout.engine import progress
from heldout.errors import HeldoutError, InputError, MachineError, blame_the_machine
from heldout.store import Run
from heldout.train._trainers import CHECKPOINTS, Training, UpdatePace, open_checkpoint
from heldout.train._training_set import TrainingItem
from heldout.train._watching import (
    COMPLETE,
    StepJournal,
    Watch,
    watching_callback,
    write_replies,
    write_steps,
)
from heldout.train.settings import Recipe, TrainSettings

FOLDER = "train"
MODEL = "model"  # the trained checkpoint, in the run folder
_SPARE = 200 * 2**20  # bytes of disk below which a write that failed is the disk's fault


@dataclass(frozen=True)
class Trained:
    """``halved``: how often memory ran out; ``resumed``: the update that this call went on from."""

    steps: int
    pace: UpdatePace
    halved: int
    resumed: int
    revision: str
    weights: int
    trainable: int
    device: str


def check_rows(settings: TrainSettings, items: Sequence[TrainingItem]) -> None:
    if len(items) < settings.batch:
        raise InputError(
            f"there are {len(items)} rows to train on, and a batch is {settings.batch}: set batch to at "
            f"most {len(items)}, or train on more rows"
        )


def run_training(
    settings: TrainSettings,
    items: Sequence[TrainingItem],
    run: Run,
    *,
    quiet: bool,
    warnings: list[str],
) -> Trained:
    """Train and save ``model/``. Finished updates are not made again."""
    check_rows(settings, items)
    folder = run.path / FOLDER
    journal, replies = StepJournal(folder), StepJournal(folder, "replies.jsonl")
    pace, halved, first = UpdatePace.of(settings), 0, None
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        while True:
            _free_memory()
            last = last_checkpoint(folder / CHECKPOINTS)
            step = int(last.name.partition("-")[2]) if last else 0
            first = step if first is None else first
            for step_journal in (journal, replies):
                step_journal.restart_after(step)
            with _few_words():
                outcome = _attempt(
                    settings, items, run, pace, (journal, replies), last, quiet, warnings
                )
            if isinstance(outcome, Trained):
                steps = len(journal.rows())
                known = {**vars(outcome), "steps": steps, "halved": halved, "resumed": first}
                return Trained(**known)
            smaller = pace.halved(writing=outcome == "writing")
            if smaller is None:
                raise MachineError(
                    "memory ran out with one sequence at a time: train with lora, with "
                    "gradient_checkpointing, with fewer reply_tokens, or on a larger device"
                )
            pace, halved = smaller, halved + 1
            doing = "replies were written" if outcome == "writing" else "the model learnt"
            _tell(
                f"memory ran out while {doing}: going on with {pace.micro} sequences and "
                f"{pace.replies} replies at a time, at the same batch",
                warnings,
                quiet,
            )
    finally:
        write_steps(run, journal)
        if settings.recipe is Recipe.GRPO:
            write_replies(run, replies)


def _attempt(
    settings: TrainSettings,
    items: Sequence[TrainingItem],
    run: Run,
    pace: UpdatePace,
    journals: tuple[StepJournal, StepJournal],
    last: Path | None,
    quiet: bool,
    warnings: list[str],
) -> Trained | str:
    """The finished training, or in which phase memory ran out."""
    import torch

    journal, replies = journals
    loaded = open_checkpoint(settings)
    watch = Watch(journal, lambda: None, lambda message: _tell(message, warnings, quiet))
    watch.earlier = max((row["seconds"] for row in journal.rows()), default=0.0)
    folder = run.path / FOLDER
    training = Training(settings, items, folder, replies, watching_callback(watch))
    trainer: Any = None
    try:
        if last is not None and settings.lora is None:
            restore_weights(loaded.model, last)
        trainer = training.trainer(loaded, pace)
        watch.half = trainer.args.bf16 or loaded.model.dtype is torch.bfloat16
        if settings.lora is None:
            trainer._load_from_checkpoint = lambda *_, **__: None  # done, see restore_weights
        steps = planned_steps(settings, len(items))
        _check_disk(run.path, loaded.model)
        done = len(journal.rows())
        title = "SFT" if settings.recipe is Recipe.SFT else "GRPO"
        with progress(title, steps, "updates", done=done, disabled=quiet, note=watch.note) as step:
            watch.step = step
            trainer.train(resume_from_checkpoint=str(last) if last else None)
        model = trainer.model
        trainable = sum(
            parameter.numel() for parameter in model.parameters() if parameter.requires_grad
        )
        device = str(next(model.parameters()).device)
        model = save_model(run.path / MODEL, trainer, loaded.processor)
        weights = sum(parameter.numel() for parameter in model.parameters())
        return Trained(0, pace, 0, 0, loaded.revision, weights, trainable, device)
    except torch.OutOfMemoryError:
        return "writing" if getattr(trainer, "writing", False) else "learning"
    except Exception as error:
        if _is_out_of_memory(error):
            return "writing" if getattr(trainer, "writing", False) else "learning"
        raise _explained(error, run.path, watch) from error


def _free_memory() -> None:
    """Free what an attempt held on the device."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


@contextlib.contextmanager
def _few_words() -> Iterator[None]:
    """In this block transformers and TRL print errors only; heldout prints what the user needs to know."""
    from transformers.utils import logging as hub_logging

    before, bars = hub_logging.get_verbosity(), hub_logging.is_progress_bar_enabled()
    theirs = logging.getLogger("trl")
    level = theirs.level
    hub_logging.set_verbosity_error()
    hub_logging.disable_progress_bar()
    theirs.setLevel(logging.ERROR)
    try:
        yield
    finally:
        hub_logging.set_verbosity(before)
        theirs.setLevel(level)
        if bars:
            hub_logging.enable_progress_bar()


def planned_steps(settings: TrainSettings, rows: int) -> int:
    """Updates of the whole training; the rows of an incomplete last batch of GRPO are left out by TRL."""
    if settings.recipe is Recipe.SFT:
        steps = int(-(-rows // settings.batch) * settings.epochs)
    else:
        steps = int((rows // settings.batch) * settings.updates_per_batch * settings.epochs)
    return min(steps, settings.max_steps) if settings.max_steps else steps


def last_checkpoint(folder: Path) -> Path | None:
    """The last checkpoint that was written in whole; what a kill cut off is removed."""
    complete = []
    for path in folder.glob("checkpoint-*"):
        if (path / COMPLETE).is_file():
            complete.append(path)
        else:
            shutil.rmtree(path, ignore_errors=True)
    return max(complete, key=lambda path: int(path.name.partition("-")[2]), default=None)


def restore_weights(model: Any, checkpoint: Path) -> None:
    """The weights of a checkpoint, read as checkpoints are opened.

    transformers' trainer reads the file itself: where a family's files have other names than its weights
    (Qwen2-VL), it finds none of them, warns, and goes on from the first checkpoint's weights.
    """
    saved, report = type(model).from_pretrained(
        checkpoint, dtype=model.dtype, output_loading_info=True
    )
    weights = {key for key, _ in saved.named_parameters()}
    if absent := sorted(weights & set(report.get("missing_keys") or ())):
        raise InputError(
            f"{checkpoint} lacks {len(absent)} of the model's weights, such as {absent[0]}: remove "
            f"this folder to go on from the checkpoint before it"
        )
    model.load_state_dict(saved.state_dict())


def forget_checkpoints(run: Run) -> None:
    """Checkpoints are of no use once the trained model is saved, and large."""
    run.remove(f"{FOLDER}/{CHECKPOINTS}")


def save_model(target: Path, trainer: Any, processor: Any) -> Any:
    """A whole checkpoint that opens by itself; LoRA's additions are merged into the weights."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    building = target.with_name(f".{target.name}.building")
    shutil.rmtree(building, ignore_errors=True)
    model.save_pretrained(building)
    processor.save_pretrained(building)
    shutil.rmtree(target, ignore_errors=True)
    building.rename(target)
    return model


def _check_disk(path: Path, model: Any) -> None:
    """Two checkpoints with the optimizer's moments, and the trained weights."""
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    needed = 2 * 12 * trained + 4 * sum(parameter.numel() for parameter in model.parameters())
    free = shutil.disk_usage(path).free
    if free < needed:
        raise MachineError(
            f"the disk of {path} has {free / 2**20:,.0f} MiB free, and checkpoints of this training "
            f"need about {needed / 2**20:,.0f} MiB: make room, choose another folder, or train with lora"
        )


def _is_out_of_memory(error: Exception) -> bool:
    message = str(error)
    return isinstance(error, RuntimeError) and (
        "out of memory" in message or "can't allocate memory" in message
    )


def _explained(error: Exception, path: Path, watch: Watch) -> Exception:
    """The error that is raised in place of one of the training: with a plain sentence where the cause is
    known."""
    if isinstance(error, HeldoutError):
        return error
    blame_the_machine(error)
    message = str(error)
    writing = "PytorchStreamWriter" in message or "SafetensorError" in type(error).__name__
    if writing and shutil.disk_usage(path).free < _SPARE:
        return MachineError("the disk is full, so a checkpoint could not be written")
    if "probability tensor contains either" in message:
        return InputError(
            f"the model's probabilities are not numbers: its weights diverged. {watch.advice()}"
        )
    return error


def _tell(text: str, warnings: list[str], quiet: bool) -> None:
    warnings.append(text)
    if not quiet:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
