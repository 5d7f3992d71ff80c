"""The verifier: a model that sees the new picture, reasons, and ends with KEEP or REJECT."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from heldout.benchmark import Benchmark, CutError, letter, without_thoughts
from heldout.image import Digests, FileOnDisk, ImageError, ImageRef, byte_digest
from heldout.model import (
    CUT,
    REFUSED,
    Asker,
    Journal,
    Prompt,
    Reply,
    ReplySet,
    Request,
    Text,
    ask_prompts,
)
from heldout.store import Dropped, Run, inside
from heldout.twin.ledger import DESCRIBE, KEEP, REJECT, RESAMPLE, digest, read_stage, write_stage

# What the describer and the verifier read: versioned, modelled on the paper's two prompts.


# Part of every caption's and every verdict's identity. Raise it with any change of what is read.
DESCRIBE_TEMPLATE = "heldout-describe/1"
VERIFY_TEMPLATE = "heldout-verify/1"

_DESCRIBE = """\
Here are a picture and a question about it.

{asked}

In this picture the right answer is: {old}
Now imagine another picture, as near to this one as possible, in which the right answer is: {new}
{others}
Describe that other picture in a dense caption, from which somebody who has seen neither of the two could \
draw it: the kind of picture, the viewpoint and the layout; everything in it with its place, number, size, \
colour and texture; any text that can be read. Whatever makes the new answer right must be plain to see. \
Keep everything that the new answer does not force to change. Do not mention the question, the options, \
the first picture, or that anything was changed.

Reply with the caption alone, in at most {words} words."""

_VERIFY = """\
Here are a picture and a question about it.

{asked}

The answer is said to be: {new}

Decide whether the question can be answered from this picture, and whether that answer is right. It must \
follow from what can be seen, and no other answer{options} may be right as well, or as likely. If there is \
any doubt, the item is rejected. How natural or beautiful the picture is does not matter.

