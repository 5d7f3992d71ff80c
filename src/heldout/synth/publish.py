"""Publish: the items that are left, as Parquet with the published fields, and as JSON Lines for trainers.

Rows stand in the order of the nested subsets: a subset of n items is the first n rows of every file.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.store import Run, write_json
from heldout.synth.blind_rules import BlindItem, blind_rules
from heldout.synth.context import StageContext, StageWork
from heldout.synth.corpus_of_items import BalancedItem, balanced_items
from heldout.synth.draft import LETTERS
from heldout.synth.funnel import read_funnel
from heldout.synth.ledger import StageWriter, finished, folder, read_dropped, read_rows
from heldout.synth.settings import SynthStage
from heldout.synth.traces import read_traces

STAGE = "publish"
DATASET = "dataset"
FORMAT = "heldout-dataset/2"  # raise with any change of what is written
_SHARD = 1_000  # rows a file: hub viewers and streaming like files of a few hundred MB at most
_BATCH = 64
_IN_ORDER = ("answer_label", "images_per_item")  # others by frequency
_IMAGE = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
SCHEMA = pa.schema(
    [
        ("images", pa.list_(_IMAGE)),
        ("question", pa.string()),
        ("options", pa.string()),  # a JSON object by letter
        ("answer_label", pa.string()),
        ("answer", pa.string()),
        ("reasoning", pa.string()),
        ("dataset_name", pa.string()),
        ("dataset_index", pa.int64()),
        ("hash", pa.string()),
        ("misc", pa.string()),  # a JSON object: labels, scores, rubric, shortcut flags
        ("licence", pa.string()),
        ("licence_url", pa.string()),
        ("attribution", pa.string()),
        ("provenance", pa.string()),  # a JSON object: article, figure, source, generator, verifier
    ]
)
_FEATURES = {
    name: [{"_type": "Image"}] if name == "images"
    else {"dtype": str(kind), "_type": "Value"}
    for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
}  # fmt: skip
# The `datasets` library reads this and decodes the images by itself.
_HUB = {b"huggingface": json.dumps({"info": {"features": _FEATURES}}).encode()}
INSTRUCTION = (
    "Think about the question step by step inside <think> and </think>. Then give the letter of "
    "the right option "
    "inside <answer> and </answer>."
)


def _publish(context: StageContext, writer: StageWriter) -> None:
    run, target = context.run, folder(context.run) / DATASET
    ranks = _ranks(run)
    if not ranks:  # the funnel says where they were dropped; an older dataset would belie it
        shutil.rmtree(target, ignore_errors=True)
        return
    building = target.with_name(f".{DATASET}.building")
    shutil.rmtree(building, ignore_errors=True)
    (building / "data").mkdir(parents=True)
    (building / "images").mkdir()
    facts = _write(context, building, ranks)
    write_json(
        building / "statistics.json", {**facts, "funnel": read_funnel(run).as_json()["steps"]}
    )
    _write_filter_log(run, building / "filter_log.jsonl")
    report = folder(run) / "contamination.json"
    if finished(run, SynthStage.DECONTAMINATE) and report.exists():
        shutil.copyfile(report, building / report.name)
    shutil.rmtree(target, ignore_errors=True)
    building.rename(target)
    for name, rank in sorted(ranks.items(), key=lambda pair: pair[1]):
        writer.keep({"id": name, "rank": rank})


PUBLISH = StageWork(
    SynthStage.PUBLISH,
    _publish,
    ("name", "subsets", "traces", "seed", "against"),
    (
        SynthStage.SELECT,
        SynthStage.GENERATE,
        SynthStage.VERIFY,
        SynthStage.SHORTCUT,
        SynthStage.BALANCE,
        SynthStage.DECONTAMINATE,
    ),
    (FORMAT,),
)


def _write_filter_log(run: Run, path: Path) -> None:
    """One line for everything that did not reach the dataset: stage, id, reason, detail."""
    with path.open("w", encoding="utf-8") as file:
        for stage in SynthStage:
            for line in map(asdict, read_dropped(run, stage)):
                kept = {name: line[name] for name in ("stage", "id", "reason", "detail")}
                file.write(json.dumps(kept, ensure_ascii=False) + "\n")


def _ranks(run: Run) -> dict[str, int]:
    """Final ranks of the items that are left, 0, 1, …; without a decontamination all balanced ones
    are left."""
    removed = set()
    if finished(run, SynthStage.DECONTAMINATE):
        rows = read_rows(run, SynthStage.DECONTAMINATE)
        removed = {row["id"] for row in rows if row["removed"]}
    order = sorted((row["rank"], row["id"]) for row in read_rows(run, SynthStage.BALANCE))
    left = [name for _, name in order if name not in removed]
    return {name: rank for rank, name in enumerate(left)}


def _write(context: StageContext, target: Path, ranks: Mapping[str, int]) -> dict[str, Any]:
    """All files, one pass over the items for each shard of rows: memory holds one batch of images."""
    run, settings = context.run, context.settings
    verdicts = {row["id"]: row for row in read_rows(run, SynthStage.VERIFY) if row["id"] in ranks}
    traces = read_traces(context, ranks)
    places: dict[int, BalancedItem] = {
        ranks[item.draft.id]: item for item in balanced_items(run) if item.draft.id in ranks
    }
    counts: dict[str, Counter[str]] = {
        name: Counter()
        for name in (
            "question_type",
            "modality",
            "anatomy",
            "answer_label",
            "licence",
            "images_per_item",
        )
    }
    words: list[int] = []
    shards = -(-len(places) // _SHARD)
    with ExitStack() as stack:
        texts = {
            name: stack.enter_context((target / name).open("w", encoding="utf-8"))
            for name in _LINES
        }
        for shard in range(shards):
            path = target / "data" / f"train-{shard:05d}-of-{shards:05d}.parquet"
            with pq.ParquetWriter(path, SCHEMA.with_metadata(_HUB), compression="zstd") as file:
                last = min((shard + 1) * _SHARD, len(places))
                for start in range(shard * _SHARD, last, _BATCH):
                    rows = []
                    for rank in range(start, min(start + _BATCH, last)):
                        item = places[rank]
                        row = _row(context, item, rank, verdicts[item.draft.id], traces)
                        rows.append(row)
                        _count(counts, item)
                        words.append(len(item.draft.question.split()))
                        _link_images(run, item, target)
                        _write_lines(texts, item, row, settings.name)
                    file.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
    sizes = [size for size in settings.subsets if size < len(places)]
    return {
        "schema_version": 1,
        "name": settings.name,
        "items": len(places),
        "images": len({image.sha256 for item in places.values() for image in item.figure.images}),
        "articles": len({item.figure.article for item in places.values()}),
        "subsets": [*sizes, len(places)],
        "words_per_question": {"median": statistics.median(words), "max": max(words)},
        "shortcut_flags": sum(item.flagged for item in places.values()),
        "traces": len(traces),
        "blind_rules": blind_rules([_blind(item) for item in places.values()]),
        **{
            name: dict(sorted(found.items()) if name in _IN_ORDER else found.most_common())
            for name, found in counts.items()
        },
    }


def _blind(item: BalancedItem) -> BlindItem:
    draft = item.draft
    return BlindItem(draft.question, draft.options, draft.answer, item.figure.article)


def _count(counts: Mapping[str, Counter[str]], item: BalancedItem) -> None:
    counts["question_type"][item.archetype] += 1
    counts["modality"][item.modality] += 1
    counts["anatomy"][item.anatomy] += 1
    counts["answer_label"][item.draft.answer] += 1
    counts["licence"][item.figure.licence] += 1
    counts["images_per_item"][str(len(item.figure.images))] += 1


def _row(
    context: StageContext,
    item: BalancedItem,
    rank: int,
    verdict: Mapping[str, Any],
    traces: Mapping[str, str],
) -> dict[str, Any]:
    draft, figure = item.draft, item.figure
    images = [
        {"bytes": (context.run.path / image.path).read_bytes(), "path": Path(image.path).name}
        for image in figure.images
    ]
    options = json.dumps(dict(zip(LETTERS, draft.options, strict=True)), ensure_ascii=False)
    content = "\0".join((draft.question, options, draft.answer, *(i.sha256 for i in figure.images)))
    misc = {
        "id": draft.id,
        "question_type": item.archetype,
        "modality": item.modality,
        "anatomy": item.anatomy,
        "shortcut": item.flagged,
        "score_bonus_only": verdict["score_bonus_only"],
        "score_with_essentials": verdict["score_with_essentials"],
        "rubric": verdict["rubric"],
    }
    provenance = {
        "article": figure.article,
        "figure": figure.id,
        "label": figure.label,
        "generator": draft.generator,
        "verifier": verdict["verifier"],
    }
    return {
        "images": images,
        "question": draft.question,
        "options": options,
        "answer_label": draft.answer,
        "answer": draft.options[LETTERS.index(draft.answer)],
        "reasoning": traces.get(draft.id, ""),
        "dataset_name": context.settings.name,
        "dataset_index": rank,
        "hash": hashlib.sha256(content.encode()).hexdigest(),
        "misc": json.dumps(misc, ensure_ascii=False),
        "licence": figure.licence,
        "licence_url": figure.licence_url,
        "attribution": figure.attribution,
        "provenance": json.dumps(provenance, ensure_ascii=False),
    }


def asked(item: BalancedItem) -> str:
    shown = "\n".join(
        f"{letter}. {option}" for letter, option in zip(LETTERS, item.draft.options, strict=True)
    )
    return f"{item.draft.question}\n{shown}\n\n{INSTRUCTION}"


def _paths(item: BalancedItem) -> list[str]:
    """From the dataset's folder."""
    return [f"images/{Path(image.path).name}" for image in item.figure.images]


