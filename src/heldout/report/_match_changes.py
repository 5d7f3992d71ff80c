"""Which pairs of pictures appeared, are gone, or were judged anew between two runs, however many there are.

Of every pair a few numbers lie in temporary files; a part of the pairs of both runs is compared at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import polars as pl

from heldout.evidence import COPIES, Relation
from heldout.overlap import match_batches, pair_hash, with_subjects
from heldout.store import Partitions, Run

_RELATIONS = [str(relation) for relation in Relation]
_UNRELATED = _RELATIONS.index(Relation.UNRELATED)
_COLUMNS = {
    "pair": np.uint64,  # item, picture, corpus and the two pictures
    "side": np.uint8,  # 0: before, 1: after
    "place": np.int64,  # row of the table
    "relation": np.uint8,
    "people": np.uint64,  # what raters said of it; 0: nothing
    "item": np.uint32,
}


def match_changes(before: Run, after: Run, examples: int) -> dict[str, Any]:
    """By item and the two pictures: which copies are new, which are gone, which were judged anew.

    A corpus item that only has another name is the same item; an embedding is identified by its name alone.
    """
    items: dict[str, int] = {}
    changes = _Changes(examples)
    with Partitions(_COLUMNS, by="pair") as records:
        for side, run in enumerate((before, after)):
            _add(records, side, run, items)
        for part in records:
            changes.add(pl.DataFrame({name: part[name].copy() for name in _COLUMNS}))
    return changes.told(list(items), before, after)


def _add(records: Partitions, side: int, run: Run, items: dict[str, int]) -> None:
    place = 0
    key = pair_hash("benchmark_id", "image_index", "corpus", "pair")
    for frame in match_batches(run) if run.table_path("matches").exists() else ():
        rows = with_subjects(frame.with_row_index("place", place)).with_columns(key.alias("pair"))
        once = rows.unique("pair", keep="first", maintain_order=True)
        names = once["benchmark_id"].to_list()
        records.add(
            pair=once["pair"].to_numpy(),
            side=np.full(len(once), side, np.uint8),
            place=once["place"].to_numpy(),
            relation=np.array([_RELATIONS.index(name) for name in once["relation"]], np.uint8),
            people=_people(once["evidence"]),
            item=np.array([items.setdefault(name, len(items)) for name in names], np.uint32),
        )
        place += len(frame)


def _people(evidence: pl.Series) -> np.ndarray[Any, np.dtype[np.uint64]]:
    verdict_codes = np.zeros(len(evidence), np.uint64)
    for row in evidence.str.contains('"people":', literal=True).arg_true():
        verdicts = json.loads(evidence[row]).get("people", {}).get("verdicts")
        if verdicts is not None:
            text = json.dumps(verdicts, sort_keys=True)
            verdict_codes[row] = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    return verdict_codes


class _Changes:
    """Sums over parts of the pairs; a pair is in one part."""

    def __init__(self, examples: int) -> None:
        self._most = examples
        self._copies = [0, 0]
        self._leaked: tuple[set[int], set[int]] = (set(), set())
        self._settled: set[int] = set()  # items with a copy that no rater made one
        self._by_people: set[int] = set()  # items with a copy that raters judged anew
        self._counts = {"appeared": 0, "gone": 0, "changed": 0, "changed_by_people": 0}
        self._kinds: dict[tuple[int, int], tuple[int, int]] = {}  # how many, and where the first is
        self._first: dict[str, pl.DataFrame] = {}

    def add(self, records: pl.DataFrame) -> None:
        once = records.unique(["pair", "side"], keep="first", maintain_order=True)
        old, new = (once.filter(pl.col("side") == side).drop("side") for side in (0, 1))
        both = old.join(new, on="pair", how="full", suffix="_new", coalesce=True).with_columns(
            pl.col("relation", "relation_new").fill_null(_UNRELATED).name.suffix("_or_none")
        )
        # A pair that is not listed was dismissed or was never near: unrelated either way.
        different = pl.col("relation_or_none") != pl.col("relation_new_or_none")
        seen = pl.col("place").is_not_null(), pl.col("place_new").is_not_null()
        anew = different & seen[0] & seen[1] & (pl.col("people") != pl.col("people_new"))
        both = both.with_columns(different=different, anew=anew.fill_null(False))
        moved = both.filter("different")
        kinds = {
            "appeared": moved.filter(~seen[0]).sort("place_new"),
            "gone": moved.filter(~seen[1]).sort("place"),
            "changed": moved.filter(seen[0] & seen[1]).sort("place"),
        }
        for name, rows in kinds.items():
            self._counts[name] += len(rows)
            self._remember(name, rows, "place_new" if name == "appeared" else "place")
        self._counts["changed_by_people"] += int(both["anew"].sum())
        groups = kinds["changed"].group_by("relation", "relation_new")
        for was, now, many, first in groups.agg(pl.len(), pl.col("place").min()).iter_rows():
            known = self._kinds.get((was, now), (0, first))
            self._kinds[was, now] = known[0] + many, min(known[1], first)
        codes = [_RELATIONS.index(relation) for relation in COPIES]
        copies = [both.filter(pl.col(name).is_in(codes)) for name in ("relation", "relation_new")]
        for side, (rows, item) in enumerate(zip(copies, ("item", "item_new"), strict=True)):
            self._copies[side] += len(rows)
            self._leaked[side].update(rows[item])
        self._by_people.update(copies[0].filter("anew")["item"])
        self._settled.update(copies[1].filter(~pl.col("anew"))["item_new"])

    def _remember(self, name: str, rows: pl.DataFrame, by: str) -> None:
        """The first of all parts, in the order of the table."""
        known = [self._first[name]] if name in self._first else []
        self._first[name] = pl.concat([*known, rows]).sort(by).head(self._most)

    def told(self, names: Sequence[str], before: Run, after: Run) -> dict[str, Any]:
        old, new = ({names[item] for item in side} for side in self._leaked)
        newly, no_longer = new - old, old - new
        raised = newly - {names[item] for item in self._settled}
        dismissed = no_longer & {names[item] for item in self._by_people}
        kinds = sorted(self._kinds.items(), key=lambda kind: kind[1][1])
        return {
            "copies": self._copies,
            "items": {
                "leaked": [len(old), len(new)],
                "newly": [*sorted(newly - raised), *sorted(raised)][: self._most],
                "no_longer": [*sorted(no_longer - dismissed), *sorted(dismissed)][: self._most],
                "newly_leaked": len(newly),
                "no_longer_leaked": len(no_longer),
                "newly_by_people": sorted(raised),
                "no_longer_by_people": sorted(dismissed),
            },
            **self._counts,
            "kinds": {
                f"{_RELATIONS[was]} → {_RELATIONS[now]}": many for (was, now), (many, _) in kinds
            },
            "examples": self._examples(before, after),
        }

    def _examples(self, before: Run, after: Run) -> list[dict[str, Any]]:
        rows = [row for frame in self._first.values() for row in frame.iter_rows(named=True)]
        rows = rows[: self._most]
        old = _rows_at(before, [row["place"] for row in rows if row["place_new"] is None])
        new = _rows_at(after, [row["place_new"] for row in rows if row["place_new"] is not None])
        return [
            {
                **(old[row["place"]] if row["place_new"] is None else new[row["place_new"]]),
                "before": None if row["place"] is None else _RELATIONS[row["relation"]],
                "after": None if row["place_new"] is None else _RELATIONS[row["relation_new"]],
                "by_people": row["anew"],
            }
            for row in rows
        ]


def _rows_at(run: Run, places: Iterable[int]) -> dict[int, dict[str, str]]:
    """Item, corpus and corpus item of some rows of the table matches."""
    wanted, rows, start = set(places), {}, 0
    for table in run.batches("matches") if wanted else ():
        for place in sorted(wanted & set(range(start, start + len(table)))):
            columns = ("benchmark_id", "corpus", "corpus_id")
            rows[place] = {name: table[name][place - start].as_py() for name in columns}
        start += len(table)
        if len(rows) == len(wanted):
            break
    return rows
