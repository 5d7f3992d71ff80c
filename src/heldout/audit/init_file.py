"""`heldout audit --init`: an audit file made from the files in a folder, with a comment on every key."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.audit.cases import folder_name
from heldout.benchmark import find_reader, read_benchmark
from heldout.errors import HeldoutError, InputError
from heldout.model import CARD, ONNX
from heldout.store import write_atomic

FILE = "audit.yaml"
_DATA = {".json", ".jsonl", ".csv", ".tsv", ".parquet", ".arrow"}
_IMAGES = {".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif"}
_ARCHIVES = {".tar", ".zip"}
_MOST = 2_000  # files looked at
_TEST = re.compile(r"(?:^|[^a-z])(?:test|testset|eval|dev|val|valid|validate|benchmark)", re.I)
_TRAIN = re.compile(r"train|corpus|crawl|pretrain", re.I)


@dataclass
class InputFiles:
    """What lies in a folder: each path with the folder of its pictures, where it needs one."""

    benchmarks: dict[str, dict[str, str]] = field(default_factory=dict)
    corpora: dict[str, str] = field(default_factory=dict)
    scores: dict[str, str] = field(default_factory=dict)
    answers: dict[str, str] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)


def write_init(folder: Path) -> Path:
    if not folder.is_dir():
        raise InputError(f"{folder}: expected a folder with benchmarks and corpora in it")
    target = folder / FILE
    if target.exists():
        raise InputError(f"{target} exists: remove it, or edit it by hand")
    write_atomic(target, audit_text(look_around(folder)))
    return target


def look_around(folder: Path) -> InputFiles:
    inputs = InputFiles()
    images = sorted({path.parent for path in _files(folder) if path.suffix.lower() in _IMAGES})
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        label = folder_name(name.removesuffix(path.suffix).replace("/", "-"))
        if path.name == "config.json" and _is_checkpoint(path):
            inputs.models[path.parent.name] = path.parent.relative_to(folder).as_posix()
        elif path.name == CARD and _is_checkpoint(path):
            inputs.models[path.parent.name] = f"{ONNX}{path.parent.relative_to(folder).as_posix()}"
        elif path.suffix.lower() in _ARCHIVES:
            inputs.corpora.setdefault(path.parent.name or label, _parent(path, folder))
        elif path.suffix.lower() in _DATA and path.name != FILE:
            _classify(path, name, label, folder, images, inputs)
    _bare_pictures(folder, images, inputs)
    return inputs


def _bare_pictures(folder: Path, images: list[Path], inputs: InputFiles) -> None:
    """Folders of pictures that no table uses; many of them below one folder are one corpus."""
    tables = [folder / corpus for corpus in inputs.corpora.values() if (folder / corpus).is_file()]
    sources = [*tables, *(folder / benchmark["source"] for benchmark in inputs.benchmarks.values())]
    used = {
        folder / benchmark["images"]
        for benchmark in inputs.benchmarks.values()
        if "images" in benchmark
    }
    used |= {place for table in tables if (place := _pictures_of(table, images)) is not None}
    used |= {source.parent for source in sources}
    for place in images:
        parts = place.relative_to(folder).parts
        if place in used or not parts:
            continue
        top = folder / parts[0]
        whole = not any(source.is_relative_to(top) for source in sources) and top not in used
        chosen = top if whole else place
        name = chosen.relative_to(folder).as_posix()
        inputs.corpora.setdefault(folder_name(name.replace("/", "-")), name)


def _classify(
    path: Path, name: str, label: str, folder: Path, images: list[Path], inputs: InputFiles
) -> None:
    row = _first_row(path)
    keys = {str(key).lower() for key in row}
    if keys & {"logprobs", "sum_logprob"}:
        inputs.scores[label] = name
    elif keys & {"reply", "prediction", "response", "pred"} and not keys & {"image", "image_name"}:
        inputs.answers[label] = name
    elif "question" in keys or "questions" in keys:
        entry = {"source": name}
        if (place := _pictures_of(path, images)) is not None:
            entry["images"] = place.relative_to(folder).as_posix()
        if _TRAIN.search(path.stem) and not _TEST.search(path.stem):
            inputs.corpora[label] = name
        elif _readable(path, entry, folder):
            inputs.benchmarks[label] = entry


def _readable(path: Path, entry: dict[str, str], folder: Path) -> bool:
    """Whether heldout reads the file as a benchmark with pictures."""
    try:
        benchmark = read_benchmark(
            path, images=folder / entry["images"] if "images" in entry else None
        )
    except HeldoutError:
        return False
    return len(benchmark) > 0


def _pictures_of(path: Path, images: list[Path]) -> Path | None:
    """The nearest folder of pictures that is not the file's own."""
    near = [image for image in images if image.is_relative_to(path.parent) and image != path.parent]
    return min(near, key=lambda path: len(path.parts)) if near else None


