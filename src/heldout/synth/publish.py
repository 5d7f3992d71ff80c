"""Publish: the items that are left, as Parquet with the published fields, and as JSON Lines for trainers.

Rows are in the order of the nested subsets: a subset of n items is the first n rows of every file.
Rows name models by digests; ``provenance.json`` names each of them.
"""

from __future__ import annotations

import json
import os
import shutil
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from heldout.store import Run, inside, opened, opened_table, write_json
from heldout.synth._balance import RULES as BALANCE_RULES
from heldout.synth._balance import JudgedItem, by_rank
from heldout.synth._corpus_of_items import LINES, BalancedItem, LineStyle, image_paths, write_lines
from heldout.synth._generate import GENERATE_TEMPLATE, VERIFY_TEMPLATE
from heldout.synth.context import StageContext, StageWork
from heldout.synth.draft import LETTERS, content_digest
from heldout.synth.draft import RULES as LABELS
from heldout.synth.ledger import (
    StageWriter,
    answering_models,
    finished,
    folder,
    read_dropped,
    read_funnel,
    read_rows,
    table_path,
)
from heldout.synth.rubric import RUBRIC
from heldout.synth.settings import MODEL_ROLES, SynthStage
from heldout.synth.shortcut import OVERLONG, BlindItem, blind_rules, probe_rates, read_traces
from heldout.synth.shortcut import TEMPLATE as PROBES

STAGE = "publish"
DATASET, PROVENANCE = "dataset", "provenance.json"
FORMAT = "heldout-dataset/5"  # raise with any change of what is written
STATISTICS = 3  # schema of statistics.json
_SHARD = 1_000  # rows a file: hub viewers and streaming like files of a few hundred MB at most
_BATCH = 64
_NOT_ASKED = (
    "answered_by",
    "asked_as",
    "spent",
)  # of a model's entry in the manifest: what came of it
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
    name: [{"_type": "Image"}] if name == "images" else {"dtype": str(kind), "_type": "Value"}
    for name, kind in zip(SCHEMA.names, SCHEMA.types, strict=True)
}
# The `datasets` library reads this and decodes the images by itself.
_HUB = {b"huggingface": json.dumps({"info": {"features": _FEATURES}}).encode()}


def _publish(context: StageContext, writer: StageWriter) -> None:
    run, target = context.run, folder(context.run) / DATASET
    ranks = _ranks(run)
    if not ranks:  # the funnel says where they were dropped; an older dataset would contradict it
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
    write_json(building / PROVENANCE, _provenance(context, facts))
    _write_filter_log(context, building / "filter_log.jsonl")
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


def _provenance(context: StageContext, facts: Mapping[str, Any]) -> dict[str, Any]:
    """By role and digest, as the rows name them: model, template and settings of every generator and
    verifier of a published item, and how many items it has; other models after them. No addresses, no
    keys."""
    manifest = context.run.manifest()
    known = manifest.get("synth", {})
    models: dict[str, dict[str, dict[str, Any]]] = {
        # A generator or verifier in code, as for rendered scenes, has a name instead of a digest.
        role: {
            digest: {"model": digest, "items": items} for digest, items in facts[f"{role}s"].items()
        }
        for role in ("generator", "verifier")
    } | {role: {} for role in facts["other_models"]}
    for row in answering_models(context.run).to_dicts():
        role, digest = row["role"], row["digest"]
        if digest in models.get(role, {}) or role in facts["other_models"]:
            asked = {name: value for name, value in known[role].items() if name not in _NOT_ASKED}
            record = {
                name: row[name] for name in ("model", "fingerprint", "replies", "first", "last")
            }
            models[role][digest] = {**models[role].get(digest, {}), **record, "asked": asked}
    settings = context.settings.model_dump(mode="json", exclude={"source", "against", *MODEL_ROLES})
    return {
        "schema_version": 1,
        "heldout": manifest.get("packages", {}).get("heldout", ""),
        "models": models,
        "versions": {
            "labels": LABELS,
            "generate": GENERATE_TEMPLATE,
            "verify": VERIFY_TEMPLATE,
            "rubric": RUBRIC,
            "shortcut": PROBES,
            "balance": BALANCE_RULES,
            "dataset": FORMAT,
        },
        "settings": settings,
    }


