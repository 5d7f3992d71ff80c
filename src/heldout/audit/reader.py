"""audit.yaml → AuditFile. Every mistake is reported with its line and the nearest known word."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from heldout.audit.audit_file import (
    AuditFile,
    BenchmarkEntry,
    Budget,
    CleanReferences,
    ControlEntry,
    CorpusEntry,
    ModelEntry,
    Search,
    parse_gate,
)
from heldout.detect import detectors
from heldout.documents import Place, read_yaml
from heldout.errors import InputError, nearest_name
from heldout.model import ONNX, ModelEndpoint, ModelServer, onnx_folder, parse_variants
from heldout.overlap import JudgeEndpoint
from heldout.remote import is_remote
from heldout.settings import plain_words
from heldout.synth import MODEL_ROLES, SynthSettings

# Which mapping stands where, so that a wrong key is compared with the right ones.
_SCHEMA: dict[tuple[str, ...], type[BaseModel]] = {
    (): AuditFile,
    ("benchmarks",): BenchmarkEntry,
    ("corpora",): CorpusEntry,
    ("models",): ModelEntry,
    ("models", "endpoint"): ModelServer,
    ("clean_references",): CleanReferences,
    ("controls",): ControlEntry,
    ("search",): Search,
    ("search", "judge"): JudgeEndpoint,
    ("budget",): Budget,
    ("synth",): SynthSettings,
    **{("synth", role): ModelEndpoint for role in MODEL_ROLES},
}


@dataclass(frozen=True)
class Audit:
    """An audit file and its place: paths in it are relative to its folder."""

    path: Path
    file: AuditFile
    lines: Mapping[Place, int] = field(default_factory=dict)

    @property
    def output(self) -> Path:
        return self.path.parent / self.file.output

    def located(self, source: str) -> str:
        """A path relative to the file's folder; names of presets and of the hub stay as they are."""
        location, hash_sign, selection = source.partition("#")
        if is_remote(location):
            return source
        there = self.path.parent / location
        written_as_path = location.startswith((".", "/")) or Path(location).suffix
        if there.exists() or (written_as_path and not Path(location).is_absolute()):
            return f"{there}{hash_sign}{selection}"
        return source

    def located_model(self, local: str) -> str:
        """A checkpoint, or ``onnx:`` and a folder, relative to the file's folder."""
        folder = onnx_folder(local)
        return self.located(local) if folder is None else f"{ONNX}{self.located(str(folder))}"

    @contextmanager
    def at(self, *place: str | int) -> Iterator[None]:
        """A mistake in an input is reported with the line that names it."""
        try:
            yield
        except InputError as error:
            known: Place = place
            while known and known not in self.lines:
                known = known[:-1]
            line = f", line {self.lines[known]}" if known in self.lines else ""
            raise InputError(f"{self.path}{line}: {_named(known or place)}: {error}") from error


def read_audit(path: str | Path) -> Audit:
    """Read an audit file and check it.

    Args:
        path: The file, or a folder that holds ``audit.yaml``.

    Raises:
        InputError: Every mistake with its line.
    """
    path = Path(path)
    if path.is_dir():
        path = path / "audit.yaml"
    try:
        data, lines = read_yaml(path)
    except InputError as error:
        raise InputError(f"{error}; `heldout audit --init` writes an audit file") from error
    if not isinstance(data, dict):
        raise InputError(f"{path}: expected keys like 'benchmarks:'; `heldout audit --init` shows")
    try:
        file = AuditFile.model_validate(data)
    except ValidationError as error:
        problems = [problem_of(problem, lines) for problem in error.errors()]
        problems += _gates(data.get("fail_on"), lines)  # needs nothing of the rest of the file
        raise InputError(_listed(path, sorted(problems))) from None
    problems = sorted(_Names(file, lines).problems())
    if problems:
        raise InputError(_listed(path, problems))
    return Audit(path, file, lines)


Problem = tuple[int, str]


def _listed(path: Path, problems: Sequence[Problem]) -> str:
    texts = [f"{path}, line {line}: {sentence}" for line, sentence in problems]
    return "\n".join(texts)


def problem_of(error: Mapping[str, Any], lines: Mapping[Place, int]) -> Problem:
    place: Place = tuple(error["loc"])
    known = place
    while known and known not in lines:  # what pydantic calls a choice of types is no key
        known = known[:-1]
    words = tuple(part for part in known if isinstance(part, str))
    line = lines.get(known, 1)
    if error["type"] == "extra_forbidden":
        keys = list(_SCHEMA[words[:-1]].model_fields)
        return line, f"there is no key '{words[-1]}' here; {nearest_name(words[-1], keys)}"
    if error["type"] == "missing":
        wanted = place[-1]
        here = lines.get(place[:-1], 1)
        return here, f"{_named(place[:-1])} needs the key '{wanted}'"
    message = plain_words(error["msg"])
    setting, colon, rest = message.partition(": ")
    if (
        colon and (*known, setting) in lines
    ):  # about several settings together: this one comes first
        known, line, message = (*known, setting), lines[*known, setting], rest
    message = message[0].lower() + message[1:]
    value = error["input"]
    shown = f"; got {value!r:.60}" if not isinstance(value, dict | list) else ""
    hint = ""
    if error["type"] == "string_type" and not isinstance(value, dict | list):
        hint = " (a text that YAML takes for something else: write it in quotes)"
    return line, f"{_named(known)}: {message}{shown}{hint}"


