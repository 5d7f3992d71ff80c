"""Prediction files of other programs: one table of column names, one reader of rows.

Recorded scores, recorded answers, ``impact`` and lists of leaked items are all read here, so that a
column is recognised by all of them or by none.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from heldout.benchmark import (
    DelimitedReader,
    FileRow,
    JsonLinesReader,
    JsonReader,
    ParquetReader,
    canonical_text,
    load_object,
)
from heldout.documents import XmlError, xml_elements
from heldout.errors import InputError
from heldout.model._inspect_log import inspect_json_rows, inspect_rows, is_inspect_json
from heldout.store import Dropped

# Rows of an .xlsx file, as VLMEvalKit writes its predictions: the first sheet, its first row the names.
#
# Read with the standard library: cells are text, numbers or booleans, and formulas are taken by the value
# that was saved with them.


LARGEST_PART = 512 * 2**20  # bytes of one part when unpacked: a zip of a few MB may claim terabytes
_MOST_DIGITS = 9  # of a row or an index; a sheet has at most 1,048,576 rows
_CELL = re.compile(r"([A-Z]{1,3})\d+")


def spreadsheet_rows(path: Path) -> Iterator[FileRow]:
    """``number`` is the row as a person sees it in the sheet."""
    try:
        with zipfile.ZipFile(path) as archive:
            shared = _shared(archive, path)
            names: dict[int, str] = {}
            for number, cells in _sheet_rows(archive, path, shared):
                if not names:
                    names = {column: str(value).strip() for column, value in cells.items()}
                elif cells:
                    # A cell that was left empty is an empty text, as in the same table as CSV.
                    yield FileRow(number, {name: cells.get(c, "") for c, name in names.items()})
    except (zipfile.BadZipFile, zlib.error, XmlError, KeyError, EOFError, OSError) as error:
        raise InputError(f"{path}: not a readable .xlsx file ({error}); save it as CSV") from error


def _shared(archive: zipfile.ZipFile, path: Path) -> list[str]:
    name = "xl/sharedStrings.xml"
    if name not in archive.namelist():
        return []
    texts = []
    with archive.open(name) as file:
        for element in xml_elements(file, "si", LARGEST_PART):
            texts.append(_text(element))
    return texts


def _sheet_rows(
    archive: zipfile.ZipFile, path: Path, shared: list[str]
) -> Iterator[tuple[int, dict[int, Any]]]:
    sheets = [n for n in archive.namelist() if re.fullmatch(r"xl/worksheets/sheet\d*\.xml", n)]
    if not sheets:
        raise InputError(f"{path}: the .xlsx file has no sheet")
    first = min(sheets, key=lambda name: (len(name), name))
    with archive.open(first) as file:
        for count, row in enumerate(xml_elements(file, "row", LARGEST_PART), 1):
            cells: dict[int, Any] = {}
            number = _whole(row.get("r", str(count)), f"{path}: row {count}: its number")
            for place, cell in enumerate(row):
                named = _CELL.fullmatch(cell.get("r", ""))
                value = _value(cell, shared, f"{path}: row {number}: the index of a text")
                if value is not None:
                    cells[_column(named[1]) if named else place] = value
            yield number, cells


def _whole(text: str, what: str) -> int:
    if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS:
        return int(text)
    raise InputError(
        f"{what} is {text[:20]!r}; expected a whole number, as spreadsheet programs write it. Save it as CSV"
    )


def _value(cell: Element, shared: list[str], what: str) -> Any:
    kind = cell.get("t", "n")
    if kind == "inlineStr":
        return _text(cell)
    text = next((part.text for part in cell if _local(part) == "v"), None)
    if text is None:
        return None
    if kind == "s":
        place = _whole(text, what)
        if place >= len(shared):
            raise InputError(
                f"{what} is {place}, of {len(shared):,} texts in the file. Save it as CSV"
            )
        return shared[place]
    if kind == "b":
        return text == "1"
    if kind != "n":
        return text
    try:
        number = float(text)
    except ValueError:
        return text
    return int(number) if number.is_integer() else number


def _text(element: Element) -> str:
    """The text of a cell, without the phonetic guides of Japanese sheets."""
    parts = []
    for part in element.iter():
        if _local(part) == "rPh":
            part.clear()
        elif _local(part) == "t":
            parts.append(part.text or "")
    return "".join(parts)


def _local(element: Element) -> str:
    return str(element.tag).rpartition(":")[2]


def _column(letters: str) -> int:
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


#: Names of each field in files of other programs, in any case; the first present wins.
ALIASES: dict[str, tuple[str, ...]] = {
    "id": (
        "benchmark_id",
        "id",
        "index",
        "qid",
        "question_id",
        "example_id",
        "item_id",
        "item",
        "sample_id",
        "custom_id",
        "dataset_index",
    ),
    "model": ("model", "model_name", "model_id"),
    "prediction": (
        "reply",
        "prediction",
        "pred",
        "response",
        "model_answer",
        "model_output",
        "model_response",
        "predicted_answer",
        "pred_answer",
        "output",
        "generated_text",
        "completion",
        "text",
    ),
    "correct": ("correct", "is_correct", "hit", "exact_match"),
    "score": ("score", "accuracy", "acc"),
    "rank": ("rank",),
    "loglik": ("loglik", "log_likelihood", "mean_logprob", "logprob", "sum_logprob"),
    "answer": ("gold", "answer", "gt_answer", "gold_answer", "ground_truth", "target"),
    "question": ("question",),
    "prompt": ("prompt",),  # the question with the text around it
    "options": ("options", "choices"),
    "choice_logprobs": ("choice_logprobs",),
    "variant": ("variant",),
    "draw": ("draw",),
    "benchmark": ("benchmark", "dataset_name", "dataset", "task"),
    "prompt_tokens": ("prompt_tokens", "input_tokens"),
    "reply_tokens": ("reply_tokens", "completion_tokens", "output_tokens"),
    "tokens": ("tokens",),
    "logprobs": ("logprobs", "token_logprobs"),
    "mu": ("mu",),
    "sigma": ("sigma",),
    "sum_logprob": ("sum_logprob", "loglik", "log_likelihood"),
    "n_tokens": ("n_tokens", "num_tokens"),
    "span_ok": ("span_ok",),
    "revision": ("fingerprint", "revision"),
    "backend": ("backend",),
    "dtype": ("dtype",),
    "template": ("template",),
    "leaked": ("leaked", "is_leaked", "leak", "contaminated", "is_contaminated"),
    "kind": ("kind", "leakage", "degree"),
    "cluster": ("cluster", "image_id", "image_name", "img_name", "image"),
    "position": ("doc_id",),  # the item's position in its dataset according to lmms-eval
}
#: Other words for a field, where people name columns themselves.
SYNONYMS = {"reply": "prediction", "gold": "answer"}
#: Keys of a JSON object under which id → prediction may be found beside other things.
_MAPPINGS = ("outputs", "predictions", "answers", "results")
_POSITION = "doc_id"
_TRUE, _FALSE = ("true", "yes", "1", "1.0"), ("false", "no", "0", "0.0")


class Columns:
    """Which column of a file holds which field. ``mapping`` always wins over the table of names."""

    def __init__(self, present: Sequence[str], mapping: Mapping[str, str] | None = None) -> None:
        self._named: dict[str, str] = {}
        for field, column in (mapping or {}).items():
            known = SYNONYMS.get(field, field)
            if known not in ALIASES:
                raise InputError(
                    f"map {field}={column}: there is no field '{field}'; the fields are "
                    f"{', '.join(ALIASES)}"
                )
            if column not in present:
                raise InputError(
                    f"map {field}={column}: the file has no column '{column}'. "
                    f"It has: {', '.join(present)}"
                )
            self._named[known] = column
        self.present = list(present)
        self.present_set = frozenset(present)
        self._lowered = {str(column).lower(): column for column in reversed(present)}
        self._chosen: dict[str, str] = {}

    def named(self, field: str) -> bool:
        """Whether the user said which column it is."""
        return field in self._named

    def of(self, field: str) -> str | None:
        """The column of a field, None where the file has none."""
        if field in self._named or field in self._chosen:
            return self._named.get(field) or self._chosen[field]
        return next(iter(self._candidates(field)), None)

    def cell(self, values: Mapping[str, Any], field: str) -> Any:
        """The cell of a field; in a row without that column, under another of the field's names."""
        column = self.of(field)
        if column is None:
            return None
        if column in values or field in self._named or field in self._chosen:
            return values.get(column)
        return next(
            (values[candidate] for candidate in self._candidates(field) if candidate in values),
            None,
        )

    def holds(self, values: Mapping[str, Any], field: str) -> bool:
        """Whether a row has a cell for the field, be it an empty one."""
        if field in self._named or field in self._chosen:
            return self.of(field) in values
        return any(candidate in values for candidate in self._candidates(field))

    def _candidates(self, field: str) -> list[str]:
        return [self._lowered[name] for name in ALIASES[field] if name in self._lowered]

    def match_ids(self, rows: Iterable[Mapping[str, Any]], known: Collection[str]) -> None:
        """Of several columns that may hold ids (a row number beside a qid), take the one whose values
        are ids of the benchmark most often."""
        candidates = self._candidates("id")
        if "id" in self._named or len(candidates) < 2:
            return
        hits = dict.fromkeys(candidates, 0)
        for values in rows:
            for column in candidates:
                hits[column] += canonical_text(values.get(column)) in known
        self._chosen["id"] = max(candidates, key=lambda column: hits[column])


