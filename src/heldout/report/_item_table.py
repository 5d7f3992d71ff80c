"""Every item as a table that the browser searches, sorts and filters, and opens one by one.

The first rows are plain HTML. The columns of all items lie in one packed block behind the text, and what an
open item shows in further blocks of ``PER_BLOCK`` items, which the browser unpacks on demand. It makes nodes
of them by their text alone, so that words of a benchmark, a corpus or a model never become markup.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import polars as pl

from heldout.evidence import OPEN, PROVEN, Relation, Rung, leaks
from heldout.overlap import match_batches, pair_hash, read_text_matches
from heldout.report._gallery import packed
from heldout.report._reproduce import visible
from heldout.store import ITEM, TWIN, Partitions, Run, current

PER_BLOCK = 200
FIRST = 25  # rows that are there without scripts, and rows of one page
MATCHES = 12  # pairs of pictures, and pairs of texts, that an open item shows
SHOWN_MODELS = 5  # columns; an open item has all models
#: the highest rung of an item, in the words of a column
RUNGS = {
    Rung.FULL: "picture and answer",
    Rung.COPY: "picture",
    Rung.TEXT: "question and answer",
    Rung.UNDECIDED: "undecided picture",
    Rung.UNCOMPARED: "undecided: words, picture not compared",
    Rung.BESIDE_ANOTHER: "words beside another picture",
    Rung.SOURCE_OVERLAP: "same source",
    Rung.LOOK_ALIKE: "look-alike",
    Rung.WORDING: "question without its answer",
    Rung.SIMILAR: "similar words",
}
NO_MATCH = "no match"
_LONGEST = {"id": 200, "question": 300, "answer": 80}  # characters in the table
_OPENED = 2_000  # characters of a text in an open item
_REPLY = 300
_OUTCOMES = {"right": "r", "wrong": "w", "unparsed": "u", "refused": "u"}
_SOURCE = "provenance"


@dataclass
class ItemTable:
    """What the page needs: the first rows, the packed columns, and the packed blocks of open items."""

    total: int = 0  # items of the benchmark
    listed: int = 0  # items of the table
    first: list[dict[str, Any]] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)  # items by status, the gravest first
    leaked: int = 0
    corpora: list[str] = field(default_factory=list)
    models: list[str] = field(default_factory=list)
    columns: str = ""
    blocks: list[str] = field(default_factory=list)


def make_item_table(run: Run, most: int, pairs: Mapping[str, Sequence[int]]) -> ItemTable:
    """``most`` items, the gravest first; ``pairs``: numbers of gallery cards by item."""
    items = run.frame("items")
    if items.is_empty() or not most:
        return ItemTable(total=len(items))
    scanned = run.table_path("matches").exists() or run.table_path("text_matches").exists()
    leaked = leaks(run) if scanned else None
    reached: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in leaked.iter_rows(named=True) if leaked is not None else ():
        reached[row["benchmark_id"]][row["corpus"]] = row
    highest = {
        name: max(Rung(row["rung"]) for row in mine.values()) for name, mine in reached.items()
    }
    rows = sorted(
        items.iter_rows(named=True),
        key=lambda row: (_place(highest.get(row["benchmark_id"])), row["position"]),
    )[:most]
    listed = {row["benchmark_id"] for row in rows}
    answers = _Replies(run, listed)
    texts = _texts(run, listed)
    counts = Counter(highest.get(row["benchmark_id"]) for row in rows)
    corpora = list(_corpora(run)) if scanned else []
    models = answers.models
    hits = _hits(run, [row["benchmark_id"] for row in rows])
    columns = {
        "total": len(items),
        "rows": FIRST,
        "per_block": PER_BLOCK,
        "position": [row["position"] for row in rows],
        **{
            name: [_short(row[column], _LONGEST[name]) for row in rows]
            for name, column in _COLUMNS.items()
        },
        "statuses": [*RUNGS.values(), NO_MATCH],
        "colours": [*map(_colour, RUNGS), "clean"],
        "corpora": corpora,
        # One sign per item: the place of its status among ``statuses``, after "0".
        "reach": [
            "".join(_sign(reached.get(row["benchmark_id"], {}).get(corpus)) for row in rows)
            for corpus in corpora
        ],
        "hits": hits,
        "models": models,
        "outcomes": [
            "".join(answers.outcome(model, row["benchmark_id"]) for row in rows) for model in models
        ],
    }
    judged = _judged(run)
    sets = run.read_json("twins.json")["twins"] if (run.path / "twins.json").exists() else {}
    twins = _twins(run)

    def opened(row: Mapping[str, Any]) -> dict[str, Any]:
        name = row["benchmark_id"]
        numbers = pairs.get(name, ())
        parts = {
            "question": _short(row["question"], _OPENED),
            "options": [_short(option, _REPLY) for option in row["options"] or ()],
            "answer": _short(row["answer"], _OPENED),
            "images": row["image_names"],
            "metadata": _metadata(row["metadata"]),
            "leaks": [
                [corpus, RUNGS[Rung(leak["rung"])], leak["corpus_id"], leak["shown_by"]]
                for corpus, leak in reached.get(name, {}).items()
            ],
            "pairs": list(numbers[:MATCHES]),
            "more_pairs": max(0, len(numbers) - MATCHES),
            "texts": texts.get(name, []),
            "answers": answers.of(name, sets),
            "scores": answers.scores(name),
            "twins": twins.get(name, []),
            "judgements": judged.get(name, []),
        }
        return {part: _clear(value) for part, value in parts.items() if value}

    blocks = [
        packed([opened(row) for row in rows[start : start + PER_BLOCK]])
        for start in range(0, len(rows), PER_BLOCK)
    ]
    first = [
        {
            "id": row["benchmark_id"],
            "question": _short(row["question"], _LONGEST["question"]),
            "answer": _short(row["answer"], _LONGEST["answer"]),
            "status": _status(highest.get(row["benchmark_id"])),
            "colour": _colour(highest.get(row["benchmark_id"])),
            "hits": count,
            "outcomes": [answers.outcome(m, row["benchmark_id"]) for m in models[:SHOWN_MODELS]],
        }
        for row, count in zip(rows[:FIRST], hits, strict=False)
    ]
    return ItemTable(
        total=len(items),
        listed=len(rows),
        first=first,
        statuses={_status(rung): counts[rung] for rung in (*RUNGS, None) if counts[rung]},
        leaked=sum(counts[rung] for rung in PROVEN),
        corpora=corpora,
        models=models,
        columns=packed(columns),
        blocks=blocks,
    )


_COLUMNS = {"id": "benchmark_id", "question": "question", "answer": "answer"}


def _place(rung: Rung | None) -> int:
    return list(RUNGS).index(rung) if rung is not None else len(RUNGS)


def _status(rung: Rung | None) -> str:
    return RUNGS[rung] if rung is not None else NO_MATCH


def _colour(rung: Rung | None) -> str:
    """The class of the status: what leaked, what is open, what is neither."""
    if rung is None:
        return "clean"
    return "survives" if rung in PROVEN else "qualified" if rung in OPEN else "re-attributed"


def _sign(leak: Mapping[str, Any] | None) -> str:
    return chr(ord("0") + (_place(Rung(leak["rung"])) if leak is not None else len(RUNGS)))


def _hits(run: Run, ids: Sequence[str]) -> list[int]:
    """Per item, the corpus items that an open item lists: pictures that are not unrelated, and words that count."""
    places = pl.DataFrame(
        {"benchmark_id": ids, "place": np.arange(len(ids))}, schema_overrides={"place": pl.Int64}
    )
    counts = np.zeros(len(ids), np.int64)
    with Partitions({"pair": np.uint64, "place": np.int64}, by="pair") as partitions:
        for frame in _matched(run):
            pair = pair_hash("benchmark_id", "corpus", "corpus_id").alias("pair")
            here = frame.join(places, on="benchmark_id").select(pair, "place").unique("pair")
            partitions.add(pair=here["pair"].to_numpy(), place=here["place"].to_numpy())
        for part in partitions:
            once = part[np.unique(part["pair"], return_index=True)[1]]
            counts += np.bincount(once["place"], minlength=len(counts))
    return [int(count) for count in counts]


def _matched(run: Run) -> Iterator[pl.DataFrame]:
    pair = ["benchmark_id", "corpus", "corpus_id"]
    if run.table_path("matches").exists():
        for frame in match_batches(run):
            yield frame.filter(pl.col("relation") != Relation.UNRELATED).select(pair)
    if run.table_path("text_matches").exists():
        yield read_text_matches(run).filter(_COUNTS).select(pair)


_NAMED = pl.col("method") == _SOURCE
_COUNTS = (pl.col("degree") != "none") & (pl.col("method") != _SOURCE)


def _corpora(run: Run) -> dict[str, None]:
    manifest = run.manifest()
    stages = [*manifest["stages"].values(), *manifest.get("text", {}).values()]
    return dict.fromkeys(stage["corpus"] for stage in stages if "corpus" in stage)


def _short(words: str | None, most: int) -> str:
    message = words or ""
    message = message if len(message) <= most else message[: most - 1] + "…"
    return str(visible(message))


def _clear(value: Any) -> Any:
    """Every text of a value with its control signs as symbols."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {str(visible(key)): _clear(entry) for key, entry in value.items()}
    return [_clear(entry) for entry in value] if isinstance(value, list | tuple) else value