def _gates(texts: Any, lines: Mapping[Place, int]) -> Iterator[Problem]:
    """Gates that cannot be read; the schema reports anything that is not a list of texts."""
    for place, text in enumerate(texts if isinstance(texts, list) else []):
        try:
            if isinstance(text, str):
                parse_gate(text)
        except InputError as error:
            line = lines.get(("fail_on", place), lines.get(("fail_on",), 1))
            yield line, str(error)


def _named(place: Place) -> str:
    if not place:
        return "the file"
    message = ""
    for part in place:
        message += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if message else part
    return message


class _Names:
    """References by name: each must name something that the file defines."""

    def __init__(self, file: AuditFile, lines: Mapping[Place, int]) -> None:
        self.file, self.lines = file, lines

    def problems(self) -> Iterator[Problem]:
        file = self.file
        benchmarks = [benchmark.name for benchmark in file.benchmarks]
        models = [model.name for model in file.models]
        corpora = [corpus_entry.name for corpus_entry in file.corpora]
        for key, names in (
            ("benchmarks", benchmarks),
            ("models", models),
            ("corpora", corpora),
            ("controls", [control.name for control in file.controls]),
            ("synth", [synth_settings.name for synth_settings in file.synth]),
        ):
            for place, name in enumerate(names):
                if name in names[:place]:
                    yield self._at((key, place, "name"), f"two {key} are called '{name}'")
        for place, entry in enumerate(file.benchmarks):
            for index, name in enumerate(entry.against or ()):
                yield from self._known(("benchmarks", place, "against", index), name, corpora)
            for name in entry.twins:
                if name != "twin" and not name.startswith("twin-"):
                    message = f"twins are called twin or twin-NAME, not '{name}'"
                    yield self._at(("benchmarks", place, "twins", name), message)
        for place, model in enumerate(file.models):
            yield from self._access(place, model, benchmarks)
            if model.base is not None:
                yield from self._known(("models", place, "base"), model.base, models)
        for place, name in enumerate(file.baselines):
            yield from self._known(("baselines", place), name, models)
        if file.clean_references.model is not None:
            here = ("clean_references", "model")
            yield from self._known(here, file.clean_references.model, models)
        for place, name in enumerate(file.detectors):
            yield from self._known(("detectors", place), name, list(detectors()))
        yield from _gates(file.fail_on, self.lines)
        if not file.corpora and not file.models:
            message = "there is nothing to compare the benchmarks with: add corpora, models or both"
            yield (
                1,
                f"{message}; for fresh items alone use heldout synth" if file.synth else message,
            )
        if file.controls and file.search.calibrated_encoder is None:
            message = "controls calibrate a near search: give search.encoder, for example pixels"
            yield self._at(("controls",), message)

    def _access(self, place: int, model: ModelEntry, benchmarks: list[str]) -> Iterator[Problem]:
        here: Place = ("models", place)
        recorded = [kind for kind in ("scores", "answers") if getattr(model, kind) is not None]
        ways = [*(["local"] if model.local else []), *(["endpoint"] if model.endpoint else [])]
        ways += ["recorded files"] if recorded else []
        if len(ways) != 1:
            message = f"it has {' and '.join(ways)}" if ways else "it has none"
            yield self._at(
                here,
                f"the model '{model.name}' needs one of local, endpoint, or recorded scores and "
                f"answers; {message}",
            )
        if recorded and (model.record or model.variants):
            message = "recorded files hold what they hold: they have no record and no variants"
            yield self._at(here, f"the model '{model.name}': {message}")
        yield from self._variants(place, model)
        for kind in recorded:
            files = getattr(model, kind)
            if isinstance(files, str) and len(benchmarks) > 1:
                message = f"{kind}: with several benchmarks give one file for each, by its name: "
                yield self._at((*here, kind), f"{message}{benchmarks[0]}: FILE")
            for name in files if isinstance(files, dict) else ():
                yield from self._known((*here, kind, name), name, benchmarks)

    def _variants(self, place: int, model: ModelEntry) -> Iterator[Problem]:
        here = ("models", place, "variants")
        try:
            asked = parse_variants(model.variants) if model.variants is not None else []
        except InputError as error:
            yield self._at(here, str(error).removeprefix("variants: "))
            return
        if any(variant.name.startswith("twin") for variant in asked):
            message = "twins belong to a benchmark: name them under its key twins, and every model is asked"
            yield self._at(here, message)

    def _known(self, place: Place, name: str, known: Sequence[str]) -> Iterator[Problem]:
        if name not in known:
            yield self._at(place, f"there is no '{name}'; {nearest_name(name, known)}")

    def _at(self, place: Place, sentence: str) -> Problem:
        return self.lines.get(place, self.lines.get(place[:1], 1)), sentence