def open_predictions(
    path: Path, mapping: Mapping[str, str] | None = None, known: Collection[str] = ()
) -> tuple[list[FileRow], Columns, list[Dropped]]:
    """All rows of a file, its columns, and what could not be read. ``known``: the benchmark's ids."""
    rows: list[FileRow] = []
    dropped: list[Dropped] = []
    for row in prediction_rows(path, frozenset((mapping or {}).values())):
        if isinstance(row, FileRow):
            rows.append(row)
        else:
            dropped.append(row)
    columns = columns_of(rows, mapping)
    columns.match_ids((row.values for row in rows), known)
    return rows, columns, dropped


def columns_of(rows: Iterable[FileRow], mapping: Mapping[str, str] | None = None) -> Columns:
    present: dict[str, None] = {}
    for row in rows:
        present.update(dict.fromkeys(row.values))
    return Columns(list(present), mapping)


def prediction_rows(
    path: Path, wanted: Collection[str] = frozenset()
) -> Iterator[FileRow | Dropped]:
    """Rows as flat fields, whatever program wrote them. ``wanted``: columns that the user named."""
    for row in _rows(path):
        if isinstance(row, Dropped):
            yield row
            continue
        values = row.values
        if "doc_id" in values and ("resps" in values or "filtered_resps" in values):
            yield FileRow(row.number, _logged_sample(path, row, wanted))
        elif "custom_id" in values and "response" in values and "error" in values:
            yield FileRow(row.number, _batch_output(values))
        elif isinstance(values.get("parsed_outputs"), list):
            yield from (FileRow(row.number, rollout) for rollout in _rollouts(values))
        else:
            yield row


