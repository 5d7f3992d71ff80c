"""Every prompt is asked once: prompts in the journal are not asked again, and equal prompts are one."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from heldout.benchmark import Example
from heldout.engine import progress
from heldout.errors import InputError
from heldout.image import ImageRef
from heldout.model.asking.variants import NO_PARAPHRASE, caption_of
from heldout.model.endpoint.chat import ChatEndpoint
from heldout.model.request import CUT, REFUSED, Asker, Prompt, Reply, Request, Text
from heldout.store import Dropped, Run, opened

# Replies are written to disk when they arrive: after a crash nothing that was paid for is asked again.
#
# One line of JSON per reply, found by a digest of everything it depends on. A truncated line is ignored, and
# its prompt asked again. Memory holds only where each line starts.


class Journal:
    """Use as a context manager; ``keep`` and ``reply`` may be called from several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file: IO[bytes] | None = None
        self._starts: dict[bytes, int] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            start = 0
            with opened(path) as lines:
                for line in lines:
                    record = _read(line)
                    if record is not None:
                        self._starts[_short(record[0])] = start
                    start += len(line)

    def __enter__(self) -> Journal:
        self._file = opened(self._path, "a+b")
        end = self._file.seek(0, os.SEEK_END)
        if end:
            self._file.seek(end - 1)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")  # ends a truncated line
                self._file.flush()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._file is not None
        self._file.close()
        self._file = None

    def __contains__(self, key: str) -> bool:
        return _short(key) in self._starts

    def __len__(self) -> int:
        return len(self._starts)

    def reply(self, key: str) -> Reply:
        """The reply that was kept; inside the context manager without opening the file again."""
        start = self._starts[_short(key)]
        with self._lock:
            if self._file is not None:
                line = _line(self._file, start)
            else:
                with opened(self._path) as file:
                    line = _line(file, start)
        record = _read(line)
        if record is None or record[0] != key:
            raise OSError(f"{self._path} was changed while it was in use, at byte {start:,}")
        return record[1]

    def keep(self, key: str, reply: Reply) -> None:
        line = json.dumps({"key": key, **asdict(reply)}, ensure_ascii=True) + "\n"
        with self._lock:
            assert self._file is not None
            start = self._file.seek(0, os.SEEK_END)
            self._file.write(line.encode())
            self._file.flush()
            os.fsync(self._file.fileno())
            self._starts[_short(key)] = start


def _short(key: str) -> bytes:
    """Sixteen bytes of a key: the index of a long journal is mostly keys."""
    return hashlib.blake2b(key.encode(), digest_size=16).digest()


def _line(file: IO[bytes], start: int) -> bytes:
    file.seek(start)
    return file.readline()


def _read(line: bytes) -> tuple[str, Reply] | None:
    try:
        record: Any = json.loads(line)
        key = record.pop("key")
        record["choice_logprobs"] = tuple(record["choice_logprobs"])
        return str(key), Reply(**record)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


NOT_ASKED = "not asked"


def _with_letters(key: str, prompt: Prompt, journal: Journal) -> str:
    """Another key if the reply was kept without the letters' log-probabilities, which are wanted now."""
    if prompt.letters and key in journal and not journal.reply(key).choice_logprobs:
        return f"{key} with letters"
    return key


@dataclass
class ReplySet:
    """Replies by the prompt's name, and for every other prompt why it has none. ``fresh``: what this call
    asked for, and paid for. ``paid``: by key what these prompts cost in total, now or in an earlier call.
    ``ended``: the error that ended the asking; earlier replies are included."""

    replies: dict[str, Reply] = field(default_factory=dict)
    lost: dict[str, Dropped] = field(default_factory=dict)
    fresh: list[Reply] = field(default_factory=list)
    paid: dict[str, Reply] = field(default_factory=dict)
    ended: InputError | None = None


def ask_prompts(
    asker: Asker,
    prompts: Mapping[str, Prompt],
    journal: Journal,
    digest: Callable[[ImageRef], str],
    *,
    stage: str,
    title: str,
    unit: str = "questions",
    quiet: bool = False,
) -> ReplySet:
    """A prompt's name is the id of its request. ``digest`` names a picture by its content, so that a
    changed one is another prompt."""
    reply_set = ReplySet()
    keys = {name: prompt_key(asker.identity, prompt, digest) for name, prompt in prompts.items()}
    if getattr(asker, "logprobs", False):
        keys = {name: _with_letters(key, prompts[name], journal) for name, key in keys.items()}
    waiting: dict[str, str] = {}  # key → the first prompt that asks it
    for name, key in keys.items():
        if key not in journal:
            waiting.setdefault(key, name)
    lost: dict[str, Dropped] = {}
    if isinstance(asker, ChatEndpoint) and asker.answered is None:
        known = (name for name, key in keys.items() if key in journal)
        asker.answered = next((prompts[name] for name in known), None)

    def keep(reply: Reply) -> None:
        journal.keep(keys[reply.id], reply)

    def open_prompts() -> Iterator[Prompt]:
        return (prompts[name] for name in waiting.values())

    done = len(prompts) - len(waiting)
    with journal, progress(title, len(prompts), unit, done=done, disabled=quiet) as step:
        try:
            # Closed before the journal in any case: replies under way are still kept.
            with contextlib.closing(asker.ask(open_prompts(), keep)) as results:
                for result in results:
                    step()
                    if isinstance(result, Reply):
                        reply_set.fresh.append(result)
                    else:
                        lost[keys[result.id]] = result
        except InputError as error:
            reply_set.ended = error
        for name, key in keys.items():
            if key in journal:
                if key not in reply_set.paid:
                    reply_set.paid[key] = journal.reply(key)
                reply_set.replies[name] = dataclasses.replace(reply_set.paid[key], id=name)
            else:
                why = lost.get(key) or Dropped(
                    stage, name, NOT_ASKED, "the backend ended before it"
                )
                reply_set.lost[name] = Dropped(stage, name, why.reason, why.detail)
    return reply_set


