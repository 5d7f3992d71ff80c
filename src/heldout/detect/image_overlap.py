"""image-overlap: how much of a benchmark is in a corpus, as exact or as verified transformed copies.

One finding per denominator: images, questions about leaked images (items, where they ask none), and, where
the corpus carries answers or labels, those that leaked together with theirs. They are never mixed. Where
images are undecided, a second finding counts them as copies: the two are the ends of what can be true.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection
from typing import Any

import polars as pl

from heldout.benchmark import BYTES_ONLY
from heldout.detect.finding import Cell, Finding, rate_finding
from heldout.evidence import (
    COPIES,
    LABEL_CONFLICTS,
    PICTURED,
    PROVEN,
    SUREST,
    Modality,
    Relation,
    Rung,
    undecided_because,
)
from heldout.overlap import ROWS, CondensedMatches, script

NAME = "image-overlap"
TEXT = "leaked text without its image"
POSSIBLE_IMAGES = "images, with the undecided"  # the unit of the upper end
HASHES_ARE_BLIND_TO = [
    "copies cropped by more than a few per cent, framed, tilted or changed in part",
    "copies inside compound figures",
    TEXT,
]
EXACT_IS_BLIND_TO = [
    "re-encoded (lossy), resized, cropped, rotated, flipped or recoloured copies",
    "copies inside compound figures",
    TEXT,
]


def image_overlap(
    items: pl.DataFrame,
    matches: CondensedMatches,
    leaked: pl.DataFrame,
    *,
    benchmark: str,
    corpus: str,
    corpus_images: int,
    corpus_answers: int,
    nearest: int = 0,
    hashes: bool = False,
) -> list[Finding]:
    """``items`` is the run's table, ``matches`` are its condensed ones, ``leaked`` is ``evidence.leaks`` of it;
    what cannot be compared is not in the denominator.

    ``nearest`` neighbours of every picture were verified, or with 0 what its ``hashes`` found; without
    both only exact copies were looked for.
    """
    here = matches.table.filter(pl.col("corpus") == corpus)
    transforms = matches.transforms.filter(pl.col("corpus") == corpus)
    hits = here.filter(pl.col("relation").is_in(COPIES))
    blind = HASHES_ARE_BLIND_TO if hashes else EXACT_IS_BLIND_TO
    neighbours = (
        "the nearest neighbour" if nearest == 1 else f"among the {nearest} nearest neighbours"
    )
    unseen = f"copies that are not {neighbours} of their picture"
    common: dict[str, Any] = {
        "detector": NAME,
        "cell": Cell(benchmark=benchmark, corpus=corpus),
        "blind_to": [unseen, TEXT] if nearest else blind,
        "table": "matches",
    }
    shown = leaked.filter((pl.col("corpus") == corpus) & pl.col("rung").is_in(PICTURED))
    pictured = set(shown["benchmark_id"])
    asked = bool((items["question"].fill_null("") != "").all())
    unit, with_answer = (
        ("questions", "questions with their answer")
        if asked
        else ("items", "items with their label")
    )
    foreign = _anotherscript(items, hits)
    findings = [
        *_images(items, hits, here, transforms, shown, corpus_images, common, foreign),
        _items(unit, f"{NAME}/{corpus}/{unit}", items, pictured, pictured, common),
    ]
    full = bool((shown["rung"] == Rung.FULL).any())
    if full or (not foreign and (corpus_answers or (hits["label_relation"] != "unknown").any())):
        answered = set(shown.filter(pl.col("rung") == Rung.FULL)["benchmark_id"])
        name = f"{NAME}/{corpus}/answers"
        findings.append(_items(with_answer, name, items, pictured, answered, common))
    return findings


def _anotherscript(items: pl.DataFrame, hits: pl.DataFrame) -> bool:
    """Whether the words beside every copy are written in another script than the item's own: then no
    answer there can be equal, whatever it says."""
    words = pl.concat_str("question", "answer", ignore_nulls=True, separator=" ")
    own = dict(items.select("benchmark_id", words.alias("words")).iter_rows())
    differ = False
    for identifier, evidence in hits.select("benchmark_id", "evidence").iter_rows():
        beside = json.loads(evidence)
        if "corpus_question" not in beside:
            continue
        mine = script(own[identifier])
        theirs = script(f"{beside['corpus_question']} {beside['corpus_answer']}")
        if mine and mine == theirs:
            return False
        differ |= bool(mine and theirs)
    return differ


def _images(
    items: pl.DataFrame,
    hits: pl.DataFrame,
    here: pl.DataFrame,
    transforms: pl.DataFrame,
    questions: pl.DataFrame,
    corpus_images: int,
    common: dict[str, Any],
    foreign: bool,
) -> list[Finding]:
    """Images with a proven copy; where some are undecided, also with these counted as copies."""
    corpus = common["cell"].corpus
    # One row per distinct picture (by digest), in the cluster of its first item.
    shown = (
        items.select("cluster", pl.col("image_digests").alias("digest"))
        .explode("digest")
        .filter(pl.col("digest").is_not_null())
    )
    leaked = _leaked_pictures(hits)
    # Of a picture that cannot be decoded only the bytes were compared: a hit counts, a miss says little.
    whole = (pl.col("digest") != "") & ~pl.col("digest").str.starts_with(BYTES_ONLY)
    compared = whole | pl.col("digest").is_in(list(leaked))
    pictures = shown.filter(compared).unique("digest", keep="first", maintain_order=True)
    strongest = _strongest(here)
    undecided = {
        picture for picture, relation in strongest.items() if relation == Relation.UNDECIDED
    }
    details = {
        "corpus_images_compared": corpus_images,
        "images_not_comparable": len(shown.filter(~compared)),
        "copies": int(hits[ROWS].sum()),
        "by_method": _count(hits, "method"),
        "by_transform": _count(transforms, "transform"),
        "by_relation": dict(Counter(sorted(strongest.values(), key=lambda name: SUREST[name]))),
        "undecided_because": _reasons(here, undecided),
        "by_modality": _count(questions.with_columns(pl.lit(1).alias(ROWS)), "modality"),
        "by_label_relation": _count(
            questions.with_columns(pl.lit(1).alias(ROWS)), "label_relation"
        ),
        "label_conflicts": 0
        if foreign
        else int(questions["label_relation"].is_in(LABEL_CONFLICTS).sum()),
        "answers_in_another_script": foreign,
    }

    def counting(digests: Collection[str], **names: Any) -> Finding:
        return rate_finding(
            [float(digest in digests) for digest in pictures["digest"]],
            pictures["cluster"].to_list(),
            **names,
            **common,
        )

    proven = counting(
        leaked,
        statistic="leaked images",
        effect="leak rate per image",
        id=f"{NAME}/{corpus}/images",
        unit="images",
        details=details,
    )
    if not undecided:
        return [proven]
    possible = counting(
        leaked | undecided,
        statistic="leaked or undecided images",
        effect="leak rate per image, if every undecided one is a copy",
        id=f"{NAME}/{corpus}/images-possible",
        unit=POSSIBLE_IMAGES,
    )
    return [proven, possible]


def _items(
    unit: str,
    name: str,
    items: pl.DataFrame,
    leaked: Collection[str],
    counted: Collection[str],
    common: dict[str, Any],
) -> Finding:
    """An item without a leaked image counts as not leaked only if all its images were compared."""
    digests = pl.col("image_digests")
    lost = pl.element().eq("") | pl.element().str.starts_with(BYTES_ONLY)
    whole = (digests.list.len() > 0) & ~digests.list.eval(lost).list.any()
    tested = items.filter(whole | pl.col("benchmark_id").is_in(list(leaked)))
    return rate_finding(
        [float(item in counted) for item in tested["benchmark_id"]],
        tested["cluster"].to_list(),
        statistic=f"leaked {unit}",
        effect="leak rate per question" if unit.startswith("questions") else "leak rate per item",
        id=name,
        unit=unit,
        **common,
    )


def _leaked_pictures(hits: pl.DataFrame) -> set[str]:
    if hits.is_empty():
        return set()
    return set(
        hits.select(pl.col("evidence").str.json_path_match("$.benchmark_pixels")).to_series()
    )


def _strongest(here: pl.DataFrame) -> dict[str, str]:
    """Every picture once, under the surest relation that it has to any picture of the corpus."""
    if here.is_empty():
        return {}
    picture = pl.col("evidence").str.json_path_match("$.benchmark_pixels").alias("picture")
    strongest: dict[str, str] = {}
    for name, relation in here.select(picture, "relation").unique().iter_rows():
        known = strongest.get(name, relation)
        strongest[name] = min(known, relation, key=lambda value: SUREST[value])
    return strongest


def _reasons(here: pl.DataFrame, undecided: Collection[str]) -> dict[str, int]:
    """Undecided pictures by the reason why registration could not decide their nearest match."""
    rows = here.filter(pl.col("relation") == Relation.UNDECIDED)
    rows = rows.sort("similarity", descending=True, nulls_last=True, maintain_order=True)
    because: dict[str, str] = {}
    for row in rows.iter_rows(named=True):
        picture, reason = undecided_because(row)
        if picture in undecided:
            because.setdefault(picture, reason)
    return dict(Counter(because.values()).most_common())


def _count(hits: pl.DataFrame, column: str) -> dict[str, int]:
    """Rows by value, the commonest first."""
    counts = hits.group_by(column).agg(pl.col(ROWS).sum())
    return dict(counts.sort(-pl.col(ROWS), column).iter_rows())


# joined-leakage: what of each item leaked into a corpus, picture and words taken together.
#
# A picture without its question changes little; a question without its picture may change nothing; all three
# together give the answer away. One row per item and corpus says which of them leaked, one finding per corpus
# counts the rows.


JOINED = "joined-leakage"
_LEAKED = (Modality.FULL, Modality.IMAGE_AND_QUESTION, Modality.IMAGE_ONLY, Modality.TEXT_ONLY)
LISTED = 50  # items named in a finding; the table leaks has them all


def joined_leakage(
    items: pl.DataFrame, leaked: pl.DataFrame, *, benchmark: str, corpus: str
) -> Finding:
    """``leaked`` is ``evidence.leaks`` of the run. An item counts where its leak is proven: by its picture,
    or by question and answer word for word."""
    here = leaked.filter(pl.col("corpus") == corpus)
    proven = here.filter(pl.col("rung").is_in(PROVEN))
    counted = set(proven["benchmark_id"])
    return rate_finding(
        [float(item in counted) for item in items["benchmark_id"]],
        items["cluster"].to_list(),
        statistic="items with a proven leak",
        effect="proven leaks per item, by picture or words",
        id=f"{JOINED}/{corpus}",
        detector=JOINED,
        cell=Cell(benchmark=benchmark, corpus=corpus),
        unit="items",
        blind_to=["what neither the image search nor the text search can see"],
        table="leaks",
        details={
            "by_modality": {
                **{modality: _count_joined(proven, "modality", modality) for modality in _LEAKED},
                Modality.SOURCE_ONLY: _count_joined(here, "modality", Modality.SOURCE_ONLY),
            },
            "by_rung": {rung: _count_joined(here, "rung", rung) for rung in reversed(Rung)},
            "by_label_relation": {
                name: _count_joined(proven, "label_relation", name)
                for name in ("same", "different", "conflicting", "unknown")
            },
            **_several(here),
        },
    )


def _several(here: pl.DataFrame) -> dict[str, Any]:
    """Items that stand in more than one corpus item: the ones to look at first."""
    total = pl.col("image_hits") + pl.col("text_hits") + pl.col("source_hits")
    many = here.filter((pl.col("image_hits") > 1) | (pl.col("text_hits") > 1)).sort(
        total, descending=True, maintain_order=True
    )
    return {
        "multi_hits": len(many),
        "multi_hit_items": many["benchmark_id"].to_list()[:LISTED],
    }


def _count_joined(table: pl.DataFrame, column: str, value: str) -> int:
    return int((table[column] == value).sum())