def as_text(value: Any) -> str | None:
    """A reply as text; a spreadsheet turns 3 into a number and TRUE into a boolean."""
    if isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, float) and value != value):
        return None
    return value if isinstance(value, str) else canonical_text(value)


def as_truth(value: Any) -> bool | None:
    """True or false as files write them; None for anything else."""
    text = str(value).strip().lower()
    return text in _TRUE if text in _TRUE or text in _FALSE else None


def _rows(path: Path) -> Iterator[FileRow | Dropped]:
    if not path.is_file():
        raise InputError(f"{path} does not exist or is a folder; expected a file of predictions")
    kind = path.suffix.lower()
    if kind == ".xlsx":
        return spreadsheet_rows(path)
    if kind == ".eval":
        return inspect_rows(path)
    if kind == ".json" and (value := _object(path)) is not None:
        if is_inspect_json(value):
            return inspect_json_rows(path, value)
        if (pairs := _pairs(value)) is not None:
            return (
                FileRow(n, {"id": k, "prediction": v}) for n, (k, v) in enumerate(pairs.items(), 1)
            )
    readers = (JsonReader(), JsonLinesReader(), DelimitedReader(), ParquetReader())
    mine = [reader for reader in readers if kind in reader.suffixes]
    if not mine:
        raise InputError(
            f"{path}: expected predictions as .xlsx, CSV, TSV, JSON, JSON Lines, Parquet or an .eval log, "
            f"one row per answer, not '{kind}'"
        )
    return next((own_reader for own_reader in mine if own_reader.recognises(path)), mine[0]).rows(
        path
    )


def _object(path: Path) -> dict[str, Any] | None:
    """A file that is one JSON object; None for other JSON."""
    if JsonLinesReader().recognises(path) or not JsonReader().recognises(path):
        return None
    with path.open("rb") as file:
        if file.read(64).removeprefix(b"\xef\xbb\xbf").lstrip()[:1] != b"{":
            return None
    return load_object(path)


def _pairs(value: dict[str, Any]) -> dict[str, Any] | None:
    """Ids and predictions, where an object maps one to the other or holds an object that does."""
    for inner in (value, *(value.get(name) for name in _MAPPINGS)):
        if (
            isinstance(inner, dict)
            and inner
            and not any(isinstance(field_value, dict | list) for field_value in inner.values())
        ):
            return inner
    return None


