"""What a search did not read, compare or look for: a clean split is as clean, and a gate as tight, as it was."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from heldout.benchmark import is_unread
from heldout.errors import counted
from heldout.evidence import UNREAD, UnreadFiles, reading_of
from heldout.store import Run


def searched(run: Run) -> list[dict[str, Any]]:
    """Per corpus: where it was, how many images were compared, and how."""
    return [
        {
            "corpus": stage["corpus"],
            "source": stage["source"],
            "fingerprint": stage["fingerprint"],
            "images": stage["counts"].get("images", 0),
            "encoder": stage.get("encoder"),
            "text": run.table_path("text_matches").exists(),
        }
        for stage in run.manifest()["stages"].values()
    ]


def problems_of(run: Run, allowed: Collection[str] = ()) -> list[str]:
    """Parts of the training sets that were not read or compared: nobody knows what they hold. ``allowed``: kinds of
    files that may stay unread."""
    manifest = run.manifest()
    text = run.table_path("text_matches").exists()
    reading = reading_of(manifest, allowed)
    stages = ({**stage, **reading} for stage in manifest["stages"].values())
    problems = [_incomplete(stage, text=text) for stage in stages]
    problems = [problem for problem in (_unfinished(manifest), *problems) if problem]
    return problems or list(_uncompared(run))


def uncompared_pictures(run: Run) -> tuple[str, bool]:
    """What a gate has to say of pictures of the benchmark that are missing, broken or flat, and whether they are too
    many for "no training row overlaps" to hold; empty where there are none."""
    items = run.read_table("items").to_pylist()
    lost = sum(any(map(is_unread, row["image_digests"] or ())) for row in items)
    name = run.manifest()["inputs"]["benchmark"]["name"]
    shown = counted(len(items), "item", "items")
    sentence = f"pictures of {lost:,} of {shown} of {name}, which are missing, broken or flat"
    return (sentence if lost else ""), lost > UNREAD * len(items)


def what_was_not_searched(run: Run) -> Iterator[str]:
    """Sentences about what may be left in a clean split."""
    manifest = run.manifest()
    yield from problems_of(run)
    stages = list(manifest["stages"].values())
    text = run.table_path("text_matches").exists()
    pictured = [stage for stage in stages if stage["counts"].get("images", 0)]
    unencoded = [stage for stage in pictured if not stage.get("encoder")]
    exact = [stage["corpus"] for stage in unencoded if not stage.get("hashes")]
    hashed = [stage["corpus"] for stage in unencoded if stage.get("hashes")]
    if exact:
        yield (
            f"in {', '.join(exact)} only exact copies were looked for: resized, cropped or "
            f"re-compressed ones may be left; search without the setting exact, or with an encoder"
        )
    if hashed:
        yield (
            f"in {', '.join(hashed)} copies were looked for by perceptual hashes: cropped, framed or "
            f"compounded ones may be left; search with an encoder"
        )
    if not text:
        yield "questions and answers were compared only where their image leaked, word for word"
    elif ways := list(unsearched(manifest)):
        yield f"not looked for: {'; '.join(ways)}"


def _unfinished(manifest: Mapping[str, Any]) -> str:
    """A sentence if a search ended before it came to the texts (it was killed); empty if it did not."""
    if "text" in manifest:
        return ""
    return "the search was not finished: give the same heldout overlap command again, which goes on where it was"


def _incomplete(stage: Mapping[str, Any], *, text: bool) -> str:
    """A sentence if a corpus was not read completely; empty if it was.

    ``text``: texts were compared, so that a corpus without images counts as compared.
    """
    counts, failed = stage["counts"], stage["failed"]
    unread, compared = UnreadFiles.of_scan(stage), counts.get("images", 0)
    if text and not compared:
        compared = counts.get("without_image", 0)
    messages = []
    if failed:
        pieces = counted(stage["shards"], "piece", "pieces")
        messages.append(f"{len(failed)} of {pieces} of the corpus failed")
    if unread.matters:
        messages.append(f"{unread.sentence()}; {unread.advice()}")
    if compared == 0 and not messages:
        messages.append("no image could be compared")
    return f"{stage['corpus']} was not read in whole: {'; '.join(messages)}" if messages else ""


def _uncompared(run: Run) -> Iterator[str]:
    """Training sets of which neither words nor pictures could be compared with the benchmark."""
    if not (run.path / "claims.json").exists():
        return
    statuses: dict[str, set[str]] = {}
    for claim in run.read_json("claims.json")["claims"]:
        if claim["id"].startswith(("overlap/", "text/")):
            statuses.setdefault(claim["cell"]["corpus"], set()).add(claim["status"])
    for corpus, reached in statuses.items():
        if reached == {"not testable"}:
            yield (
                f"{corpus} has neither words nor pictures that could be compared with this benchmark; are its columns "
                f"called question, answer, text or image?"
            )


def unsearched(manifest: Mapping[str, Any]) -> Iterator[str]:
    """What ``heldout overlap`` leaves out where it is told to, has no encoder, or could not read a row."""
    if lost := sum(stage["counts"].get("lost_items", 0) for stage in manifest["stages"].values()):
        yield counted(lost, "row or file", "rows or files") + " that could not be read"
    searched = manifest.get("text", {}).values()
    if not searched:
        yield "words"
    elif any(each.get("encoder") is None for each in searched):
        yield "rewordings (no text encoder was used; pip install 'heldout[text]' brings one)"
    else:
        if below := {
            each["rewordings"]["threshold"]
            for each in searched
            if each["rewordings"].get("below_threshold")
        }:
            yield f"rewordings below the threshold that was set ({min(below):g})"
        if any(
            each["rewordings"].get("items_in_other_language")
            or each["counts"].get("text_other_language")
            for each in searched
        ):
            yield "rewordings in languages that the text encoder does not know"
