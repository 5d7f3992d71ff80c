"""The tables of a run folder: one Arrow schema each, with a version people can script against."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from heldout.errors import InputError, blame_the_machine
from heldout.store.files import cure, opened, replacing, verify

# Raise a table's version when a column is renamed, removed or changes meaning.
VERSIONS = {
    "items": 1,
    "matches": 2,  # 1 called look-alikes "same view, other subject"
    "dropped": 1,
    "thumbnails": 1,
    "candidates": 2,
    "nearest": 1,
    "text_matches": 1,
    "text_queries": 1,
    "leaks": 1,
    "scores": 1,
    "option_scores": 1,
    "twin_scores": 1,
    "entropies": 1,
    "request_scores": 1,
    "order_joint": 1,
    "order_neighbour": 1,
    "answers": 1,
    "triple_hits": 1,
    "twins": 1,
    "accuracies": 1,
    "disagreements": 1,
    "steps": 1,
    "replies": 1,
}

_COLUMNS: dict[str, list[tuple[str, pa.DataType]]] = {
    # The protected benchmark as it was read, one row per item, in release order.
    # image_digests are of native pixels ("bytes:…" for an image that cannot be decoded), empty for an image
    # that cannot be compared at all.
    "items": [
        ("benchmark_id", pa.string()),
        ("position", pa.int64()),
        ("cluster", pa.string()),
        ("question", pa.string()),
        ("options", pa.list_(pa.string())),
        ("answer", pa.string()),
        ("image_names", pa.list_(pa.string())),
        ("image_digests", pa.list_(pa.string())),
        ("metadata", pa.string()),
    ],
    "matches": [
        ("benchmark_id", pa.string()),
        ("image_index", pa.int32()),
        ("corpus", pa.string()),
        ("corpus_id", pa.string()),
        ("method", pa.string()),
        ("similarity", pa.float64()),
        ("degree", pa.string()),
        ("relation", pa.string()),
        ("transform", pa.string()),
        ("modality", pa.string()),
        ("label_relation", pa.string()),
        ("evidence", pa.string()),
    ],
    # Texts of benchmark items in corpus items, by every method that found them; the best per item.
    "text_matches": [
        ("benchmark_id", pa.string()),
        ("corpus", pa.string()),
        ("corpus_id", pa.string()),
        ("method", pa.string()),
        ("field", pa.string()),
        ("corpus_field", pa.string()),
        ("similarity", pa.float64()),
        ("degree", pa.string()),
        ("relation", pa.string()),
        ("answer_relation", pa.string()),
        ("evidence", pa.string()),
    ],
    # What connects each item with each corpus, picture and words joined, as heldout.evidence.leaks says.
    # image_hits and the others count corpus items.
    "leaks": [
        ("benchmark_id", pa.string()),
        ("corpus", pa.string()),
        ("modality", pa.string()),
        ("label_relation", pa.string()),
        ("image_hits", pa.int64()),
        ("text_hits", pa.int64()),
        ("source_hits", pa.int64()),
        ("rung", pa.string()),
        ("corpus_id", pa.string()),
        ("shown_by", pa.string()),
    ],
    # Per item and method how many pairs there are, listed or not, and the nearest of them. Answers are
    # counted where the question is identical.
    "text_queries": [
        ("benchmark_id", pa.string()),
        ("corpus", pa.string()),
        ("method", pa.string()),
        ("pairs", pa.int64()),
        ("same_answer", pa.int64()),
        ("other_answer", pa.int64()),
        ("max_similarity", pa.float64()),
        ("corpus_id", pa.string()),
    ],
    # Near neighbours that are not yet verified: kept with the shards, not published.
    "candidates": [
        ("picture", pa.string()),
        ("corpus_id", pa.string()),
        ("digest", pa.string()),
        ("shard", pa.int64()),
        ("method", pa.string()),
        ("similarity", pa.float64()),
        ("view", pa.string()),
        ("aspect", pa.string()),  # of the encoder, that proposed it; "" where a hash did
        ("score", pa.float64()),  # how similar they are in this aspect
        ("sure", pa.bool_()),  # more similar in it than any two unrelated pictures
    ],
    # What calibration is based on: the nearest corpus picture of every picture of the benchmark, of the
    # null and of the negative controls, upright and whole on both sides. Pictures of one set with the
    # same ``related`` are near for one reason (slices of one study) and count once in tests.
    "nearest": [
        ("corpus", pa.string()),
        ("encoder", pa.string()),
        ("role", pa.string()),
        ("name", pa.string()),
        ("picture", pa.string()),
        ("neighbour", pa.string()),
        ("similarity", pa.float64()),
        ("related", pa.string()),
    ],
    "dropped": [
        ("stage", pa.string()),
        ("id", pa.string()),
        ("reason", pa.string()),
        ("detail", pa.string()),
    ],
    # Small pictures of both sides of every match, so that the report is rebuilt offline.
    "thumbnails": [
        ("digest", pa.string()),
        ("width", pa.int32()),
        ("height", pa.int32()),
        ("webp", pa.binary()),
    ],
    # Log-probabilities of the answer's own tokens; mu and sigma are of log p over the whole
    # vocabulary at that position (empty where a backend does not give them).
    "scores": [
        ("benchmark_id", pa.string()),
        ("model", pa.string()),
        ("tokens", pa.list_(pa.string())),
        ("logprobs", pa.list_(pa.float64())),
        ("mu", pa.list_(pa.float64())),
        ("sigma", pa.list_(pa.float64())),
        ("sum_logprob", pa.float64()),
        ("n_tokens", pa.int32()),
        ("span_ok", pa.bool_()),
    ],
    # Log-probability of every option in the answer's place.
    "option_scores": [
        ("benchmark_id", pa.string()),
        ("model", pa.string()),
        ("option", pa.int32()),
        ("text", pa.string()),
        ("sum_logprob", pa.float64()),
        ("n_tokens", pa.int32()),
    ],
    # Log-probabilities of two answers, right on the original (old) and right on its twin (new), after either picture
    # with its question; ``variant`` names the set of twins.
    "twin_scores": [
        ("benchmark_id", pa.string()),
        ("model", pa.string()),
        ("variant", pa.string()),
        ("old_answer", pa.string()),
        ("new_answer", pa.string()),
        ("original_old", pa.float64()),
        ("original_new", pa.float64()),
        ("twin_old", pa.float64()),
        ("twin_new", pa.float64()),
    ],
    # Mean of the largest Rényi entropies (a share of the places of a slice; 0: the single largest) at the picture's
    # tokens, the question's and the answer's.
    "entropies": [
        ("benchmark_id", pa.string()),
        ("model", pa.string()),
        ("slice", pa.string()),
        ("order", pa.float64()),
        ("share", pa.float64()),
        ("entropy", pa.float64()),
    ],
    # The raw result of each request: kept with the shards, not published. The lists are empty where only the
    # sum is of use.
    "request_scores": [
        ("request", pa.string()),
        ("tokens", pa.list_(pa.string())),
        ("logprobs", pa.list_(pa.float64())),
        ("mu", pa.list_(pa.float64())),
        ("sigma", pa.list_(pa.float64())),
        ("sum_logprob", pa.float64()),
        ("n_tokens", pa.int32()),
        ("span_ok", pa.bool_()),
        ("truncated", pa.bool_()),
    ],
    # A shard of consecutive items scored as one text: as released ("canonical") and shuffled ("0", …).
    "order_joint": [
        ("model", pa.string()),
        ("shard", pa.int32()),
        ("permutation", pa.string()),
        ("logprob", pa.float64()),
    ],
    # What a model answered: one row per item, variant (original, rotation-1, shuffle-3, no-image, twin, …)
    # and draw. ``options`` are as shown, ``order`` is the released position of each;
    # ``gold`` and ``parsed`` are letters of what was shown, or texts of open answers.
    "answers": [
        ("benchmark_id", pa.string()),
        ("model", pa.string()),
        ("variant", pa.string()),
        ("draw", pa.int32()),
        ("options", pa.list_(pa.string())),
        ("order", pa.list_(pa.int32())),
        ("gold", pa.string()),
        ("reply", pa.string()),
        ("parsed", pa.string()),
        ("outcome", pa.string()),  # right, wrong, unparsed, refused
        ("rule", pa.string()),  # which rule of grading read the reply
        ("choice_logprobs", pa.list_(pa.float64())),  # per option shown, where a backend gives them
        ("prompt_tokens", pa.int64()),
        ("reply_tokens", pa.int64()),
        ("template", pa.string()),
    ],
    # Items whose picture is flagged (near, copy), whose score is in the α tail and whose answer counts,
    # each at the smallest α of the sweep at which it does.
    "triple_hits": [
        ("benchmark_id", pa.string()),
        ("model", pa.string()),
        ("corpus", pa.string()),
        ("encoder", pa.string()),
        ("flag", pa.string()),
        ("answer", pa.string()),
        ("alpha", pa.float64()),
        ("similarity", pa.float64()),
        ("score", pa.float64()),
    ],
    # Twins of items: the same question with a new picture on which another answer is right. Paths are
    # relative to the run folder; ``verifier`` and ``people`` say keep, reject, or why neither; ``kept`` is
    # empty until a verifier or a person has judged the twin.
    "twins": [
        ("benchmark_id", pa.string()),
        ("image_name", pa.string()),
        ("question", pa.string()),
        ("options", pa.list_(pa.string())),
        ("old_answer", pa.string()),
        ("new_answer", pa.string()),
        ("caption", pa.string()),
        ("original", pa.string()),
        ("edges", pa.string()),
        ("picture", pa.string()),
        ("renderer", pa.string()),
        ("verifier", pa.string()),
        ("verifier_reason", pa.string()),
        ("people", pa.string()),
        ("kept", pa.bool_()),
    ],
    # Of `heldout evaluate`: one row per model, benchmark (``mean``: over all of them) and subset of items.
    "accuracies": [
        ("model", pa.string()),
        ("benchmark", pa.string()),
        ("subset", pa.string()),  # all, leaked, clean
        ("n", pa.int64()),
        ("clusters", pa.int64()),
        ("accuracy", pa.float64()),
        ("error", pa.float64()),  # cluster-robust standard error
        ("low", pa.float64()),
        ("high", pa.float64()),
        ("unparsed", pa.int64()),
        ("refused", pa.int64()),
        ("prompt_tokens", pa.int64()),
        ("reply_tokens", pa.int64()),
    ],
    # Replies that a published scorer grades otherwise than strict grading does.
    "disagreements": [
        ("benchmark", pa.string()),
        ("benchmark_id", pa.string()),
        ("model", pa.string()),
        ("draw", pa.int32()),
        ("scorer", pa.string()),
        ("strict", pa.string()),  # right, wrong, unparsed, refused
        ("scorer_right", pa.bool_()),
        ("scorer_read", pa.string()),
        ("gold", pa.string()),
        ("reply", pa.string()),
        ("why", pa.string()),
    ],
    # Updates of a training; what the recipe does not have (a reward of SFT) is empty, and so is the reward
    # of a further update on the same replies. ``constant_groups`` is the share of prompts whose replies
    # all had one reward, ``seconds`` is since the training began.
    "steps": [
        ("step", pa.int64()),
        ("epoch", pa.float64()),
        ("loss", pa.float64()),
        ("gradient", pa.float64()),
        ("learning_rate", pa.float64()),
        ("reward", pa.float64()),
        ("reward_spread", pa.float64()),
        ("constant_groups", pa.float64()),
        ("kl", pa.float64()),
        ("entropy", pa.float64()),
        ("format_rate", pa.float64()),
        ("reply_tokens", pa.float64()),
        ("cut_replies", pa.float64()),
        ("token_accuracy", pa.float64()),
        ("seconds", pa.float64()),
    ],
    # The first replies of every batch of a training with rewards.
    "replies": [
        ("step", pa.int64()),
        ("id", pa.string()),
        ("solution", pa.string()),
        ("reply", pa.string()),
        ("reward", pa.float64()),
        ("well_formed", pa.bool_()),
    ],
    # An item scored after its released predecessor ("released"), and after another item (its id).
    "order_neighbour": [
        ("benchmark_id", pa.string()),
        ("model", pa.string()),
        ("condition", pa.string()),
        ("logprob", pa.float64()),
    ],
}

SCHEMAS: dict[str, pa.Schema] = {
    name: pa.schema(columns, metadata={"heldout.table": f"{name}/{VERSIONS[name]}"})
    for name, columns in _COLUMNS.items()
}


def make_table(name: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(list(rows), schema=SCHEMAS[name])


def empty_table(name: str) -> pa.Table:
    return SCHEMAS[name].empty_table()


def write_table(path: Path, table: pa.Table) -> None:
    with replacing(path) as temporary:
        pq.write_table(table, temporary, compression="zstd")


def write_batches(path: Path, tables: Iterable[pa.Table]) -> None:
    """``write_table`` of a table of our own, in pieces."""
    schema = SCHEMAS[path.stem]
    with (
        replacing(path) as temporary,
        pq.ParquetWriter(temporary, schema, compression="zstd") as writer,
    ):
        for table in tables:
            writer.write_table(table.cast(schema))


#: values with another name in an earlier version: table → (that version, column → old value → new one)
_RENAMED: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "matches": ("matches/1", {"relation": {"same view, other subject": "look-alike"}}),
}


def renamed(name: str, table: pa.Table) -> pa.Table:
    """A table of an earlier version as this one writes it, where nothing but values has another name."""
    for column, values in _RENAMED[name][1].items() if name in _RENAMED else ():
        new = [values.get(value, value) for value in table.column(column).to_pylist()]
        place = table.schema.get_field_index(column)
        table = table.set_column(place, column, pa.array(new, pa.string()))
    return table


#: columns that tables of this version did not have at first
_LATER = {
    "leaks": {"corpus_id", "rung", "shown_by"},
    "nearest": {"related"},
    "candidates": {"sure"},
}
_READ = 1 << 20  # bytes of a column in memory, where a table is read in pieces


def read_table(path: Path) -> pa.Table:
    """The table at ``path``, refused if another version of heldout gave its columns other meanings."""
    with opened_table(path) as file:
        table = file.read()
    return _as_now(path, table)


def read_batches(path: Path, rows: int) -> Iterator[pa.Table]:
    """``read_table`` in pieces of some ``rows``."""
    with opened_table(path) as file:
        for groups in _row_groups(file.metadata, rows):
            for batch in file.iter_batches(rows, row_groups=groups):
                table = pa.Table.from_batches([batch])
                yield _as_now(path, table.replace_schema_metadata(file.schema_arrow.metadata))


def _row_groups(about: pq.FileMetaData, rows: int) -> Iterator[list[int]]:
    """Row groups to read together: a reader keeps what it has read of each until its last row."""
    groups: list[int] = []
    held = 0
    for group in range(about.num_row_groups):
        groups.append(group)
        held += about.row_group(group).num_rows
        if held >= rows:
            yield groups
            groups, held = [], 0
    if groups:
        yield groups


@contextlib.contextmanager
def opened_table(path: Path) -> Iterator[pq.ParquetFile]:
    """The table at ``path``, as the run recorded it; an error while it is read names it."""
    verify(path)
    try:
        with opened(path) as plain, pq.ParquetFile(plain, buffer_size=_READ) as file:
            yield file
    except FileNotFoundError:
        raise InputError(
            f"{path} does not exist: has this run finished the stage that writes it?"
        ) from None
    except (pa.ArrowException, OSError) as error:
        blame_the_machine(error)
        raise InputError(f"{path} is not a readable Parquet file: {error}; {cure(path)}") from error


def _as_now(path: Path, table: pa.Table) -> pa.Table:
    name = path.stem
    version = (table.schema.metadata or {}).get(b"heldout.table", b"").decode()
    if name in _RENAMED and version == _RENAMED[name][0]:
        return renamed(name, table).replace_schema_metadata(SCHEMAS[name].metadata)
    expected = f"{name}/{VERSIONS[name]}" if name in VERSIONS else version
    if version != expected:
        raise InputError(
            f"{path} has schema '{version or 'none'}', this heldout reads '{expected}': "
            f"re-run the command that wrote it"
        )
    if name in SCHEMAS:
        for field in SCHEMAS[name]:
            place = table.schema.get_field_index(field.name)
            if place < 0 and field.name in _LATER.get(name, ()):
                continue
            if place < 0 or table.schema.field(place).type != field.type:
                raise InputError(
                    f"{path} has no column '{field.name}' of type {field.type}: {cure(path)}"
                )
    return table