def _logged_sample(path: Path, row: FileRow, wanted: Collection[str]) -> dict[str, Any]:
    """A logged sample of lmms-eval; ``resps`` is [["…"]], ["…"] or "…", by its version, and left out
    where it equals ``filtered_resps``. Newer ones leave out ``doc``, too; ``input`` is the prompt.

    The document's own answer is left out: benchmarks write it in their own ways, as an index or with
    all its synonyms.
    """
    values = row.values
    doc = values.get("doc") if isinstance(values.get("doc"), dict) else {}
    assert isinstance(doc, dict)
    reply = values.get("resps")
    if reply in (None, [], ""):
        reply = values.get("filtered_resps")
    while isinstance(reply, list) and len(reply) == 1:
        reply = reply[0]
    if isinstance(reply, list):
        raise InputError(
            f"{path.name} line {row.number}: 'resps' holds {len(reply)} responses to one question; "
            f"expected one generated text (tasks that compare log-likelihoods give no answers in words)"
        )
    kept = {
        name: value
        for name, value in doc.items()
        if name in wanted or name.lower() not in (*ALIASES["answer"], *ALIASES["prediction"])
    }
    graded = {name: values[name] for name in _own_grades(values)} or _scored(values)
    if isinstance(values.get("input"), str):
        kept["prompt"] = values["input"]
    if isinstance(counts := values.get("token_counts"), list) and len(counts) == 1:
        spent = counts[0] if isinstance(counts[0], dict) else {}
        kept |= {name: spent[name] for name in ("input_tokens", "output_tokens") if name in spent}
    named = {name: value for name, value in values.items() if name in wanted}
    return {**kept, **graded, **named, _POSITION: values["doc_id"], "prediction": reply}


def _own_grades(values: Mapping[str, Any]) -> list[str]:
    names = (*ALIASES["correct"], *ALIASES["score"])
    return [n for n in values if n.lower() in names and not isinstance(values[n], dict | list)]


def _scored(values: Mapping[str, Any]) -> dict[str, Any]:
    """The score of the first metric that brings the item's category along with it, as MMStar and MME do."""
    scores = [
        value["score"] for value in values.values() if isinstance(value, dict) and "score" in value
    ]
    return {"score": scores[0]} if scores and isinstance(scores[0], int | float) else {}


def _rollouts(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A line of MedVLThinker's evaluation: an item of one of several suites, and every reply to it."""
    common = {
        "id": values.get("dataset_index"),
        "benchmark": values.get("dataset_name"),
        "answer": values.get("answer_label"),
    }
    for draw, output in enumerate(values["parsed_outputs"]):
        record = output if isinstance(output, dict) else {}
        yield {
            **common,
            "draw": draw,
            "prediction": record.get("output_text"),
            "correct": record.get("is_correct"),
        }


def _batch_output(values: Mapping[str, Any]) -> dict[str, Any]:
    """A line of the output file of OpenAI's batch interface; a failed request has no prediction."""
    response = values["response"]
    body = response.get("body") if isinstance(response, dict) else None
    body = body if isinstance(body, dict) else {}
    row: dict[str, Any] = {"id": values["custom_id"]}
    if (text := _said(body)) is not None:
        row["prediction"] = text
    counts = body.get("usage")
    usage: dict[str, Any] = counts if isinstance(counts, dict) else {}
    for field in ("prompt_tokens", "reply_tokens"):
        row[field] = next((usage[name] for name in ALIASES[field] if name in usage), None)
    return {**row, "model": body["model"]} if isinstance(body.get("model"), str) else row


def _said(body: Mapping[str, Any]) -> str | None:
    """The text of a chat completion, of a response, or of a completion; a refusal is a reply, too."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    first = first if isinstance(first, dict) else {}
    message = first.get("message")
    if isinstance(message, dict):
        content = _joined(message.get("content"))
        return content if content is not None else as_text(message.get("refusal"))
    if isinstance(first.get("text"), str):  # /v1/completions
        return str(first["text"])
    output = body.get("output")  # /v1/responses: messages beside reasoning and calls of tools
    if isinstance(output, list):
        messages = [
            record
            for record in output
            if isinstance(record, dict) and record.get("type") == "message"
        ]
        texts = [
            text for message in messages if (text := _joined(message.get("content"))) is not None
        ]
        return "".join(texts) if texts else None
    return None


def _joined(content: Any) -> str | None:
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    parts = [part.get("text") for part in content if isinstance(part, dict)]
    return "".join(part for part in parts if isinstance(part, str))
