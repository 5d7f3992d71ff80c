"""New splits of the union of old ones, so that no two share a picture (or a patient)."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout import __version__
from heldout.benchmark import Benchmark, Example, Opened, canonical_value
from heldout.cure._files import (
    TableSelection,
    atomic_folder,
    chosen_by_table,
    compare,
    entries,
    pictures,
    write_file,
    write_list,
)
from heldout.engine import progress
from heldout.errors import InputError
from heldout.evidence import POSSIBLE_COPIES, evidence_of
from heldout.image import Digests
from heldout.overlap import match_batches
from heldout.store import Run, write_json

# What must stay in one split, and which split it goes to: the same on every machine.


def assign(
    groups: Sequence[str],
    sizes: Sequence[int],
    *,
    strata: Sequence[str] | None = None,
    seed: int = 0,
) -> list[int]:
    """The split of every item. Groups come in the order of their hashes, which depends on nothing else.

    Each goes to the split that lacks the largest part of its size, stratum by stratum.
    """
    members: dict[tuple[str, str], int] = Counter(
        zip(strata or [""] * len(groups), groups, strict=True)
    )
    share = [size / sum(sizes) for size in sizes]
    home: dict[str, int] = {}
    totals: Counter[str] = Counter()
    for (stratum, _), count in members.items():
        totals[stratum] += count
    for stratum in sorted(totals):
        targets = [part * totals[stratum] for part in share]
        filled = [0] * len(sizes)
        own = [(group, count) for (where, group), count in members.items() if where == stratum]
        for group, count in sorted(own, key=lambda entry: _rank(entry[0], seed)):
            lack = [(want - have) / want for want, have in zip(targets, filled, strict=True)]
            home[group] = lack.index(max(lack))
            filled[home[group]] += count
    return [home[group] for group in groups]


def _rank(group: str, seed: int) -> str:
    return hashlib.sha256(f"{seed}:{group}".encode()).hexdigest()


def groups_of(union: Benchmark, opened: Sequence[Opened], run: Run | None) -> list[str]:
    """What stays together, named after its smallest picture so that file order does not matter."""
    parent: dict[str, str] = {}

    def root(key: str) -> str:
        while parent.setdefault(key, key) != key:
            parent[key] = key = parent[parent[key]]
        return key

    def join(text: str, other: str) -> None:
        first, second = sorted((root(text), root(other)))
        parent[second] = first

    places = [f"entry:{n}:{place}" for n, split in enumerate(opened) for place in entries(split)]
    for cluster, entry in zip(union.clusters, places, strict=True):
        join(cluster, entry)
    for first, second in _copies(union, run):
        join(first, second)
    smallest: dict[str, str] = {}
    for example, cluster in zip(union, union.clusters, strict=True):
        key = min(pictures([example], union), default=f"item:{example.id}")
        own = root(cluster)
        smallest[own] = min(smallest.get(own, key), key)
    return [smallest[root(cluster)] for cluster in union.clusters]


def _copies(union: Benchmark, run: Run | None) -> list[tuple[str, str]]:
    """Clusters of pictures that a run matched with one another."""
    if run is None:
        return []
    cluster_of: dict[str, str] = {}
    for example, cluster in zip(union, union.clusters, strict=True):
        for ref in example.images:
            digest = union.digests[ref]
            if isinstance(digest, Digests):
                cluster_of[digest.bytes] = cluster
    pairs = []
    for row in (row for frame in match_batches(run) for row in frame.iter_rows(named=True)):
        if row["relation"] in POSSIBLE_COPIES:
            evidence = evidence_of(row)
            ends = [evidence.get("benchmark_image"), evidence.get("corpus_image")]
            if all(end in cluster_of for end in ends):
                pairs.append((cluster_of[str(ends[0])], cluster_of[str(ends[1])]))
    return pairs


def strata_of(union: Benchmark, groups: Sequence[str], column: str | None) -> Sequence[str] | None:
    """For every item the stratum of its group: the value most of its items have."""
    if column is None:
        return None
    columns = {name for example in union for name in example.metadata}
    if column not in columns:
        listed = ", ".join(sorted(columns)) or "none"
        raise InputError(f"stratify {column}: no item has this column. There are: {listed}")
    counts: Mapping[str, Counter[str]] = defaultdict(Counter)
    for example, group in zip(union, groups, strict=True):
        counts[group][canonical_value(example.metadata.get(column)) or ""] += 1
    most_frequent = {
        group: min(values, key=lambda v: (-values[v], v)) for group, values in counts.items()
    }
    return [most_frequent[group] for group in groups]


RESPLIT_VERSION = 1
CLEAN = "clean"


def write_new_splits(
    opened: Sequence[Opened],
    out: Path,
    *,
    run: Run | None = None,
    stratify: str | None = None,
    seed: int = 0,
    quiet: bool = True,
) -> dict[str, Any]:
    """As many new splits as old ones, of about the old sizes, written in the format of the input.

    Items that share a picture, a cluster column's value or an entry of a file stay together, and so
    do pictures that ``run`` found to be copies of one another (undecided ones too).
    """
    names = _names(opened)
    union = Benchmark(
        name="union", examples=tuple(example for split in opened for example in split.benchmark)
    )
    title = f"reading the images of {', '.join(names)}"
    with progress(title, len(union.images), "images", disabled=quiet) as step:
        union.identify(step)
    groups = groups_of(union, opened, run)
    sizes = [len(split.benchmark) for split in opened]
    home = assign(groups, sizes, strata=strata_of(union, groups, stratify), seed=seed)
    for number, name in enumerate(names):
        if number not in home:
            raise InputError(
                f"the union has too few independent images to fill the split '{name}': "
                f"{len(set(groups)):,} groups for {len(opened)} splits"
            )
    with atomic_folder(out) as folder:
        clean = folder / CLEAN
        written = [
            _write_split(opened, names, home, number, union, clean) for number in range(len(names))
        ]
        if opened[0].tables[0].file.reader.name == "arrow":
            write_json(clean / "dataset_dict.json", {"splits": names})
        write_list(folder, "moved", (row for split in written for row in split.moved))
        shown = [split.shown for split in written]
        manifest = {
            "resplit_version": RESPLIT_VERSION,
            "heldout": __version__,
            "seed": seed,
            "stratify": stratify,
            "groups": len(set(groups)),
            "splits": [
                {**split.facts, "open": split.target.relative_to(folder).as_posix()}
                for split in written
            ],
            "shared_images": sum(
                len(shown[a] & shown[b]) for a in range(len(shown)) for b in range(a)
            ),
            "cautions": _cautions(run),
            "differences": [difference for split in written for difference in split.differences],
        }
        write_json(folder / "manifest.json", manifest)
    return manifest


@dataclass(frozen=True)
class _Written:
    target: Path
    facts: dict[str, Any]
    moved: list[dict[str, Any]]
    shown: set[str]  # the pictures of the split as it reads now
    differences: list[str]


def _write_split(
    opened: Sequence[Opened],
    names: Sequence[str],
    home: Sequence[int],
    number: int,
    union: Benchmark,
    clean: Path,
) -> _Written:
    own, name = opened[number], names[number]
    parts: list[tuple[str, TableSelection]] = []
    start = 0
    for origin, source in zip(names, opened, strict=True):
        end = start + len(source.benchmark)
        keep = [place == number for place in home[start:end]]
        parts += [(origin, part) for part in chosen_by_table(source, keep)]
        start = end
    # The split's own table comes first: its frame and its columns are the new file's.
    parts.sort(key=lambda pair: pair[0] != name)
    root, target = _place(opened, number, name, clean)
    write_file([part for _, part in parts], target, root)
    pairs = [(origin, example) for origin, part in parts for example in part.examples]
    if own.tables[0].file.reader.name == "image-folder":
        pairs = _as_a_folder_has_them(pairs)
    back = own.reading.back(target)
    trip = compare([example for _, example in pairs], union, back)
    called: Sequence[str | None] = trip.ids if len(trip.ids) == len(pairs) else [None] * len(pairs)
    moved = [
        {"benchmark_id": example.id, "written_id": now, "from": origin, "to": name}
        for (origin, example), now in zip(pairs, called, strict=True)
    ]
    facts = {
        "name": name,
        "source": own.benchmark.source,
        "items_before": len(own.benchmark),
        "items": len(pairs),
        "images": len(pictures(back.examples, back)),
        "moved_in": sum(origin != name for origin, _ in pairs),
        "fingerprint": back.fingerprint,
    }
    differences = [f"{name}: {difference}" for difference in trip.differences]
    return _Written(target, facts, moved, pictures(back.examples, back), differences)


def _as_a_folder_has_them(pairs: Sequence[tuple[str, Example]]) -> list[tuple[str, Example]]:
    """In the order of their names, each file once: both splits may have held it."""
    once = {example.id: (origin, example) for origin, example in reversed(pairs)}
    return [once[name] for name in sorted(once, key=lambda name: name.encode().split(b"/"))]


def _place(opened: Sequence[Opened], number: int, name: str, clean: Path) -> tuple[Path, Path]:
    """Where a split's images are counted from, and where its file goes."""
    targets = [_target(split) for split in opened]
    if opened[number].tables[0].file.path.is_dir():
        return clean, clean / name
    if len(set(targets)) < len(targets):  # test/data.json and train/data.json
        return clean / name, clean / name / targets[number]
    return clean, clean / targets[number]


def _names(opened: Sequence[Opened]) -> list[str]:
    names = [split.benchmark.split or split.benchmark.name for split in opened]
    if len(set(names)) < len(names):
        raise InputError(
            f"the splits are called {', '.join(names)}: give files whose names say which split they are"
        )
    return names


def _target(opened: Opened) -> Path:
    relative = opened.tables[0].relative
    if len(opened.tables) > 1:  # the parts of a table become one
        split = opened.benchmark.split or opened.benchmark.name
        relative = relative.with_name(split + relative.suffix)
    return relative


def _cautions(run: Run | None) -> list[str]:
    stages = run.manifest()["stages"].values() if run is not None else ()
    if any(stage.get("encoder") for stage in stages):
        return []
    return [
        "images were compared by pixels only: resized or re-compressed copies of one image "
        "may be in two splits; give the setting run, a search of one split in the other with an encoder"
    ]