def _first_row(path: Path) -> dict[str, Any]:
    try:
        reader = find_reader(path)
        if reader is None:
            return {}
        row = next(iter(reader.rows(path)), None)
    except (HeldoutError, OSError, ValueError):
        return {}
    return dict(getattr(row, "values", {}))


def _is_checkpoint(path: Path) -> bool:
    try:
        record = json.loads(path.read_text())
    except (ValueError, OSError):
        return False
    return isinstance(record, dict) and "model_type" in record


def _files(folder: Path) -> Iterator[Path]:
    """Files of a folder in a stable order, without hidden ones and run folders."""
    seen = 0
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if any(part.startswith(".") for part in parts) or not path.is_file():
            continue
        if any((folder.joinpath(*parts[:n]) / "manifest.json").exists() for n in range(len(parts))):
            continue
        yield path
        seen += 1
        if seen >= _MOST and path.suffix.lower() not in _IMAGES:
            return


def _parent(path: Path, folder: Path) -> str:
    return path.parent.relative_to(folder).as_posix() or "."


def audit_text(inputs: InputFiles) -> str:
    """The file, with what was found filled in and everything else explained in comments."""
    return "\n".join(
        [
            "# An audit: which benchmarks, against which corpora and models, by which means.",
            "# Paths are relative to this file. `heldout audit audit.yaml --plan` prints what it will cost.",
            "",
            "benchmarks:  # what is protected",
            *(
                _entries(inputs.benchmarks)
                or [
                    "  - name: my-benchmark",
                    "    source: path/to/test.jsonl  # a path, path#split=test,lang=en, "
                    "a preset or a hub name",
                    "    # images: path/to/images",
                ]
            ),
            "    # map: {answer: gold}       # columns with other names",
            "    # against: [corpus]         # default: all corpora",
            "    # twins: {twin: path/to/twins.jsonl}  # same ids, other picture and answer",
            "",
            "corpora:  # what it may have leaked into",
            *(
                _entries({name: {"source": source} for name, source in inputs.corpora.items()})
                or ["  []"]
            ),
            "",
            "models:  # who may have seen it: one of local, endpoint, or recorded scores and answers",
            *(_models(inputs) or ["  []"]),
            "  # - name: served",
            "  #   endpoint: {url: http://localhost:8000/v1, model: NAME}",
            "  #   record: [answers]         # scores need log-probabilities of prompts",
            "",
            "# models above that cannot have seen any benchmark; without one, no model claim survives",
            "baselines: []",
            "",
            "clean_references: {}  # what no model can have seen:",
            "#   items: {origin: fresh}      # a metadata field and its value",
            "#   model: blip2                # of the perplexity ratio",
            "#   pictures: path/to/pictures  # a null for nearness",
            "",
            "# pictures that cannot be in the corpora; they need search.encoder",
            "controls: []",
            "#  - {name: paintings, source: path, domain: out-of-domain}",
            "#  - {name: clean, source: path, domain: in-domain}",
            "",
            "detectors: []  # default: all that the models' access allows; heldout detect --list",
            "",
            "search:",
            "  text: true",
            "  # encoder: pixels           # also near neighbours: transformed, cropped, framed copies",
            "  # exact: true               # only equal bytes and pixels",
            "",
            "budget: {}  # items, order_tokens, requests, forward_tokens, pictures",
            "seed: 0",
            "output: audit",
            "fail_on: []  # survives, leak-rate>0.01",
            "",
        ]
    )


def _entries(entries: dict[str, dict[str, str]]) -> list[str]:
    lines = []
    for name, keys in entries.items():
        lines.append(f"  - name: {json.dumps(name)}")
        lines += [
            f"    {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in keys.items()
        ]
    return lines


def _models(inputs: InputFiles) -> list[str]:
    entries = {name: {"local": path} for name, path in inputs.models.items()}
    # with several benchmarks it is not known which one a file belongs to
    if len(inputs.benchmarks) == 1:
        for kind in ("scores", "answers"):
            for name, path in getattr(inputs, kind).items():
                entries.setdefault(name, {})[kind] = path
    return _entries(entries)
