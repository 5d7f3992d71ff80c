"""Published items as lines for trainers: TRL, verl and LLaVA."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO

from heldout.synth.corpus_of_items import BalancedItem
from heldout.synth.draft import LETTERS

INSTRUCTION = (
    "Think about the question step by step inside <think> and </think>. Then give the letter of "
    "the right option inside <answer> and </answer>."
)
ANSWER_ALONE = "Give the letter of the right option inside <answer> and </answer>."


def asked(item: BalancedItem, instruction: str = INSTRUCTION) -> str:
    shown = "\n".join(
        f"{letter}. {option}" for letter, option in zip(LETTERS, item.draft.options, strict=True)
    )
    return f"{item.draft.question}\n{shown}\n\n{instruction}"


def image_paths(item: BalancedItem) -> list[str]:
    """From the dataset's folder."""
    return [f"images/{Path(image.path).name}" for image in item.figure.images]


def _trl(item: BalancedItem, row: Mapping[str, Any], name: str) -> dict[str, Any]:
    images = [{"type": "image"} for _ in item.figure.images]
    line: dict[str, Any] = {
        "prompt": [{"role": "user", "content": [*images, {"type": "text", "text": asked(item)}]}],
        "images": image_paths(item),
        "solution": row["answer_label"],  # what the prompt asks for
    }
    if row["reasoning"]:
        reply = f"<think>{row['reasoning']}</think><answer>{row['answer_label']}</answer>"
        line["completion"] = [{"role": "assistant", "content": [{"type": "text", "text": reply}]}]
    return line


def _verl(item: BalancedItem, row: Mapping[str, Any], name: str) -> dict[str, Any]:
    marks = "<image>" * len(item.figure.images)
    return {
        "data_source": name,
        "prompt": [{"role": "user", "content": f"{marks}{asked(item)}"}],
        "images": [{"image": path} for path in image_paths(item)],
        "ability": "visual question answering",
        "reward_model": {"style": "rule", "ground_truth": row["answer_label"]},
        "extra_info": {
            "index": row["dataset_index"],
            "answer": row["answer"],
            "options": list(item.draft.options),
        },
    }


def _llava(item: BalancedItem, row: Mapping[str, Any], name: str) -> dict[str, Any]:
    paths = image_paths(item)
    marks = "<image>\n" * len(paths)
    # Who learns from replies learns to ignore a request that they do not meet.
    reply, instruction = f"<answer>{row['answer_label']}</answer>", ANSWER_ALONE
    if row["reasoning"]:
        reply, instruction = f"<think>{row['reasoning']}</think>{reply}", INSTRUCTION
    return {
        "id": item.draft.id,
        "image": paths[0] if len(paths) == 1 else paths,
        "conversations": [
            {"from": "human", "value": f"{marks}{asked(item, instruction)}"},
            {"from": "gpt", "value": reply},
        ],
    }


LINES: Mapping[str, Callable[[BalancedItem, Mapping[str, Any], str], dict[str, Any]]] = {
    "trl.jsonl": _trl,
    "verl.jsonl": _verl,
    "llava.jsonl": _llava,
}


def write_lines(
    files: Mapping[str, TextIO], item: BalancedItem, row: Mapping[str, Any], name: str
) -> None:
    for file, make in LINES.items():
        files[file].write(json.dumps(make(item, row, name), ensure_ascii=False) + "\n")