def _link_images(run: Run, item: BalancedItem, target: Path) -> None:
    """The original files beside the JSON Lines; on one disk they take no room of their own."""
    for image, name in zip(item.figure.images, _paths(item), strict=True):
        if not (target / name).exists():
            try:
                os.link(run.path / image.path, target / name)
            except OSError:
                shutil.copyfile(run.path / image.path, target / name)


def _trl(item: BalancedItem, row: Mapping[str, Any], name: str) -> dict[str, Any]:
    images = [{"type": "image"} for _ in item.figure.images]
    line: dict[str, Any] = {
        "prompt": [{"role": "user", "content": [*images, {"type": "text", "text": asked(item)}]}],
        "images": _paths(item),
        "solution": f"{row['answer_label']}. {row['answer']}",
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
        "images": [{"image": path} for path in _paths(item)],
        "ability": "visual question answering",
        "reward_model": {"style": "rule", "ground_truth": row["answer_label"]},
        "extra_info": {"index": row["dataset_index"], "answer": row["answer"]},
    }


def _llava(item: BalancedItem, row: Mapping[str, Any], name: str) -> dict[str, Any]:
    paths = _paths(item)
    marks = "<image>\n" * len(paths)
    reply = f"<answer>{row['answer_label']}</answer>"
    if row["reasoning"]:
        reply = f"<think>{row['reasoning']}</think>{reply}"
    return {
        "id": item.draft.id,
        "image": paths[0] if len(paths) == 1 else paths,
        "conversations": [
            {"from": "human", "value": f"{marks}{asked(item)}"},
            {"from": "gpt", "value": reply},
        ],
    }


_LINES: Mapping[str, Callable[[BalancedItem, Mapping[str, Any], str], dict[str, Any]]] = {
    "trl.jsonl": _trl,
    "verl.jsonl": _verl,
    "llava.jsonl": _llava,
}


def _write_lines(
    files: Mapping[str, TextIO], item: BalancedItem, row: Mapping[str, Any], name: str
) -> None:
    for file, make in _LINES.items():
        files[file].write(json.dumps(make(item, row, name), ensure_ascii=False) + "\n")


def published_rows(run: Run) -> Iterator[dict[str, Any]]:
    """The rows of the published Parquet, in order, without their images."""
    for path in sorted((folder(run) / DATASET / "data").glob("*.parquet")):
        with pq.ParquetFile(path) as file:
            columns = [name for name in SCHEMA.names if name != "images"]
            for batch in file.iter_batches(batch_size=256, columns=columns):
                yield from batch.to_pylist()