def _metadata(text: str | None) -> dict[str, str]:
    fields = json.loads(text or "{}")
    return {
        name: _short(value if isinstance(value, str) else json.dumps(value), _REPLY)
        for name, value in fields.items()
        if value not in (None, "", [], {})
    }


class _Replies:
    """Answers and scores of every model, by item."""

    def __init__(self, run: Run, listed: set[str]) -> None:
        self.names: dict[str, None] = {}
        self._by_item: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        self._scores: dict[str, list[list[Any]]] = defaultdict(list)
        self._outcomes: dict[tuple[str, str], str] = {}
        if run.table_path("answers").exists():
            columns = ("benchmark_id", "model", "variant", "draw", "options", "gold", "reply")
            frame = run.frame("answers").select(*columns, "outcome")
            for row in frame.iter_rows(named=True):
                if row["benchmark_id"] in listed:
                    self._add(row)
        if run.table_path("scores").exists():
            per_token = pl.col("sum_logprob") / pl.col("n_tokens")
            frame = run.frame("scores").filter(pl.col("n_tokens") > 0)
            for name, model, score in frame.select(
                "benchmark_id", "model", per_token.alias("score")
            ).iter_rows():
                self._scores[name].append([model, round(score, 3)])

    def _add(self, row: Mapping[str, Any]) -> None:
        self.names.setdefault(row["model"])
        self._by_item[row["benchmark_id"]].append(row)
        if row["variant"] == "original":
            key = (row["model"], row["benchmark_id"])
            self._outcomes.setdefault(key, _OUTCOMES.get(row["outcome"], "u"))

    @property
    def models(self) -> list[str]:
        return list(self.names)

    def outcome(self, model: str, item: str) -> str:
        """On the item as it is: r(ight), w(rong), u(nread) or - where it was not asked."""
        return self._outcomes.get((model, item), "-")

    def of(self, item: str, sets: Iterable[str]) -> list[list[Any]]:
        """[model, variant, reply, key, outcome, whether it is folded away]: the item and its twins first."""
        shown = ("original", *sets)
        rows = [
            [
                row["model"],
                row["variant"] + (f", draw {row['draw'] + 1}" if row["draw"] else ""),
                _short((row["reply"] or "").strip(), _REPLY),
                _short(_key(row), _REPLY),
                row["outcome"],
                int(row["variant"] not in shown or bool(row["draw"])),
            ]
            for row in self._by_item.get(item, ())
        ]
        return sorted(rows, key=lambda row: row[-1])

    def scores(self, item: str) -> list[list[Any]]:
        return self._scores.get(item, [])


