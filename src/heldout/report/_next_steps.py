"""What to do: recommendations with this run's paths, and the commands to copy."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout.errors import counted
from heldout.evidence import OPEN, TO_READ, Rung
from heldout.overlap import installed_text_encoder
from heldout.settings import changed_command, command_line
from heldout.store import MATCH, TEXT, Run, current
from heldout.verdict import (
    ACTIONS,
    CORPUS_COVERAGE,
    REPLACE,
    REWORDINGS,
    TOO_FEW,
    WHOLE_CORPUS,
    Claim,
)

SAMPLE = 30  # pairs that people look at in a few minutes
LISTED = "; they are listed in actions.jsonl."
_REMOVED = (ACTIONS[Rung.FULL], ACTIONS[Rung.COPY], ACTIONS[Rung.TEXT])
#: rungs that ``sanitize --policy soft`` removes by their picture
_WITH_PICTURES = (Rung.UNDECIDED, Rung.UNCOMPARED, Rung.LOOK_ALIKE)
_OPENED = re.compile(r"\bheldout (review|detect|report)(?: RUN\b|(?=[).,;:]|$))")
_NAMED = re.compile(r"(heldout impact [^.]*--run) RUN\b")


def advice_for(run: Run, advice: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Recommendations with complete commands: with this run's folder and, where one is read, this benchmark.

    An audit lists the items in actions.jsonl.
    """
    beside = run.path / "actions.jsonl"
    listed = f"; they are listed in {beside}." if beside.exists() else "."
    return [
        {**record, "sentence": with_paths(record["sentence"], run).replace(LISTED, listed)}
        for record in advice
    ]


