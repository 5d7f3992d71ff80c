"""Rules about closed questions: what can be scored without looking at the picture.

Items that share an image are not independent, so every interval and test here is by cluster.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from heldout.benchmark.benchmark import Benchmark, Example, normal
from heldout.benchmark.check.problem import Problem, problem
from heldout.benchmark.fields import ANSWER_NAMES, KEY_NAMES
from heldout.errors import percent
from heldout.stats import cluster_mean_test, cluster_rate_interval

# several rules run on every benchmark; at .05 each, one benchmark in three would have a false alarm
_ALPHA = 0.01
_FEWEST = 20


def choice_rules(benchmark: Benchmark) -> Iterator[Problem]:
    yield from _letters(benchmark)
    yield from _longest(benchmark)
    yield from _majority(benchmark)


def _letters(benchmark: Benchmark) -> Iterator[Problem]:
    """Is one position right more often than chance allows? Each item counts its own options."""
    rows_with_options = [
        (example.id, cluster, len(example.options), example.answer_index)
        for example, cluster in zip(benchmark, benchmark.clusters, strict=True)
        if example.answer_index is not None
    ]
    if len(rows_with_options) < _FEWEST:
        return
    clusters = [cluster for _, cluster, _, _ in rows_with_options]
    positions = max(n for _, _, n, _ in rows_with_options)
    best: tuple[float, int, list[float], list[float]] | None = None
    for position in range(positions):
        hits = [float(index == position) for _, _, _, index in rows_with_options]
        chances = [1.0 / n if position < n else 0.0 for _, _, n, _ in rows_with_options]
        test = cluster_mean_test(np.subtract(hits, chances), clusters)
        if test.t > 0 and (best is None or test.p < best[0]):
            best = test.p, position, hits, chances
    if best is None:
        return
    p = min(1.0, best[0] * positions)  # the best of several positions was looked for
    letter = chr(ord("A") + best[1])
    yield from _baseline(
        "answer-letter-imbalance",
        f"always answering {letter}",
        "shuffle the options, or report accuracy over all rotations (CircularEval)",
        [identifier for identifier, _, _, _ in rows_with_options],
        clusters,
        best[2],
        best[3],
        p,
    )


def _longest(benchmark: Benchmark) -> Iterator[Problem]:
    """Does the longest option give the key away?"""
    ids, clusters, hits, chances = [], [], [], []
    for example, cluster in zip(benchmark, benchmark.clusters, strict=True):
        lengths = [len(option) for option in example.options]
        if example.answer_index is None or lengths.count(max(lengths)) != 1:
            continue
        ids.append(example.id)
        clusters.append(cluster)
        hits.append(float(lengths[example.answer_index] == max(lengths)))
        chances.append(1.0 / len(lengths))
    if len(ids) < _FEWEST or np.mean(hits) <= np.mean(chances):
        return
    yield from _baseline(
        "longest-option",
        "always choosing the longest option",
        "write distractors as long as the key; report this baseline beside every score",
        ids,
        clusters,
        hits,
        chances,
        cluster_mean_test(np.subtract(hits, chances), clusters).p,
    )


def _majority(benchmark: Benchmark) -> Iterator[Problem]:
    """The score of always answering the more common of yes and no."""
    closed = [
        (example.id, cluster, normal(example.answer))
        for example, cluster in zip(benchmark, benchmark.clusters, strict=True)
        if not example.options and normal(example.answer) in ("yes", "no")
    ]
    if len(closed) < _FEWEST:
        return
    answer = Counter(answer for _, _, answer in closed).most_common(1)[0][0]
    hits = [float(reference == answer) for _, _, reference in closed]
    clusters = [cluster for _, cluster, _ in closed]
    yield from _baseline(
        "yes-no-imbalance",
        f"always answering '{answer}'",
        "report this baseline beside the score on closed questions",
        [identifier for identifier, _, _ in closed],
        clusters,
        hits,
        [0.5] * len(hits),
        cluster_mean_test(np.subtract(hits, 0.5), clusters).p,
    )


def _baseline(
    rule: str,
    what: str,
    advice: str,
    ids: Sequence[str],
    clusters: Sequence[str],
    hits: Sequence[float],
    chances: Sequence[float],
    p: float,
) -> Iterator[Problem]:
    if p >= _ALPHA:
        return
    interval = cluster_rate_interval(hits, clusters)
    yield problem(
        rule,
        "note" if rule == "yes-no-imbalance" else "warning",
        f"{what} scores {percent(float(np.mean(hits)))} [{percent(interval.low)}, {percent(interval.high)}] on "
        f"{len(ids):,} items; chance is {percent(float(np.mean(chances)))} (p = {p:.2g}, by cluster)",
        advice,
        [identifier for identifier, hit in zip(ids, hits, strict=True) if hit],
        len(ids),
    )


# Rules about keys: how the file writes the right option, and whether that can be read two ways.


_LETTER = re.compile(r"\(?([A-Za-z])\)?[.:]?")
_FEW_LETTERS = re.compile(r"\(?[A-Fa-f]\)?[.:]?")
_LIKE_AN_OPTION = re.compile(
    r"(?:opt|option|choice|cand|candidate|alternative|alt|distractor|answer|ans|resp)s?[ _-]?"
    r"(?:[a-j]|\d{1,2}|one|two|three|four)",
    re.IGNORECASE,
)
_MOST = 0.8  # of the keys that make a column one of letters, or one of texts


def key_rules(benchmark: Benchmark) -> Iterator[Problem]:
    keyed = [e for e in benchmark if e.options and e.key and e.answer_index is not None]
    yield from _without_options(benchmark)
    yield from _several(benchmark)
    yield from _mixed(keyed)
    yield from _ambiguous(keyed)


def _without_options(benchmark: Benchmark) -> Iterator[Problem]:
    """Letters, or small numbers beside columns that look like options, and nothing to choose from."""
    answered = [e for e in benchmark if (e.key or e.answer or "").strip()]
    if not answered or any(example.options for example in benchmark):
        return
    keys = {e.id: str(e.key or e.answer).strip() for e in answered}
    letters = [e for e in answered if _FEW_LETTERS.fullmatch(keys[e.id])]
    numbers = [e for e in answered if keys[e.id].isdecimal() and len(keys[e.id]) == 1]
    columns = {key for e in answered for key in e.metadata if _LIKE_AN_OPTION.fullmatch(key)}
    examples = letters
    if len(columns) > 1 and len(numbers) > len(letters):
        examples = numbers
    # A question may ask for a letter in the picture; several letters in every item are keys.
    if len(examples) < _MOST * len(answered) or (examples is letters and len(answered) < 2):
        return
    seen = f"; columns that look like options: {', '.join(sorted(columns)[:8])}" if columns else ""
    yield problem(
        "keys-without-options",
        "error",
        f"{len(examples):,} of {len(answered):,} answers are "
        f"{'letters' if examples is letters else 'positions'}, such as '{keys[examples[0].id]}', but no item has "
        f"options{seen}",
        "name the columns of the options: the setting mapping options=A+B+C+D; read as open questions, these items "
        "ask for a letter that is not shown",
        [e.id for e in examples],
        len(benchmark),
    )


def _several(benchmark: Benchmark) -> Iterator[Problem]:
    """A list of keys that are different options: one of them is read, and the others are lost."""
    named = str(benchmark.settings.get("mapping", {}).get("answer", "")).lower()
    affected = []
    for example in benchmark:
        if not example.options:
            continue
        for column, value in example.metadata.items():
            if column.lower() not in ANSWER_NAMES | set(KEY_NAMES) | {named}:
                continue
            keys = value if isinstance(value, list | tuple) else []
            places = {
                place
                for key in map(str, keys)
                for place in [_text_place(example, key), _letter_place(example, key)]
                if place is not None
            }
            if len(keys) > 1 and len(places) > 1:
                listed = ", ".join(map(str, keys))
                affected.append(
                    f"{example.id}: {listed:.60}; read as {_name(example.answer_index)}"
                )
    if affected:
        yield problem(
            "several-keys",
            "error",
            f"{len(affected):,} multiple-choice items have several keys, of which the first alone is read: "
            f"a reply that names another of them is graded as wrong",
            "give each item one key, or write the combinations as options of their own; leave these "
            "items out otherwise",
            affected,
            len(benchmark),
        )


def _mixed(keyed: list[Example]) -> Iterator[Problem]:
    """Some keys are texts among letters, or letters among texts."""
    letters, texts = [], []
    for example in keyed:
        if _text_place(example) is not None:
            # A letter that is also an option's text fits both: the next rule is about those.
            if _letter_place(example) is None:
                texts.append(example)
        elif _letter_place(example) is not None:
            letters.append(example)
    n = len(letters) + len(texts)
    if not letters or not texts or max(len(letters), len(texts)) < _MOST * n:
        return
    few, kind, others = (
        (texts, "the text of an option", "letters")
        if len(texts) < len(letters)
        else (letters, "a letter", "texts of options")
    )
    yield problem(
        "mixed-keys",
        "warning",
        f"{len(few):,} of {len(keyed):,} keys are {kind} where the others are {others}",
        "write all keys alike: a grader that expects one kind counts every answer to these items "
        "as wrong",
        [f"{e.id}: '{e.key}' (option {_name(e.answer_index)})" for e in few],
        len(keyed),
    )


def _ambiguous(keyed: list[Example]) -> Iterator[Problem]:
    """The key is the letter (or the position) of one option and the text of another."""
    affected = []
    for example in keyed:
        text, place = _text_place(example), _letter_place(example)
        if place is None and example.key == str(example.answer_index):
            place = example.answer_index  # read as a position
        if text is not None and place is not None and text != place:
            read = _name(example.answer_index)
            affected.append(
                f"{example.id}: '{example.key}' is option {_name(place)} "
                f"('{example.options[place]:.40}') or the text of option {_name(text)}; read as {read}"
            )
    if affected:
        yield problem(
            "ambiguous-key",
            "warning",
            f"{len(affected):,} of {len(keyed):,} keys are the letter of one option and the text of "
            f"another",
            "rename these options or grade by position: a reply that is only this letter can mean "
            "either option",
            affected,
            len(keyed),
        )


def _letter_place(example: Example, key: str | None = None) -> int | None:
    match = _LETTER.fullmatch((key or example.key or "").strip())
    place = ord(match[1].upper()) - ord("A") if match else -1
    return place if 0 <= place < len(example.options) else None


def _text_place(example: Example, key: str | None = None) -> int | None:
    """Which option has the key as its text."""
    texts = [normal(option) for option in example.options]
    key = normal(key or example.key)
    return texts.index(key) if key in texts else None


def _name(place: int | None) -> str:
    return chr(ord("A") + (place or 0))