Reason first: say what the picture shows, what the right answer is, and why. Then end with a last line \
that holds a single word, KEEP or REJECT."""


def describe_prompt(
    identifier: str,
    picture: ImageRef,
    question: str,
    options: Sequence[str],
    old: str,
    new: str,
    words: int,
) -> Prompt:
    others = "Every other option is wrong there.\n" if options else ""
    text = _DESCRIBE.format(
        asked=_asked(question, options), old=old, new=new, others=others, words=words
    )
    return Prompt(Request(identifier, (picture, Text(text))))


def verify_prompt(
    identifier: str, picture: ImageRef, question: str, options: Sequence[str], new: str
) -> Prompt:
    among = " among the options" if options else ""
    text = _VERIFY.format(asked=_asked(question, options), new=new, options=among)
    return Prompt(Request(identifier, (picture, Text(text))))


def _asked(question: str, options: Sequence[str]) -> str:
    lines = [f"{letter(place)}. {option}" for place, option in enumerate(options)]
    return "\n".join([f"Question: {question}", *(["Options:"] if lines else []), *lines])


UNREAD = "unread"  # the verifier's reply could not be read as a verdict
NOT_ASKED = "not asked"
_VERDICT = re.compile(r"(?:(?:final )?(?:answer|verdict|decision)\s*[:=]\s*)?(KEEP|REJECT)", re.I)
_MARKS = "*_`#>\"' \t.!"
_LONGEST_REASON = 4000


class TwinVerdict(NamedTuple):
    """``verdict``: keep, reject, unread or not asked; ``reason``: its reasoning, or what went wrong."""

    verdict: str
    reason: str


def verify(
    run: Run, rendered: Sequence[dict[str, Any]], verifier: Asker, *, quiet: bool = False
) -> tuple[dict[str, TwinVerdict], ReplySet]:
    prompts = {
        row["id"]: verify_prompt(
            row["id"],
            ImageRef(row["picture"], FileOnDisk(str(inside(run.path, row["picture"])))),
            row["question"],
            row["options"],
            row["new_answer"],
        )
        for row in rendered
    }
    journal = Journal(run.path / "stages" / "twin" / "verify.jsonl")
    answered = ask_prompts(
        verifier,
        prompts,
        journal,
        _content,
        stage="twin filter",
        title="verifying",
        unit="twins",
        quiet=quiet,
    )
    verdicts = {name: read_verdict(reply) for name, reply in answered.replies.items()}
    for dropped in answered.lost.values():
        verdicts[dropped.id] = TwinVerdict(NOT_ASKED, f"{dropped.reason}: {dropped.detail}")
    return verdicts, answered


def read_verdict(reply: Reply) -> TwinVerdict:
    """Strict: the last line has to be the verdict alone; any other reply does not keep the twin."""
    if reply.finish == REFUSED:
        return TwinVerdict(UNREAD, f"refused: {reply.text:.200}")
    if reply.finish == CUT:
        return TwinVerdict(UNREAD, "cut off before its verdict")
    try:
        text = without_thoughts(reply.text)
    except CutError:
        return TwinVerdict(UNREAD, "cut off while thinking")
    lines = [line.strip() for line in text.splitlines() if line.strip(_MARKS)]
    if not lines:
        return TwinVerdict(UNREAD, "empty")
    match = _VERDICT.fullmatch(lines[-1].replace("*", "").strip(_MARKS))
    if match is None:
        return TwinVerdict(UNREAD, f"no verdict in the last line: {lines[-1]!r:.120}")
    reason = "\n".join(lines[:-1])[-_LONGEST_REASON:]
    return TwinVerdict(KEEP if match[1].upper() == "KEEP" else REJECT, reason)


def _content(ref: ImageRef) -> str:
    try:
        return byte_digest(ref.read())
    except ImageError:  # the backend drops it with the reason
        return f"missing:{ref.name}"


# Describe: a dense caption of every picture as it would be if the new answer were right.


STAGE = "twin describe"
LONGEST_CAPTION = 350  # words: what FLUX's text encoder reads, 512 tokens, holds about as many
# A caption may say "sorry" somewhere; a refusal opens with it.
_REFUSAL = re.compile(
    r"\W*(?:i(?:'m| am)(?: very| really| so)? sorry|sorry\b|i apologi[sz]e|as an ai\b|as a language model"
    r"|i (?:cannot|can't|can not|won't|will not|am unable|am not able)\b|i'm (?:unable|not able)\b"
    r"|unfortunately, i\b)",
    re.IGNORECASE,
)


def describe(
    run: Run,
    benchmark: Benchmark,
    describer: Asker | None,
    *,
    longest: int = LONGEST_CAPTION,
    quiet: bool = False,
) -> ReplySet:
    """Without a describer every caption is empty: only a renderer that reads none can go on."""
    resampled = read_stage(run, RESAMPLE)
    if describer is None:
        write_stage(run, DESCRIBE, [{"id": row["id"], "caption": ""} for row in resampled], [])
        return ReplySet()
    pictures = {example.id: example.images[0] for example in benchmark if example.images}
    prompts = {
        row["id"]: describe_prompt(
            row["id"],
            pictures[row["id"]],
            row["question"],
            row["options"],
            row["old_answer"],
            row["new_answer"],
            longest,
        )
        for row in resampled
    }
    journal = Journal(run.path / "stages" / "twin" / "describe.jsonl")
    answered = ask_prompts(
        describer,
        prompts,
        journal,
        _digest_of(benchmark),
        stage=STAGE,
        title="describing",
        unit="captions",
        quiet=quiet,
    )
    rows: list[Mapping[str, Any]] = []
    dropped: list[Dropped] = []
    for row in resampled:
        name = row["id"]
        if name in answered.lost:
            dropped.append(answered.lost[name])
            continue
        caption = read_caption(answered.replies[name], longest)
        if isinstance(caption, Dropped):
            dropped.append(caption)
        else:
            identity = {**describer.identity, "template": DESCRIBE_TEMPLATE}
            rows.append({"id": name, "caption": caption, "describer": digest(identity)[:16]})
    write_stage(run, DESCRIBE, rows, dropped)
    return answered


def read_caption(reply: Reply, longest: int) -> str | Dropped:
    """The caption on one line, or why the reply is none."""
    text = " ".join(reply.text.split())
    if reply.finish == REFUSED or _REFUSAL.match(text.replace("’", "'")):
        return Dropped(STAGE, reply.id, "caption refused", f"{text:.120}")
    if reply.finish == CUT:
        return Dropped(STAGE, reply.id, "caption cut off", f"it ends {text[-60:]!r}")
    if not text:
        return Dropped(STAGE, reply.id, "empty caption", "the describer said nothing")
    words = len(text.split())
    if words > longest:
        return Dropped(STAGE, reply.id, "caption too long", f"{words:,} words of {longest:,}")
    return text


def _digest_of(benchmark: Benchmark) -> Any:
    def name(ref: ImageRef) -> str:
        digest = benchmark.digests[ref]
        assert isinstance(digest, Digests)  # resampling let no other through
        return digest.bytes

    return name