def _key(row: Mapping[str, Any]) -> str:
    """The right answer of this variant, a letter with its option."""
    gold, options = row["gold"] or "", row["options"] or []
    place = ord(gold) - ord("A") if len(gold) == 1 else -1
    return f"{gold}. {options[place]}" if 0 <= place < len(options) else gold


def _texts(run: Run, listed: set[str]) -> dict[str, list[list[Any]]]:
    """The strongest pairs of texts of each item: [corpus, id, relation, similarity, text, answers]."""
    if not run.table_path("text_matches").exists():
        return {}
    grades = {"hard": 0, "soft": 1}
    frame = (
        read_text_matches(run)
        .filter(pl.col("benchmark_id").is_in(list(listed)) & (_COUNTS | _NAMED))
        .with_columns(
            pl.col("degree").replace_strict(grades, default=2, return_dtype=pl.Int8).alias("grade")
        )
        .sort("grade", "similarity", descending=[False, True], maintain_order=True)
        .unique(["benchmark_id", "corpus", "corpus_id"], keep="first", maintain_order=True)
        .group_by("benchmark_id", maintain_order=True)
        .head(MATCHES)
    )
    texts: dict[str, list[list[Any]]] = defaultdict(list)
    for row in frame.iter_rows(named=True):
        evidence = json.loads(row["evidence"])
        texts[row["benchmark_id"]].append(
            [
                row["corpus"],
                row["corpus_id"],
                "same source" if row["method"] == _SOURCE else row["relation"],
                round(row["similarity"], 2),
                _short(evidence.get("corpus_text", ""), _REPLY),
                _short(", ".join(evidence.get("corpus_answers") or ()), _REPLY),
                _people(evidence),
            ]
        )
    return texts


def _people(evidence: Mapping[str, Any]) -> str:
    verdicts = (evidence.get("people") or {}).get("verdicts") or {}
    return "; ".join(f"{rater}: {verdict}" for rater, verdict in verdicts.items())


def _judged(run: Run) -> dict[str, list[list[str]]]:
    """What people said of an item or its twin; of pictures and words it stands with the pair."""
    judged: dict[str, list[list[str]]] = defaultdict(list)
    for kind in (ITEM, TWIN):
        for (subject, rater), judgement in current(run.path, kind).items():
            ratings = ", ".join(f"{scale} {value}" for scale, value in judgement.ratings.items())
            judged[subject].append(
                [kind, rater, judgement.verdict or "", ratings, _short(judgement.note, _REPLY)]
            )
    return judged


def _twins(run: Run) -> dict[str, list[list[str]]]:
    """Twins that this run made: [new answer, caption, what became of it]."""
    if not run.table_path("twins").exists():
        return {}
    twins: dict[str, list[list[str]]] = defaultdict(list)
    for row in run.frame("twins").iter_rows(named=True):
        fate = "kept" if row["kept"] else f"rejected: {row['verifier_reason'] or row['verifier']}"
        twins[row["benchmark_id"]].append(
            [_short(row["new_answer"], _REPLY), _short(row["caption"], _REPLY), _short(fate, 300)]
        )
    return twins
