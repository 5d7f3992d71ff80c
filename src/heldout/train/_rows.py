"""Training rows as TRL reads them: a data set of row numbers, whose images are opened when needed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from heldout.errors import InputError
from heldout.image import ImageError, to_rgb
from heldout.train._training_set import TrainingItem
from heldout.train.prompts import ChatForm, messages

_OPEN = 64  # rows whose images stay decoded


def supervised_rows(items: Sequence[TrainingItem], form: ChatForm) -> Any:
    """Prompt and completion as text, so that the loss is on the reply and its end, and nowhere else."""

    def row(item: TrainingItem) -> dict[str, Any]:
        return {"prompt": form.prompt(item), "completion": form.completion(item)}

    return _rows(items, row)


def rewarded_rows(items: Sequence[TrainingItem], prompt: str = "") -> Any:
    """Prompts as turns, which the trainer renders itself, and the row's number for the reward."""

    def row(item: TrainingItem) -> dict[str, Any]:
        return {"prompt": messages(item, prompt), "item": item}

    return _rows(items, row)


def _rows(items: Sequence[TrainingItem], make: Callable[[TrainingItem], dict[str, Any]]) -> Any:
    from datasets import Dataset

    # The replies to one prompt are one row, many times over: its images are decoded once.
    opened = functools.lru_cache(_OPEN)(lambda number: tuple(pictures(items[number])))

    def look_up(batch: dict[str, list[int]]) -> dict[str, list[Any]]:
        rows = [{**make(items[number]), "images": list(opened(number))} for number in batch["row"]]
        return {name: [record[name] for record in rows] for name in rows[0]}

    return Dataset.from_dict({"row": list(range(len(items)))}).with_transform(look_up)


def pictures(item: TrainingItem) -> list[Any]:
    """The images of a row in RGB."""
    try:
        return [to_rgb(ref.open()) for ref in item.images]
    except ImageError as error:
        raise InputError(
            f"training row {item.id}: an image that could be read before cannot be read now "
            f"({error.reason}: {error.detail})"
        ) from error
