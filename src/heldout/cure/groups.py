"""What must stay in one split, and which split it goes to: the same on every machine."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from heldout.benchmark import Benchmark, Opened, canonical_value
from heldout.cure.roundtrip import pictures
from heldout.cure.writing import entries
from heldout.errors import InputError
from heldout.evidence import POSSIBLE_COPIES, evidence_of
from heldout.image import Digests
from heldout.overlap import read_matches
from heldout.store import Run


def assign(
    groups: Sequence[str],
    sizes: Sequence[int],
    *,
    strata: Sequence[str] | None = None,
    seed: int = 0,
) -> list[int]:
    """The split of every item. Groups come in an order of hashes, which depends on nothing else.

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
        for group, count in sorted(own, key=lambda one: _rank(one[0], seed)):
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

    places = [f"entry:{n}:{place}" for n, one in enumerate(opened) for place in entries(one)]
    for cluster, entry in zip(union.clusters, places, strict=True):
        join(cluster, entry)
    for one, other in _copies(union, run):
        join(one, other)
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
    for row in read_matches(run).to_dicts():
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
    chosen = {group: min(found, key=lambda v: (-found[v], v)) for group, found in counts.items()}
    return [chosen[group] for group in groups]