def further(
    advice: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Recommendations that none of the ``steps`` is about: each thing is advised once."""
    covered = {record for step in steps for record in step["covers"]}
    settled = [
        words
        for mark, words in (("review", "heldout review"), (WHOLE_CORPUS, f"({WHOLE_CORPUS})"))
        if mark in covered
    ]
    return [
        record
        for record in advice
        if record["sentence"] not in {step["sentence"] for step in steps}
        and (record.get("benchmark"), record.get("action")) not in covered
        and not (record["kind"] == "control" and any(s in record["sentence"] for s in settled))
    ]


def commands_folder(runs: Sequence[Run]) -> str:
    """Where commands with relative paths have to be run; "" where their paths are absolute."""
    tops = {run.path.parts[0] for run in runs if not run.path.is_absolute() and run.path.parts}
    if not tops:
        return ""
    top = tops.pop()
    if tops or top == "..":
        return "Run the commands in the folder in which this page was made."
    return f"Run the commands in the folder that holds {top}/."


def with_paths(sentence: str, run: Run) -> str:
    """Commands in a sentence, with this run's folder where they read one."""
    folder = shlex.quote(str(run.path))
    named = _OPENED.sub(lambda match: f"heldout {match[1]} {folder}", sentence)
    named = _NAMED.sub(lambda match: f"{match[1]} {folder}", named)
    return named.replace("(heldout sanitize)", f"({sanitize_command(run)})")


def claims_with_paths(claims: Sequence[Claim], run: Run) -> list[Claim]:
    """Claims whose next step names this run's folder."""
    return [
        claim.model_copy(update={"next_step": with_paths(claim.next_step, run)}) for claim in claims
    ]


def sanitize_command(run: Run) -> str:
    folder = _folder("clean", run.manifest()["inputs"]["benchmark"])
    return _reading(run, "sanitize", run=str(run.path), out=folder)


def _resplits(run: Run) -> list[str]:
    """The command that divides the data anew, where a searched corpus is another split of what the benchmark
    was read from."""
    manifest = run.manifest()
    benchmark = manifest["inputs"]["benchmark"]
    same, _, _ = str(benchmark.get("source", "")).partition("#")
    others = [
        str(stage["source"])
        for stage in manifest.get("stages", {}).values()
        if "#" in str(stage.get("source", "")) and stage["source"] != benchmark.get("source")
    ]
    return [
        _reading(
            run, "sanitize", resplit=source, run=str(run.path), out=_folder("resplit", benchmark)
        )
        for source in dict.fromkeys(others)
        if source.partition("#")[0] == same
    ][:1]


def _reading(folder: Run, verb: str, /, **values: str | bool) -> str:
    """A command that reads the benchmark as it was read for this run folder."""
    benchmark = folder.manifest()["inputs"]["benchmark"]
    settings = benchmark.get("settings", {})
    columns = [f"{field}={column}" for field, column in settings.get("mapping", {}).items()]
    reading = {
        name: str(settings[name]) for name in ("images", "preset", "reader") if settings.get(name)
    }
    return command_line(verb, benchmark.get("source", "BENCH"), map=columns, **reading, **values)


def _folder(kind: str, benchmark: Mapping[str, Any]) -> str:
    plain = re.sub(r"[^\w.-]+", "-", str(benchmark.get("name", ""))).strip("-.")
    return f"{kind}-{plain}" if plain else kind


def next_steps(runs: Sequence[Run], advice: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Steps in the order in which they are worth doing, each with the commands that do it, and the
    recommendations that it ``covers``.

    ``advice``: recommendations of the verdict, each with the benchmark that it is about.
    """
    several = len(runs) > 1
    steps, leaky = [], []
    for run in runs:
        benchmark = run.manifest()["inputs"]["benchmark"]
        mine = [record for record in advice if record.get("benchmark") in (None, benchmark["name"])]
        of = f" of {benchmark['name']}" if several else ""
        counts = {record["action"]: 0 for record in mine if "action" in record}
        for record in mine:
            if "action" in record:
                counts[record["action"]] += record["items"]
        leaked = sum(counts.get(action, 0) for action in dict.fromkeys(_REMOVED))
        undecided = counts.get(ACTIONS[Rung.UNDECIDED], 0)
        open_items = sum(counts.get(ACTIONS[rung], 0) for rung in OPEN)
        name = benchmark["name"]
        gone = [(name, action) for action in (REPLACE, *_REMOVED)]
        if REPLACE in counts:
            all_gone = next(record for record in mine if record.get("action") == REPLACE)
            sentence = with_paths(all_gone["sentence"], run)
            steps.append({"sentence": sentence, "commands": _resplits(run), "covers": gone})
        elif leaked:
            left = counted(benchmark["items"] - leaked, "item stays", "items stay")
            doubt = f", {open_items:,} of them undecided" if open_items else ""
            corpora = {stage["corpus"] for stage in run.manifest().get("stages", {}).values()}
            into = " into any corpus" if len(corpora) > 1 else ""
            those = counted(leaked, "item that leaked", "items that leaked") + into
            steps.append(
                {
                    "sentence": f"Write a split{of} without the {those} "
                    f"({left}{doubt}), and report scores on it.",
                    "commands": [sanitize_command(run)],
                    "covers": gone,
                }
            )
        if undecided:
            some = f"{undecided:,} of these {open_items:,} undecided items"
            items = some if leaked and open_items > undecided else _items(undecided) + of
            steps.append(_judged(run, f"the undecided pairs of pictures of {items}"))
            steps[-1]["covers"] = ["review", (name, ACTIONS[Rung.UNDECIDED])]
        elif not leaked and (near := counts.get(ACTIONS[Rung.LOOK_ALIKE], 0)):
            steps.append(_judged(run, f"the look-alikes of {_items(near)}{of}", near))
            steps[-1]["covers"] = ["review", (name, ACTIONS[Rung.LOOK_ALIKE])]
        similar = sum(counts.get(ACTIONS[rung], 0) for rung in TO_READ)
        if similar and REPLACE not in counts:
            steps.append(_texts_read(run, _items(similar) + of))
            if not any(counts.get(ACTIONS[rung], 0) for rung in _WITH_PICTURES):
                steps.append(_removed_unread(run, similar))
        if leaked or undecided:
            leaky.append(run)
    if leaky:
        steps.append(_gated(leaky))
    steps += [step for run in runs for step in _not_done_yet(run)]
    seen = [record["sentence"] for record in advice if record["kind"] == "model"]
    # Where nothing leaked and no model is known to have seen it, what would settle the models comes first.
    settle = (
        [] if leaky or seen else [record["sentence"] for record in advice if _of_models(record)]
    )
    first, last = (
        [{"sentence": sentence, "commands": [], "covers": []} for sentence in sentences]
        for sentences in (settle, seen)
    )
    return [*first, *steps, *last]


def _of_models(advice: Mapping[str, Any]) -> bool:
    """Whether it says how claims about models can be settled; steps on corpora have their own."""
    of_corpora = ("overlap/", "text/", "nearness/")
    return advice["kind"] == "control" and not any(
        claim.startswith(of_corpora) for claim in advice["claims"]
    )


def _items(count: int) -> str:
    return counted(count, "item", "items")


def _judged(run: Run, what: str, look_alikes: int = 0) -> dict[str, Any]:
    raters = {rater for _, rater in current(run.path, MATCH)}
    if look_alikes > SAMPLE and not raters:
        sentence = (
            f"Look at {SAMPLE} of {what}: a copy that could not be aligned may be among them."
        )
        sample = command_line("review", str(run.path), sample=str(SAMPLE))
        return {"sentence": sentence, "commands": [sample], "covers": []}
    if not raters:
        sentence = f"Judge {what} in the browser, then build this report again with the judgements."
        return {
            "sentence": sentence,
            "commands": [command_line("review", str(run.path)), rebuild_command(run)],
            "covers": [],
        }
    another = command_line("review", str(run.path), rater=f"rater-{len(raters) + 1}", blind=True)
    return {
        "sentence": f"Let another rater judge {what}: what one rater decides counts once a second agrees. "
        f"Then build this report again.",
        "commands": [another, rebuild_command(run)],
        "covers": [],
    }


def _texts_read(run: Run, items: str) -> dict[str, Any]:
    """What settles words that are like an item's own: people who read them."""
    raters = {rater for _, rater in current(run.path, TEXT)}
    texts = {"kind": "texts"}
    if not raters:
        sentence = (
            f"Read the pairs of texts of {items} with similar words in a corpus: a rewording that two people recognise "
            f"counts as a leak. Then build this report again with the judgements."
        )
        first = command_line("review", str(run.path), **texts)
    else:
        sentence = (
            f"Let another rater read the pairs of texts of {items}. Then build this report again."
        )
        first = command_line(
            "review", str(run.path), rater=f"rater-{len(raters) + 1}", blind=True, **texts
        )
    name = run.manifest()["inputs"]["benchmark"]["name"]
    return {
        "sentence": sentence,
        "commands": [first, rebuild_command(run)],
        "covers": ["review", *((name, ACTIONS[rung]) for rung in TO_READ)],
    }


def _removed_unread(run: Run, similar: int) -> dict[str, Any]:
    """The split without them for whoever has no time to read; ``soft`` would remove doubtful pictures, too."""
    folder = _folder("clean-unread", run.manifest()["inputs"]["benchmark"])
    command = _reading(run, "sanitize", run=str(run.path), policy="soft", text=True, out=folder)
    those, them, may_be = (
        ("this item", "it", "it may be another question")
        if similar == 1
        else (f"these {similar:,} items", "them", "some may be other questions")
    )
    return {
        "sentence": f"Or write a split without {those}, without reading {them}: {may_be} in similar words.",
        "commands": [command],
        "covers": [],
    }


def rebuild_command(run: Run) -> str:
    """The command that includes judgements; an audit's pages are about all its runs and are made together."""
    if not (run.path / "audit.yaml").exists():
        return command_line("report", str(run.path))
    commands = run.manifest()["commands"]
    files = [command[2] for command in commands if command[1:2] == ["audit"] and len(command) > 2]
    beside = run.path.parent.parent / "audit.yaml"  # as a demo writes it
    known = [file for file in (*reversed(files), str(beside)) if Path(file).is_file()]
    return command_line("audit", known[0]) if known else "the same heldout audit again"


def _not_done_yet(run: Run) -> Iterator[dict[str, Any]]:
    """What this run holds nothing of: the rest of a corpus, verdicts on recorded models, a searched corpus."""
    manifest = run.manifest()
    if first := _read_in_part(run):
        yield {
            "sentence": f"Search all of {' and '.join(first)}: {next(iter(first.values()))}.",
            "commands": _whole_search(run),
            "covers": [WHOLE_CORPUS],
        }
    if broken := _not_read(run):
        yield {
            "sentence": f"Mend what could not be read of {' and '.join(broken)} (tables/dropped.parquet names it), and "
            f"search again.",
            "commands": _same_search(run),
            "covers": [CORPUS_COVERAGE],
        }
    if unread := _without_rewordings(run):
        again, installed = _search_for_rewordings(run)
        yield {
            "sentence": f"Look for rewordings in {' and '.join(unread)}: the search so far finds no question in other "
            f"words{'' if installed else '. It needs the extra text'}.",
            "commands": again,
            "covers": [REWORDINGS],
        }
    if few := _without_rewordings(run, few=True):
        yield {
            "sentence": f"Read the nearest pairs of texts of {' and '.join(few)}, or search with more items: a "
            f"benchmark of so few questions cannot show which of them are rewordings.",
            "commands": [command_line("review", str(run.path), kind="texts")],
            "covers": [REWORDINGS],
        }
    if manifest.get("models") and not (run.path / "detections.json").exists():
        yield {
            "sentence": "Test what the recorded answers and scores say about the models.",
            "commands": [command_line("detect", str(run.path))],
            "covers": [],
        }
    if not manifest.get("stages"):
        yield {
            "sentence": "Search a corpus that models may have been trained on: its path in place of CORPUS.",
            "commands": [_reading(run, "overlap", against="CORPUS", out=str(run.path))],
            "covers": [],
        }


def _read_in_part(run: Run) -> dict[str, str]:
    """Corpora of which only the first items were read, each with the sentence that says how many."""
    claims = run.read_json("claims.json")["claims"] if (run.path / "claims.json").exists() else []
    return {
        claim["cell"]["corpus"]: control["reason"]
        for claim in claims
        for control in claim.get("controls", ())
        if control["name"] == WHOLE_CORPUS
    }


def _not_read(run: Run) -> list[str]:
    """Corpora in which nothing was found, and of which too much could not be read to call them clean."""
    claims = run.read_json("claims.json")["claims"] if (run.path / "claims.json").exists() else []
    corpora = [
        claim["cell"]["corpus"]
        for claim in claims
        if claim["status"] == "qualified" and claim.get("rule", "").endswith("/parts-unread")
        for control in claim.get("controls", ())
        if control["name"] == CORPUS_COVERAGE and control["outcome"] == "failed"
    ]
    return list(dict.fromkeys(corpora))


def _without_rewordings(run: Run, *, few: bool = False) -> list[str]:
    """Corpora whose words were searched, but not for rewordings; with ``few``, those in which hardly any counts."""
    claims = run.read_json("claims.json")["claims"] if (run.path / "claims.json").exists() else []
    return [
        claim["cell"]["corpus"]
        for claim in claims
        if claim["status"] == "qualified" and claim["id"].startswith("text/")
        for control in claim.get("controls", ())
        if control["name"] == REWORDINGS
        and control["outcome"] == "missing"
        and (TOO_FEW in control["reason"]) == few
    ]


def _search_for_rewordings(run: Run) -> tuple[list[str], bool]:
    """The same search with the encoder that it finds by itself, and whether that is installed here."""
    installed = installed_text_encoder(None) is not None
    searches = [command for command in run.manifest()["commands"] if command[1:2] == ["overlap"]]
    if not searches:
        return [], installed
    without = changed_command(searches[-1], "text_encoder")
    extra = [] if installed else ["pip install 'heldout[text]'"]
    return [*extra, without or shlex.join(searches[-1])], installed


def _same_search(run: Run) -> list[str]:
    searches = [command for command in run.manifest()["commands"] if command[1:2] == ["overlap"]]
    return [shlex.join(searches[-1])] if searches else []


def _whole_search(run: Run) -> list[str]:
    """The search again without its limit, in a folder of its own; nothing where the limit stands elsewhere."""
    searches = [command for command in run.manifest()["commands"] if command[1:2] == ["overlap"]]
    again = changed_command(searches[-1], "limit", out=f"{run.path}-whole") if searches else ""
    return [again] if again else []


def _gated(runs: Sequence[Run]) -> dict[str, Any]:
    corpora = dict.fromkeys(
        stage["corpus"] for run in runs for stage in run.manifest().get("stages", {}).values()
    )
    names = " or ".join(corpora)
    folders = [str(run.path) for run in runs]
    return {
        "sentence": f"If you train on {names}: this command lists the rows to remove in gate/remove_ids.txt, and "
        f"exits with 1 while there are any.",
        "commands": [command_line("gate", *folders, out="gate")],
        "covers": [],
    }
