"""Cards of matches: one per pair of pictures, however many questions and corpus items show it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from heldout.errors import InputError
from heldout.evidence import BY_DIGEST, Relation
from heldout.overlap import match_subject
from heldout.review.card import Card
from heldout.review.locate import locations
from heldout.review.pictures import Album, Picture, same_bytes
from heldout.store import Run

SHOWN = 20  # questions and corpus items that are listed with a pair


def match_cards(run: Run, *, unrelated: bool = False) -> list[Card]:
    """In the order of the table; ``unrelated`` adds the pairs of which the tool says nothing aligns."""
    if not run.table_path("matches").exists():
        raise InputError(f"{run.path} has no matches to judge: run heldout overlap into it first")
    items = {row["benchmark_id"]: row for row in run.read_table("items").to_pylist()}
    album = Album(run)
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in run.read_table("matches").to_pylist():
        if row["relation"] == Relation.UNRELATED and not unrelated:
            continue
        row["evidence"] = json.loads(row["evidence"])
        subject = match_subject(row["evidence"], row["corpus"], row["corpus_id"])
        groups.setdefault(subject, []).append(row)
    return [_card(subject, rows, items, album) for subject, rows in groups.items()]


def _card(
    subject: str,
    rows: list[dict[str, Any]],
    items: Mapping[str, Mapping[str, Any]],
    album: Album,
) -> Card:
    first = rows[0]
    evidence = first["evidence"]
    registration = evidence.get("registration")
    item = items[first["benchmark_id"]]
    name = item["image_names"][first["image_index"]]
    return Card(
        subject=subject,
        cluster=item["cluster"],
        told={
            "query": {
                "name": name,
                "questions": _questions(rows, items),
                "metadata": _shared_metadata(rows, items),
            },
            "neighbour": {
                "places": _places(rows),
                "file": evidence.get("corpus_source", ""),
                "text": evidence.get("corpus_text", ""),
                "question": evidence.get("corpus_question", ""),
                "answer": evidence.get("corpus_answer", ""),
            },
            "laid": laid_on_query(registration["warp"] if registration else None)
            if registration or first["method"] in BY_DIGEST
            else None,
            "inverted": bool(registration and registration["inverted"]),
        },
        hint=_hint(rows),
        pictures={
            "query": _query(album, first, name),
            "neighbour": neighbour_picture(album, evidence, first["corpus_id"]),
        },
        decides=tuple(sorted({(row["corpus"], evidence["benchmark_pixels"]) for row in rows})),
    )


def _questions(
    rows: list[dict[str, Any]], items: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, Any]]:
    names = list(dict.fromkeys(row["benchmark_id"] for row in rows))
    fields = ("question", "options", "answer")
    return [{"id": name, **{key: items[name][key] for key in fields}} for name in names[:SHOWN]]


def _shared_metadata(
    rows: list[dict[str, Any]], items: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """What all items of the picture say alike: it speaks of the picture, the rest of a question."""
    records = [json.loads(items[row["benchmark_id"]]["metadata"] or "{}") for row in rows]
    return {
        key: value for key, value in records[0].items() if all(o.get(key) == value for o in records)
    }


def _places(rows: list[dict[str, Any]]) -> list[str]:
    fromkeys = dict.fromkeys(f"{row['corpus']}: {row['corpus_id']}" for row in rows)
    return list(fromkeys)[:SHOWN]


def _hint(rows: list[dict[str, Any]]) -> dict[str, Any]:
    first = rows[0]
    registration = first["evidence"].get("registration") or {}
    numbers = ("correlation", "detail", "residual", "overlap", "inliers")
    return {
        "relation": first["relation"],
        "transform": first["transform"],
        "method": first["method"],
        "similarity": first["similarity"],
        "degree": first["degree"],
        "modality": sorted({row["modality"] for row in rows}),
        "registration": {key: registration[key] for key in numbers if key in registration},
        "unverified": first["evidence"].get("unverified"),
    }


def _query(album: Album, row: Mapping[str, Any], name: str) -> Picture:
    digest = row["evidence"]["benchmark_image"]
    return Picture(
        name,
        lambda: album.of_benchmark(row["benchmark_id"], row["image_index"]),
        same_bytes(digest),
        lambda: album.thumbnail(digest),
    )


def neighbour_picture(album: Album, evidence: Mapping[str, Any], corpus_id: str) -> Picture:
    digest = evidence.get("corpus_image", "")
    return Picture(
        corpus_id,
        lambda: locations(evidence.get("corpus_source", ""), album.directories),
        same_bytes(digest),
        lambda: album.thumbnail(digest),
    )


def laid_on_query(warp: list[list[float]] | None) -> list[list[float]] | None:
    """Neighbour to query, as a page draws: the warp the other way, of pixels' corners.

    Registration speaks of centres (the first pixel is at 0, 0), a page of corners (it is at ½, ½).
    """
    if warp is None:
        return np.eye(3).tolist()  # equal bytes or pixels lie on each other as they are
    matrix = np.array(warp, dtype=np.float64)
    if matrix.shape != (3, 3) or not np.isfinite(matrix).all():
        return None
    if abs(np.linalg.det(matrix[:2, :2])) < 1e-9 or abs(np.linalg.det(matrix)) < 1e-9:
        return None
    half = np.array([[1, 0, 0.5], [0, 1, 0.5], [0, 0, 1.0]])
    laid = half @ np.linalg.inv(matrix) @ np.linalg.inv(half)
    return (laid / laid[2, 2]).tolist() if abs(laid[2, 2]) > 1e-12 else None