def _write_filter_log(context: StageContext, path: Path) -> None:
    """One line for everything that did not reach the dataset: stage, id, reason, detail. Files are named
    from the source's folder on: folders of this machine are not published."""
    run, source = context.run, Path(context.settings.source)
    hidden = {f"{place.parent}/" for place in (source, source.resolve())} - {"./"}
    with path.open("w", encoding="utf-8") as file:
        for stage in SynthStage:
            for line in map(asdict, read_dropped(run, stage)):
                kept = {name: line[name] for name in ("stage", "id", "reason", "detail")}
                for place in hidden:
                    kept |= {name: kept[name].replace(place, "") for name in ("id", "detail")}
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
    """All files; in memory there are a thousand items without their images, and one batch with them."""
    run, settings = context.run, context.settings
    traces = read_traces(context, ranks)
    counted = _Counted()
    style = LineStyle(settings.name, _several_images(run))
    shards = -(-len(ranks) // _SHARD)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(TemporaryDirectory(dir=target)))
        texts = {
            name: stack.enter_context((target / name).open("w", encoding="utf-8")) for name in LINES
        }
        for shard, judged in enumerate(by_rank(run, ranks, scratch, _SHARD)):
            path = target / "data" / f"train-{shard:05d}-of-{shards:05d}.parquet"
            with pq.ParquetWriter(path, SCHEMA.with_metadata(_HUB), compression="zstd") as file:
                for start in range(0, len(judged), _BATCH):
                    rows = []
                    for place, judged_item in enumerate(judged[start : start + _BATCH], start):
                        row = _row(context, judged_item, shard * _SHARD + place, traces.kept)
                        rows.append(row)
                        counted.add(judged_item.item, judged_item.verdict["verifier"])
                        _link_images(run, judged_item.item, target)
                        write_lines(texts, judged_item.item, row, style)
                    file.write_table(pa.Table.from_pylist(rows, schema=SCHEMA))
    sizes = [size for size in settings.subsets if size < len(ranks)]
    probes = probe_rates(run)
    return {
        "schema_version": STATISTICS,
        "name": settings.name,
        "items": len(ranks),
        "subsets": [*sizes, len(ranks)],
        "traces": {"asked": traces.asked, "kept": len(traces.kept), "left_out": traces.left_out},
        "shortcut_probes": [asdict(probe) for probe in probes],
        "other_models": [
            *(["shortcut"] if any(probe.probe != OVERLONG for probe in probes) else []),
            *(["judge"] if settings.judge is not None and settings.against else []),
            *(["traces"] if traces.kept else []),
        ],
        **counted.as_json(),
    }


def _several_images(run: Run) -> bool:
    """Whether any selected figure has more than one image."""
    with opened_table(table_path(run, SynthStage.SELECT)) as file:
        images = file.read(columns=["images"])["images"]
    return (pc.max(pc.list_value_length(images)).as_py() or 0) > 1


class _Counted:
    """What the statistics count, item by item."""

    def __init__(self) -> None:
        self.words: Counter[int] = Counter()
        self.images: set[str] = set()
        self.articles: set[str] = set()
        self.flagged = self.unattributed = 0
        self.blind: list[BlindItem] = []
        self.labels: dict[str, Counter[str]] = defaultdict(Counter)

    def add(self, item: BalancedItem, verifier: str) -> None:
        draft, figure = item.draft, item.figure
        self.words[len(draft.question.split())] += 1
        self.images |= {image.sha256 for image in figure.images}
        self.articles.add(figure.article)
        self.flagged += item.flagged
        self.unattributed += not figure.attribution.strip()
        self.blind.append(BlindItem(draft.question, draft.options, draft.answer, figure.article))
        for name, value in (
            ("question_type", item.archetype),
            ("modality", item.modality),
            ("anatomy", item.anatomy),
            ("answer_label", draft.answer),
            ("licence", figure.licence),
            ("images_per_item", str(len(figure.images))),
            ("generators", draft.generator),
            ("verifiers", verifier),
        ):
            self.labels[name][value] += 1

    def as_json(self) -> dict[str, Any]:
        words = list(self.words.elements())
        return {
            "images": len(self.images),
            "articles": len(self.articles),
            "words_per_question": {"median": statistics.median(words), "max": max(words)},
            "shortcut_flags": self.flagged,
            "without_attribution": self.unattributed,
            "blind_rules": blind_rules(self.blind),
            **{
                name: dict(sorted(label.items()) if name in _IN_ORDER else label.most_common())
                for name, label in self.labels.items()
            },
        }


def _content(path: Path) -> bytes:
    with opened(path) as file:
        content: bytes = file.read()
    return content


def _row(
    context: StageContext, judged: JudgedItem, rank: int, traces: Mapping[str, str]
) -> dict[str, Any]:
    item, verdict = judged.item, judged.verdict
    draft, figure = item.draft, item.figure
    images = [
        {"bytes": _content(inside(context.run.path, image.path)), "path": Path(image.path).name}
        for image in figure.images
    ]
    options = json.dumps(dict(zip(LETTERS, draft.options, strict=True)), ensure_ascii=False)
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
        "hash": content_digest(draft, figure),
        "misc": json.dumps(misc, ensure_ascii=False),
        "licence": figure.licence,
        "licence_url": figure.licence_url,
        "attribution": figure.attribution,
        "provenance": json.dumps(provenance, ensure_ascii=False),
    }


def _link_images(run: Run, item: BalancedItem, target: Path) -> None:
    """The original files beside the JSON Lines; on one disk they take no room of their own."""
    for image, name in zip(item.figure.images, image_paths(item), strict=True):
        if not (target / name).exists():
            try:
                os.link(inside(run.path, image.path), target / name)
            except OSError:
                shutil.copyfile(inside(run.path, image.path), target / name)


def published_rows(run: Run) -> Iterator[dict[str, Any]]:
    """The rows of the published Parquet, in order, without their images."""
    for path in sorted((folder(run) / DATASET / "data").glob("*.parquet")):
        with opened_table(path) as file:
            columns = [name for name in SCHEMA.names if name != "images"]
            for batch in file.iter_batches(batch_size=256, columns=columns):
                yield from batch.to_pylist()
