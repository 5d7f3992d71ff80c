"""Which pictures of a set belong to one study, patient or volume: slices of one are no independent draws.

Studies are read from a column that the user names, from one with a known name, or from the ids inside DICOM files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heldout.corpus import Corpus, CorpusItem
from heldout.errors import InputError
from heldout.image import dicom_ids
from heldout.store import Dropped

#: column names without case and marks, the widest group first
_KNOWN = (
    ("patientid", "subjectid"),
    ("studyinstanceuid", "studyuid", "studyid", "caseid"),
    ("seriesinstanceuid", "seriesuid", "seriesid", "volumeid", "scanid", "slideid"),
    ("cluster",),
)
_LOOK = 64  # items of a corpus after which one without a study has none


def study_of(item: CorpusItem, column: str | None = None) -> str:
    """The study of one item; empty where nothing names it."""
    if column is not None and (value := _text(item.metadata.get(column))):
        return value
    named = {re.sub(r"[^a-z]", "", key.lower()): key for key in item.metadata}
    for names in _KNOWN:
        for name in names:
            if name in named and (value := _text(item.metadata[named[name]])):
                return f"{name} {value}"
    ids = dicom_ids(item.image) if item.image is not None else {}
    return next((f"{kind} {value}" for kind, value in ids.items()), "")


def studies_of(corpus: Corpus, column: str | None = None) -> dict[str, str]:
    """Studies by item id; InputError where a column is named and no item has it."""
    studies: dict[str, str] = {}
    present: dict[str, None] = {}
    for looked, item in enumerate(_readable(corpus), 1):
        present.update(dict.fromkeys(item.metadata))
        if study := study_of(item, column):
            studies[item.id] = study
        elif column is None and not studies and looked >= _LOOK:
            return {}
    if column is not None and not studies:
        raise InputError(
            f"cluster_column '{column}': no item of {corpus.name} has it; there are: "
            f"{', '.join(list(present)[:20]) or 'no columns'}"
        )
    return studies


def _readable(corpus: Corpus) -> Iterator[CorpusItem]:
    for shard in corpus.shards():
        try:
            for item in corpus.read(shard):
                if not isinstance(item, Dropped):
                    yield item
        # The search has read the same shard before: what its reader fails at is among the dropped.
        except Exception:
            continue


def joined(labels: Sequence[Any], others: Sequence[Any]) -> NDArray[np.int64]:
    """One number per place: places are together where either label is equal; an empty one joins nothing."""
    leader = list(range(len(labels)))

    def find(place: int) -> int:
        while leader[place] != place:
            leader[place] = leader[leader[place]]
            place = leader[place]
        return place

    for names in (labels, others):
        first: dict[Any, int] = {}
        for place, name in enumerate(names):
            if name is None or name == "":
                continue
            left, right = find(first.setdefault(name, place)), find(place)
            leader[max(left, right)] = min(left, right)
    return np.array([find(place) for place in range(len(labels))], dtype=np.int64)


def known_studies(ids: Sequence[str], studies: Mapping[str, str]) -> list[str]:
    return [studies.get(name, "") for name in ids]


def _text(value: Any) -> str:
    return "" if value is None else str(value).strip()
