"""Balance: every item once, letters in equal shares, and an order in which every prefix is about as mixed
as the whole.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heldout.store import Dropped, Run
from heldout.synth._benchmark_questions import anatomy_of, archetype_of, modality_of
from heldout.synth._corpus_of_items import BalancedItem, balanced_items
from heldout.synth._verify import draft_batches
from heldout.synth.context import StageContext, StageWork
from heldout.synth.draft import LETTERS, Draft, PaperFigure, content_digest
from heldout.synth.ledger import StageWriter, read_rows
from heldout.synth.settings import SynthStage

STAGE = "balance"
RULES = "heldout-balance/4"  # raise with any change of what is balanced, and how
MIXED = ("answer", "archetype", "modality", "anatomy")  # shares that every prefix keeps
BLOCK = 50  # neighbours are shuffled: an item's place must not reveal its letter
_NEVER = np.iinfo(np.int64).min
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?")

Ordered = tuple[tuple[str, ...], str]  # options, and the letter of the right one


def _balance(context: StageContext, writer: StageWriter) -> None:
    flags = read_rows(context.run, SynthStage.SHORTCUT)
    kept = {row["id"]: row["flagged"] for row in flags if not row.get("dropped")}
    rng = random.Random(f"{context.settings.seed}/balance")
    letters: Counter[str] = Counter()
    numbers: dict[str, Ordered] = {}
    rows: list[dict[str, Any]] = []
    first: dict[str, str] = {}  # by content the item that has it
    for batch in draft_batches(context):  # those with the least choice of letters come first
        for draft, figure in batch:
            if draft.id not in kept:
                continue
            known = first.setdefault(content_digest(draft, figure), draft.id)
            if known != draft.id:
                del kept[draft.id]
                writer.drop(Dropped(STAGE, draft.id, "duplicate item", f"the same item as {known}"))
            elif (ascending := ascending_options(draft)) is not None:
                numbers[draft.id] = chosen = rarer_direction(ascending, letters)
                letters[chosen[1]] += 1
    for batch in draft_batches(context):
        for draft, figure in batch:
            if draft.id in kept:
                ordered = numbers.get(draft.id) or reordered(draft, letters, rng)
                letters[ordered[1]] += draft.id not in numbers
                rows.append(_row(draft, figure, ordered))
    for rank, row in enumerate(mixed(rows, rng, kept)):
        writer.keep({**row, "rank": rank})


BALANCE = StageWork(
    SynthStage.BALANCE,
    _balance,
    ("seed",),
    (SynthStage.SELECT, SynthStage.GENERATE, SynthStage.SHORTCUT),
    (RULES,),
)


def _row(draft: Draft, figure: PaperFigure, ordered: Ordered) -> dict[str, Any]:
    options, answer = ordered
    return {
        "id": draft.id,
        "options": list(options),
        "answer": answer,
        "archetype": archetype_of(draft),
        "modality": modality_of(figure),
        "anatomy": anatomy_of(draft, figure),
    }


def numbers_of(options: tuple[str, ...]) -> list[float] | None:
    """The number in every option; None where an option has none, or several."""
    numbers = [_NUMBER.findall(option) for option in options]
    return (
        [float(parts[0]) for parts in numbers]
        if all(len(parts) == 1 for parts in numbers)
        else None
    )


def ascending_options(draft: Draft) -> Ordered | None:
    """Options that are numbers in ascending order, and the letter that the right one has there; None for
    other options."""
    values = numbers_of(draft.options)
    if values is None:
        return None
    right = LETTERS.index(draft.answer)
    order = sorted(range(len(values)), key=values.__getitem__)
    return tuple(draft.options[place] for place in order), LETTERS[order.index(right)]


def rarer_direction(ascending: Ordered, letters: Counter[str]) -> Ordered:
    """Numbers are sorted, as a reader expects: descending where that puts the right one under
    the rarer letter. Otherwise small counts would often be A."""
    options, letter = ascending
    opposite = LETTERS[len(options) - 1 - LETTERS.index(letter)]
    return (options[::-1], opposite) if letters[opposite] < letters[letter] else ascending


def reordered(draft: Draft, letters: Counter[str], rng: random.Random) -> Ordered:
    """The options in a new order, with the right one under the letter that was rarest so far."""
    right = draft.options[LETTERS.index(draft.answer)]
    fewest = min(letters[letter] for letter in LETTERS)
    place = LETTERS.index(rng.choice([letter for letter in LETTERS if letters[letter] == fewest]))
    others = [
        option for at, option in enumerate(draft.options) if at != LETTERS.index(draft.answer)
    ]
    rng.shuffle(others)
    others.insert(place, right)
    return tuple(others), LETTERS[place]


def mixed(
    rows: list[dict[str, Any]], rng: random.Random, flagged: Mapping[str, bool]
) -> list[dict[str, Any]]:
    """Items without a shortcut first, so that a subset has them last; both parts mixed block by block.

    Within a block the order is random: otherwise letters would follow each other in a fixed pattern.
    """
    ordered: list[dict[str, Any]] = []
    for shortcut in (False, True):
        part = evenly([row for row in rows if flagged[row["id"]] is shortcut], rng)
        for start in range(0, len(part), BLOCK):
            ordered += rng.sample(part[start : start + BLOCK], len(part[start : start + BLOCK]))
    return ordered


def evenly(rows: list[dict[str, Any]], rng: random.Random) -> list[dict[str, Any]]:
    """An order in which letters, kinds of question, modalities and anatomy have in every prefix the shares
    that they have in all: next comes an item whose labels are furthest behind theirs, ties by chance.
    A subset of any size is the start of every larger one."""
    if not rows:
        return []
    buckets: dict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        buckets[tuple(row[name] for name in MIXED)].append(row)
    keys = sorted(buckets)
    rng.shuffle(keys)
    for key in keys:
        rng.shuffle(buckets[key])
    numbered: dict[object, int] = {}  # each label by its kind, and each bucket
    held = np.asarray(
        [
            [numbered.setdefault(pair, len(numbered)) for pair in (*enumerate(key), key)]
            for key in keys
        ]
    )
    sizes = np.asarray([len(buckets[key]) for key in keys], np.int64)
    totals = np.zeros(len(numbered), np.int64)
    np.add.at(totals, held, sizes[:, None])
    behind = np.zeros(len(numbered), np.int64)  # in parts of an item: whole numbers, exact anywhere
    ordered = []
    for _ in rows:
        behind += totals
        place = int(np.argmax(np.where(sizes > 0, behind[held].sum(axis=1), _NEVER)))
        behind[held[place]] -= len(rows)
        sizes[place] -= 1
        ordered.append(buckets[keys[place]].pop())
    return ordered


# Items in the order of their ranks, a part at a time: sorted on disk, as not all may fit in memory.


@dataclass(frozen=True)
class JudgedItem:
    """An item with its final options, and what code and verifier said of it."""

    item: BalancedItem
    verdict: Mapping[str, Any]


def by_rank(
    run: Run, ranks: Mapping[str, int], scratch: Path, size: int
) -> Iterator[list[JudgedItem]]:
    """Items with a rank in lists of ``size``. One pass over the tables puts every item into the file of
    its list; each list is then read and sorted by itself."""
    waiting: dict[int, list[str]] = defaultdict(list)

    def flush() -> None:
        for number, lines in waiting.items():
            with (scratch / f"{number}.jsonl").open("a", encoding="utf-8") as file:
                file.writelines(lines)
        waiting.clear()

    verdicts = read_rows(run, SynthStage.VERIFY)  # in the order of the items
    for place, item in enumerate(balanced_items(run), 1):
        rank = ranks.get(item.draft.id)
        if rank is not None:
            verdict = next(row for row in verdicts if row["id"] == item.draft.id)
            waiting[rank // size].append(json.dumps(_told(item, rank, verdict)) + "\n")
        if not place % size:
            flush()
    flush()
    for number in range(-(-len(ranks) // size)):
        path = scratch / f"{number}.jsonl"
        with path.open(encoding="utf-8") as lines:
            records = sorted(
                (json.loads(line) for line in lines), key=lambda record: record["rank"]
            )
        path.unlink()
        yield [_read(record) for record in records]


def _told(item: BalancedItem, rank: int, verdict: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **vars(item),
        "draft": item.draft.as_row(),
        "figure": item.figure.as_row(),
        "rank": rank,
        "verdict": verdict,
    }


def _read(record: dict[str, Any]) -> JudgedItem:
    verdict = record.pop("verdict")
    draft, figure = Draft.of_row(record.pop("draft")), PaperFigure.of_row(record.pop("figure"))
    return JudgedItem(BalancedItem(draft=draft, figure=figure, **record), verdict)
