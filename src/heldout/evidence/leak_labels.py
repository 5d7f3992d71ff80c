"""Leak labels made elsewhere: id → leaked, as a table or JSON Lines.

heldout takes them as they are: it can say which items they name and how scores depend on them, but not whether
they are true.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.benchmark import canonical_text
from heldout.errors import InputError, counted
from heldout.model import as_truth, open_predictions
from heldout.store import Run

FILE = "leak-labels.json"
LEAKED, CLEAN, UNDECIDED = "leaked", "", "undecided"
NOT_VERIFIED = "leak labels were made elsewhere and not verified by heldout"
_YES = ("leaked", "contaminated", "seen", "leak", "positive")
_NO = (
    "none",
    "clean",
    "not leaked",
    "non-leaked",
    "uncontaminated",
    "unseen",
    "held out",
    "negative",
)
_OPEN = ("undecided", "unknown", "unsure", "unclear", "maybe", "?")
_MOST_KINDS = 20
_SHOWN = 3
_JUDGED = ("note", "remark")
_MOST_NAMED = 10  # of items that the search contradicts


@dataclass(frozen=True)
class LeakLabels:
    """``kinds`` by item: "leaked" or a kind of leak, "" for not leaked, "undecided"."""

    source: str
    sha256: str
    kinds: dict[str, str]
    unlabelled: tuple[str, ...] = ()  # items of the benchmark without a label
    clusters: dict[str, str] = field(default_factory=dict)

    @property
    def leaked(self) -> frozenset[str]:
        return frozenset(i for i, kind in self.kinds.items() if kind not in (CLEAN, UNDECIDED))

    @property
    def clean(self) -> frozenset[str]:
        return frozenset(i for i, kind in self.kinds.items() if kind == CLEAN)

    @property
    def undecided(self) -> frozenset[str]:
        return frozenset(i for i, kind in self.kinds.items() if kind == UNDECIDED)

    def summary(self, proven: frozenset[str] | None = None) -> dict[str, Any]:
        """Where they come from and how many there are, for manifests and reports. ``proven``: what a search
        of heldout's own proved; None where nothing was searched."""
        about = {
            "source": self.source,
            "sha256": self.sha256,
            "leaked": len(self.leaked),
            "clean": len(self.clean),
            "undecided": len(self.undecided),
            "unlabelled": len(self.unlabelled),
            "first_unlabelled": list(self.unlabelled[:_SHOWN]),
        }
        if proven is None:
            return {**about, "note": NOT_VERIFIED, "remark": self.one_class}
        confirmed = sorted(self.leaked & proven)
        contradicted = sorted(self.clean & proven)
        note = f"leak labels were made elsewhere; the search confirmed {len(confirmed):,} of "
        note += counted(len(self.leaked), "label that says leaked", "labels that say leaked")
        if contradicted:
            note += (
                f"; {counted(len(contradicted), 'item', 'items')} labelled clean "
                f"{'is a proven copy' if len(contradicted) == 1 else 'are proven copies'} and "
                f"{'counts' if len(contradicted) == 1 else 'count'} as leaked: "
                f"{_named(contradicted, _MOST_NAMED)}"
            )
        return {
            **about,
            "note": note,
            "remark": "",
            "confirmed": len(confirmed),
            "contradicted": contradicted,
        }

    @property
    def one_class(self) -> str:
        """Why these labels alone allow no comparison; empty if they name leaked and clean items."""
        if not self.clean:
            file = self.source.partition("#")[0]
            message = "no item is labelled clean: nothing can be compared"
            meant = f"; did you mean {Path(file).name}#unlisted=clean?" if self.unlabelled else ""
            return message + meant
        return "" if self.leaked else "no item is labelled leaked: nothing can be compared"

    @property
    def sentence(self) -> str:
        message = f"{len(self.leaked):,} items leaked, {len(self.clean):,} not"
        if self.undecided:
            message += f", {len(self.undecided):,} undecided"
        if self.unlabelled:
            message += (
                f", {len(self.unlabelled):,} without a label and left out "
                f"({_named(self.unlabelled)})"
            )
        return (
            f"{NOT_VERIFIED} ({Path(self.source).name}, sha256 {self.sha256[:12]}): {message}"
            + (f". {self.one_class[0].upper()}{self.one_class[1:]}" if self.one_class else "")
        )