def prompt_key(
    identity: Mapping[str, str], prompt: Prompt, digest: Callable[[ImageRef], str]
) -> str:
    """A digest of all that a reply depends on."""
    content = [
        ["picture", digest(part)] if isinstance(part, ImageRef) else part.text
        for part in prompt.request.content
    ]
    depends: list[Any] = [dict(identity), content, prompt.letters]
    if prompt.schema is not None:  # a prompt without one keeps the key of earlier versions
        schema = json.dumps(prompt.schema, sort_keys=True)
        depends.append({"schema": hashlib.sha256(schema.encode()).hexdigest()})
    return hashlib.sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()


# A paraphrase provider: a model behind any backend rewords the questions that ``slot-paraphrase`` needs.
#
# MM-Detect translates to another language and back; a model that is asked to keep terms and names loses fewer
# of the words that
# are masked. What it wrote is kept in the run, so that every model under test reads the same rewording.


STAGE = "paraphrase"
TEMPLATE = "heldout-paraphrase/1"
_PROMPT = """\
Sentence: {text}

Reword the sentence so that it means and asks exactly the same in other words and another order. Keep \
every name, number and technical term exactly as it is written. Reply with the reworded sentence alone, on \
one line."""
_LONGEST = 4  # times the original length: a longer text is not a rewording


@dataclass
class Paraphrases:
    """By item id; ``missing`` says of every other item why it has none."""

    texts: dict[str, str] = field(default_factory=dict)
    missing: dict[str, Dropped] = field(default_factory=dict)

    def explain(self, dropped: Dropped) -> Dropped:
        """Why an item that was left out has no paraphrase."""
        why = self.missing.get(dropped.id)
        if why is None or dropped.reason != NO_PARAPHRASE:
            return dropped
        variant = dropped.detail.partition(":")[0]
        return Dropped(dropped.stage, dropped.id, why.reason, f"{variant}: {why.detail}")


def write_paraphrases(
    examples: Sequence[Example], provider: Asker, run: Run, *, quiet: bool = False
) -> Paraphrases:
    """Call inside run.writing(). If the provider fails, the command ends and keeps what it wrote."""
    prompts = {
        example.id: Prompt(Request(example.id, (Text(_PROMPT.format(text=text)),)), 0)
        for example in examples
        if (text := caption_of(example))
    }
    journal = Journal(run.path / "stages" / "ask" / "paraphrases.jsonl")
    answered = ask_prompts(
        provider, prompts, journal, _no_pictures, stage=STAGE, title="rewording", quiet=quiet
    )
    if answered.ended is not None:
        raise answered.ended
    paraphrases = Paraphrases(missing=dict(answered.lost))
    originals = {example.id: caption_of(example) for example in examples}
    for name, reply in answered.replies.items():
        read = read_paraphrase(reply, originals[name])
        if isinstance(read, Dropped):
            paraphrases.missing[name] = read
        else:
            paraphrases.texts[name] = read
    run.update("paraphrases", {"template": TEMPLATE, "provider": dict(provider.identity)})
    return paraphrases


def read_paraphrase(reply: Reply, original: str) -> str | Dropped:
    text = " ".join(reply.text.split()).strip("\"'“”")
    text = text.removeprefix("Sentence: ")
    if reply.finish == REFUSED:
        return Dropped(STAGE, reply.id, "paraphrase refused", f"{text:.120}")
    if reply.finish == CUT:
        return Dropped(STAGE, reply.id, "paraphrase cut off", f"it ends {text[-60:]!r}")
    if not text:
        return Dropped(STAGE, reply.id, "empty paraphrase", "the provider said nothing")
    if len(text) > _LONGEST * len(original) + 40:
        return Dropped(STAGE, reply.id, "not a paraphrase", f"{len(text):,} characters: {text:.80}")
    return text


def _no_pictures(ref: ImageRef) -> str:
    raise InputError(f"a paraphrase is of words alone, not of {ref.name}")
