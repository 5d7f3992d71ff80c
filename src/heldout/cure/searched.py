"""What a run looked for and what it could not: a clean split is as clean as its search was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from heldout.errors import counted
from heldout.store import Run

LOST = 0.01  # above this share of unread images, "none found" speaks of the rest only


def searched(run: Run) -> list[dict[str, Any]]:
    """Per corpus: where it was, how many images were compared, and how."""
    return [
        {
            "corpus": stage["corpus"],
            "source": stage["source"],
            "fingerprint": stage["fingerprint"],
            "images": stage["counts"].get("images", 0),
            "encoder": stage.get("encoder"),
            "text": run.table_path("text_matches").exists(),
        }
        for stage in run.manifest()["stages"].values()
    ]


def what_was_not_searched(run: Run) -> Iterator[str]:
    stages = list(run.manifest()["stages"].values())
    text = run.table_path("text_matches").exists()
    pictured = [stage for stage in stages if stage["counts"].get("images", 0)]
    unencoded = [stage for stage in pictured if not stage.get("encoder")]
    exact = [stage["corpus"] for stage in unencoded if not stage.get("hashes")]
    hashed = [stage["corpus"] for stage in unencoded if stage.get("hashes")]
    if exact:
        yield (
            f"in {', '.join(exact)} only exact copies were looked for: resized, cropped or "
            f"re-compressed ones may be left; search without the setting exact, or with an encoder"
        )
    if hashed:
        yield (
            f"in {', '.join(hashed)} copies were looked for by perceptual hashes: cropped, framed or "
            f"compounded ones may be left; search with an encoder"
        )
    if not text:
        yield "questions and answers were compared only where their image leaked, word for word"
    for stage in stages:
        problem = incomplete(stage, text=text)
        if problem:
            yield problem


def incomplete(stage: Mapping[str, Any], *, text: bool) -> str:
    """The sentence that says a corpus was not read in whole; empty where it was.

    ``text``: words were compared, so that a corpus without images is compared all the same.
    """
    counts, failed = stage["counts"], stage["failed"]
    compared, lost = counts.get("images", 0), counts.get("lost_items", 0)
    archives = counts.get("lost_containers", 0)
    if text and not compared:
        compared = counts.get("items", 0)
    messages = []
    if failed:
        messages.append(f"{len(failed)} of {counted(stage['shards'], 'shard', 'shards')} failed")
    if archives:
        lost_ones = counted(
            archives, "archive, file or folder was", "archives, files or folders were"
        )
        messages.append(f"{lost_ones} lost in whole or in part")
    if compared == 0 and not messages:
        messages.append("no image could be compared")
    elif lost > LOST * (lost + compared):
        messages.append(
            f"{lost:,} of {counted(lost + compared, 'item', 'items')} could not be read"
        )
    return f"{stage['corpus']} was not read in whole: {'; '.join(messages)}" if messages else ""