def read_leak_labels(spec: str, items: Sequence[str] = ()) -> LeakLabels:
    """``spec``: FILE, or FILE#leaked=COLUMN,id=COLUMN,unlisted=clean. ``items``: the benchmark's ids; a
    label of another item is an error. Without ``unlisted=clean``, items that are not listed have no label.
    """
    path, settings = _settings(spec)
    unlisted = settings.pop("unlisted", None)
    if unlisted not in (None, "clean"):
        raise InputError(f"{spec}: unlisted={unlisted}; expected unlisted=clean, or leave it out")
    rows, columns, dropped = open_predictions(path, settings, items)
    if dropped:
        raise InputError(f"{path}: {dropped[0].id}: {dropped[0].reason} ({dropped[0].detail})")
    for name in ("id", "leaked") if columns.of("kind") is None else ("id",):
        if columns.of(name) is None:
            raise InputError(
                f"{path}: no column says {'which item it is' if name == 'id' else 'what leaked'}. It "
                f"has: {', '.join(columns.present) or 'no rows'}. Name it: {path.name}#{name}=COLUMN"
            )
    labels: dict[str, tuple[str, int]] = {}
    clusters: dict[str, str] = {}
    for row in rows:
        where = f"{path.name} row {row.number}"
        identifier = canonical_text(columns.cell(row.values, "id"))
        if identifier is None:
            raise InputError(f"{where}: the column '{columns.of('id')}' is empty")
        kind = _kind(columns.cell(row.values, "leaked"), columns.cell(row.values, "kind"), where)
        if kind is None:
            continue
        known = labels.setdefault(identifier, (kind, row.number))
        if known[0] != kind:
            raise InputError(
                f"{where}: item '{identifier}' is {kind or 'clean'} here and {known[0] or 'clean'} in row "
                f"{known[1]}; expected one label per item"
            )
        if (cluster := canonical_text(columns.cell(row.values, "cluster"))) is not None:
            clusters[identifier] = cluster
    kinds = {identifier: kind for identifier, (kind, _) in labels.items()}
    _check(path, kinds, items)
    absent = tuple(item for item in items if item not in kinds)
    if unlisted == "clean":
        kinds, absent = {**kinds, **dict.fromkeys(absent, CLEAN)}, ()
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return LeakLabels(str(spec), digest, kinds, absent, clusters)


def keep_leak_labels(run: Run, labels: LeakLabels | None) -> None:
    """Labels in a run folder, so that everything made of them is made again from it alone."""
    inputs = dict(run.manifest()["inputs"])
    if labels is None:
        run.remove(FILE)
        if inputs.pop("leaks", None) is not None:
            run.update("inputs", inputs, replace=True)
        return
    run.write_json(
        FILE,
        {
            "schema_version": 1,
            "source": labels.source,
            "sha256": labels.sha256,
            "kinds": labels.kinds,
            "unlabelled": list(labels.unlabelled),
        },
    )
    # Whether a search confirms them is reported with the scores: it is not known when they are read.
    about = {name: value for name, value in labels.summary().items() if name not in _JUDGED}
    run.update("inputs", {"leaks": about})


def kept_leak_labels(run: Run) -> LeakLabels | None:
    if not (run.path / FILE).exists():
        return None
    kept = run.read_json(FILE)
    return LeakLabels(kept["source"], kept["sha256"], kept["kinds"], tuple(kept["unlabelled"]))


def _settings(spec: str) -> tuple[Path, dict[str, str]]:
    if Path(spec).exists():
        return Path(spec), {}
    location, _, text = spec.partition("#")
    settings = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise InputError(f"{spec}: expected FILE#leaked=COLUMN,id=COLUMN,unlisted=clean")
        settings[name.strip()] = value.strip()
    return Path(location), settings


def _kind(leaked: Any, kind: Any, where: str) -> str | None:
    """The label of one row; None if it has none. A kind is how the item leaked."""
    message, how = _label(leaked, where), _label(kind, where)
    if (message, how) in ((LEAKED, CLEAN), (CLEAN, LEAKED)):
        raise InputError(
            f"{where}: leaked is {leaked!r:.40} and its kind is {kind!r:.40}, which contradict each other; "
            f"expected the name of a kind for what leaked, and none for what did not"
        )
    if message is None:
        return how
    return how if message == LEAKED and how else message


def _label(cell: Any, where: str) -> str | None:
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return None
    text = " ".join(str(cell).split()).lower()
    if not text or text in ("nan", "null"):
        return None
    truth = as_truth(cell)
    if truth is not None or text in _YES or text in _NO:
        return LEAKED if truth or text in _YES else CLEAN
    if text in _OPEN:
        return UNDECIDED
    try:
        float(text)
    except ValueError:
        return text[:40]
    raise InputError(
        f"{where}: the label is {text}; expected true or false, 0 or 1, or the name of a degree or kind. "
        f"Where it is a similarity, decide from which value on an item leaked"
    )


def _check(path: Path, kinds: Mapping[str, str], items: Collection[str]) -> None:
    if not kinds:
        raise InputError(f"{path} holds no label")
    names = sorted({kind for kind in kinds.values() if kind})
    if len(names) > _MOST_KINDS:
        raise InputError(
            f"{path}: {len(names):,} kinds of leak ({_named(names)}): is this the column of labels?"
        )
    known = set(items)
    strangers = [kind for kind in kinds if kind not in known] if known else []
    if strangers:
        raise InputError(
            f"{path}: {len(strangers):,} of {len(kinds):,} labelled ids are not in the benchmark: "
            f"{_named(strangers)}. Its ids are like {_named(list(items))}"
        )


def _named(ids: Sequence[str], most: int = _SHOWN) -> str:
    return ", ".join(ids[:most]) + (" …" if len(ids) > most else "")
