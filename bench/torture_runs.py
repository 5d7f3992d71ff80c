"""Run folders under attack, for torture.py: the n-th open, write, fsync or rename fails or is the last; damage; links;
fifty writers; folders of the previous version. After each the same command ends with the results of a run that was
left alone, or with a sentence.

Commands run in forks of a process that has imported everything, so that hundreds of them take minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from command_line import COMMAND, ForkedCommand  # type: ignore[import-not-found]  # noqa: E402
from heldout.scenes import write_benchmark  # noqa: E402
from heldout.store import compared_with_record, is_run  # noqa: E402

SECONDS = 120  # after which a command hangs
TOGETHER = 2  # commands at a time
WRITERS = 50
ATTACKS = 64  # of all ways to damage all files
ERRORS = ("EIO", "ENOSPC", "EMFILE")
SEARCH = ("--encoder", "none", "--text-encoder", "none", "--workers", "1", "--quiet")
PRECIOUS = "precious line\n" * 5

# Runs before the command, in its process. Events of the folder are counted; the n-th of a kind fails or is the last.
FAULTY = """
import builtins, errno, json, os, pathlib, resource, signal, sys
import pyarrow.parquet as pq

kind, number, how, root, counted = json.loads({order!r})
seen = dict.fromkeys(("open", "write", "fsync", "rename"), 0)


def struck(event):
    seen[event] += 1
    if event == kind and seen[event] == number:
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(getattr(errno, how), os.strerror(getattr(errno, how)))


def hook(event, args):
    if event in ("open", "os.rename") and isinstance(args[0], (str, bytes, os.PathLike)):
        if os.path.abspath(os.fsdecode(args[0])).startswith(root):
            struck("open" if event == "open" else "rename")


def failing(event, function):
    def call(*args, **settings):
        struck(event)
        return function(*args, **settings)
    return call


sync = os.fsync
os.fsync = failing("fsync", sync)
pq.ParquetWriter.write_table = failing("write", pq.ParquetWriter.write_table)
pq.write_table = failing("write", pq.write_table)
pathlib.Path.write_bytes = failing("write", pathlib.Path.write_bytes)
if kind == "size":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (number, resource.RLIM_INFINITY))
if kind == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))
sys.addaudithook(hook)
try:
    from heldout.cli import main
    main()
finally:
    if counted:
        with open(counted, "w") as file:
            json.dump(seen, file)
"""


class FaultError(Exception):
    """What must hold does not."""


@dataclass(frozen=True)
class Done:
    code: int
    said: str

    @property
    def line(self) -> str:
        lines = self.said.strip().splitlines()
        return f"exit {self.code} {lines[-1][:110] if lines else ''}"


def call(words: Sequence[str | Path], order: Sequence[Any] | None = None) -> Done:
    """A command to its end; with ``order`` one that is struck."""
    script = COMMAND if order is None else FAULTY.format(order=json.dumps(order))
    started = ForkedCommand(*words, script=script)
    try:
        out, err = started.communicate(SECONDS)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()
        raise FaultError(f"no end after {SECONDS} s: {words}") from None
    done = Done(started.wait(), out[-1000:] + err)
    if "Traceback" in done.said or "bug in heldout" in done.said:
        raise FaultError(f"a bug: {' '.join(map(str, words))}: {done.said[-1500:]}")
    return done


def ended(done: Done, *codes: int) -> Done:
    if done.code not in codes:
        raise FaultError(f"ended with {done.code}, not {codes}: {done.said[-1500:]}")
    if done.code not in (0, 1, -9) and "heldout: " not in done.said:
        raise FaultError(f"no sentence: {done.said[-500:]}")
    return done


def results(folder: Path) -> dict[str, str]:
    """All that a command made, by name: tables by their rows, other files by their digest. Pages and the files that
    say when and how something was made are not results."""
    made: dict[str, str] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if not path.is_file() or any(
            part.startswith(".") for part in path.relative_to(folder).parts
        ):
            continue
        if path.suffix in (".html", ".md", ".svg", ".log") or path.name in (
            "manifest.json",
            "junit.xml",
        ):
            continue
        if "stages/" in name or path.name in ("publish.json", "gate.json"):
            continue
        made[name] = (
            repr(pl.read_parquet(path).to_dicts()).replace(str(folder), "")
            if path.suffix == ".parquet"
            else hashlib.sha256(path.read_bytes()).hexdigest()
        )
    return made


def same(mine: Path, theirs: Path) -> None:
    ours, other = results(mine), results(theirs)
    different = sorted(name for name in {*ours, *other} if ours.get(name) != other.get(name))
    if different or not ours:
        raise FaultError(f"{mine.name} differs from one left alone in {', '.join(different[:5])}")
    for manifest in mine.rglob("manifest.json"):
        if is_run(manifest.parent):
            faults = {k: v for k, v in compared_with_record(manifest.parent).items() if v}
            if faults:
                raise FaultError(f"records are wrong: {faults}")


@dataclass(frozen=True)
class Verb:
    name: str
    words: Callable[[Path], Sequence[str | Path]]  # the command, in a folder
    start: Path | None = None  # what the folder is a copy of
    codes: tuple[int, ...] = (0,)

    def folder(self, place: Path) -> Path:
        if self.start is not None:
            shutil.copytree(self.start, place)
        else:
            place.mkdir()
        return place

    def run(self, place: Path, order: Sequence[Any] | None = None) -> Done:
        return call(self.words(place), order)


def verbs(data: Path, folder: Path) -> dict[str, Verb]:
    """Every verb that writes, each beginning with what those before it made."""
    bench, searched, scored = data / "bench", folder / "searched", folder / "scored"
    scenes = data / "scenes"
    if not scenes.exists():
        write_benchmark(scenes, images=4, seed=3)

    def search(place: Path) -> Sequence[str | Path]:
        return ("overlap", bench, "--against", data / "corpus", "--out", place / "run", *SEARCH)

    def score(place: Path, model: str = "target") -> Sequence[str | Path]:
        recorded = ("--recorded", data / f"{model}.jsonl", "--as", model, "--quiet")
        return ("score", bench, *recorded, "--out", place / "run")

    every = [
        Verb("overlap", search),
        Verb("report", lambda place: ("report", place / "run", "--quiet"), searched),
        Verb("score", score, searched),
        Verb(
            "detect",
            lambda place: (
                *("detect", place / "run", "--baseline", "clean"),
                *("--permutations", "199", "--quiet"),
            ),
            scored,
        ),
        Verb(
            "sanitize",
            lambda place: (
                *("sanitize", bench, "--run", place / "run", "--out", place / "clean", "--quiet"),
            ),
            searched,
        ),
        Verb(
            "gate",
            lambda place: ("gate", place / "run", "--clean", "--out", place / "gate", "--quiet"),
            searched,
            (1,),
        ),
        Verb(
            "export",
            lambda place: ("export", place / "run", "--to", "csv", "--out", place / "csv"),
            searched,
        ),
        Verb(
            "twin",
            lambda place: (
                *("twin", scenes, "--renderer", "scene", "--unfiltered", "--limit", "4"),
                *("--out", place / "run", "--quiet"),
            ),
        ),
        Verb(
            "synth",
            lambda place: (
                *("synth", "--from", "scenes", "--stages", "ingest,select,generate"),
                *("--limit", "3", "--out", place / "run", "--workers", "1", "--quiet"),
            ),
        ),
    ]
    searched.mkdir(parents=True)
    ended(call(search(searched)), 0)
    shutil.copytree(searched, scored)
    for model in ("target", "clean"):
        ended(call(score(scored, model)), 0)
    return {verb.name: verb for verb in every}


@dataclass
class Cases:
    """Runs cases two at a time, prints a line for each, and keeps what went wrong."""

    faults: list[str] = field(default_factory=list)
    done: int = 0

    def run(self, cases: Iterable[tuple[str, Callable[[], str]]]) -> None:
        with ThreadPoolExecutor(TOGETHER) as pool:
            for line in pool.map(self._one, cases):
                print(line, flush=True)

    def _one(self, case: tuple[str, Callable[[], str]]) -> str:
        name, attack = case
        start = time.monotonic()
        self.done += 1
        try:
            told, sign = attack(), "  "
        except FaultError as error:
            told, sign = str(error), "!!"
            self.faults.append(f"{name}: {error}")
        return f"{sign} {name:50} {time.monotonic() - start:4.1f} s  {told}"

    def summary(self, text: str) -> str:
        if self.faults:
            raise FaultError(f"{len(self.faults)} of {self.done}: {'; '.join(self.faults)[:1500]}")
        return f"{self.done} {text}"


def counts(verb: Verb, folder: Path) -> dict[str, int]:
    """How many events of each kind the command has, in a folder that is left alone."""
    told = folder.with_suffix(".counts")
    place = verb.folder(folder)
    ended(verb.run(place, ("", 0, "", str(place), str(told))), *verb.codes)
    found: dict[str, int] = json.loads(told.read_text())
    return found


def struck(verb: Verb, folder: Path, alone: Path, kind: str, number: int, how: str) -> str:
    """One case: the command is struck, and given again."""
    place = verb.folder(folder)
    try:
        codes = (0, -9) if how == "kill" else (0, 2, 4)
        first = ended(verb.run(place, (kind, number, how, str(place), "")), *codes, *verb.codes)
        if first.code not in verb.codes:
            again = verb.run(place)
            if again.code not in verb.codes:
                raise FaultError(f"it does not go on after {first.line}: {again.line}")
        same(place, alone)
        return first.line
    finally:
        shutil.rmtree(place, ignore_errors=True)


def spread(count: int, most: int, chance: random.Random) -> list[int]:
    """At most ``most`` of 1 … ``count``, the first and the last among them."""
    if count <= most:
        return list(range(1, count + 1))
    inner = chance.sample(range(2, count), most - 2)
    return sorted([1, count, *inner])


def faults(data: Path, folder: Path, chance: random.Random) -> str:
    """A search whose n-th open, write, fsync or rename fails, or whose files may not grow."""
    verb = verbs(data, folder)["overlap"]
    alone = folder / "alone"
    found = counts(verb, alone)
    most = {"open": 8, "write": 6, "fsync": 6, "rename": 8}
    orders = [
        (kind, number, ERRORS[place % len(ERRORS)])
        for kind, limit in most.items()
        for place, number in enumerate(spread(found[kind], limit, chance))
    ]
    orders += [("size", size, "") for size in (300, 1500, 4000, 12000, 40000)]
    orders += [("files", number, "") for number in (6, 8, 10)]
    cases = Cases()
    cases.run(
        (
            f"overlap {' '.join(map(str, order))}",
            partial(struck, verb, folder / f"{place}", alone, *order),
        )
        for place, order in enumerate(orders)
    )
    events = ", ".join(f"{count} {kind}s" for kind, count in found.items())
    return cases.summary(f"faults in a search with {events}: it went on to the same tables")


def verb_kills(data: Path, folder: Path, chance: random.Random) -> str:
    """Every verb that writes, killed at its n-th open, fsync or rename, and given again."""
    attacks = []
    for name, verb in verbs(data, folder).items():
        alone = folder / f"{name}-alone"
        found = counts(verb, alone)
        for kind, limit in (("open", 2), ("rename", 3)):
            attacks += [
                (verb, alone, kind, number) for number in spread(found[kind], limit, chance)
            ]
    cases = Cases()
    cases.run(
        (
            f"{verb.name} killed at {kind} {number}",
            partial(struck, verb, folder / f"kill-{place}", alone, kind, number, "kill"),
        )
        for place, (verb, alone, kind, number) in enumerate(attacks)
    )
    return cases.summary("kills of nine verbs, each ended with the results of one left alone")


# Folders from strangers.


def emptied(path: Path, victim: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path, victim: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flipped(path: Path, victim: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x55
    path.write_bytes(data)


def no_rows(path: Path, victim: Path) -> None:
    if path.suffix == ".parquet":
        pl.read_parquet(path).clear().write_parquet(path)
    else:
        path.write_text("{}")


def gone(path: Path, victim: Path) -> None:
    path.unlink()


def link(path: Path, victim: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(victim)


def pipe(path: Path, victim: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def other_folder(path: Path, victim: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


DAMAGES = (emptied, cut, flipped, no_rows, gone, link, pipe, other_folder)
LOCKS = (".writer.lock", ".manifest.lock", "review/.judgements.lock", "review/judgements.jsonl")


def damage(data: Path, folder: Path, chance: random.Random) -> str:
    """Files of a run in other states, and what every verb that reads runs says."""
    every = verbs(data, folder)
    readers = [every[name] for name in ("report", "sanitize", "gate", "export")]
    review = Verb(
        "review",
        lambda place: ("review", place / "run", "--agreement", "--quiet"),
        readers[0].start,
    )
    whole = folder / "searched"
    files = [
        str(path.relative_to(whole / "run"))
        for pattern in ("*.json", "tables/*.parquet")
        for path in sorted((whole / "run").glob(pattern))
    ]
    attacks = [(name, how) for name in files for how in DAMAGES]
    attacks += [(name, how) for name in LOCKS for how in (link, pipe, other_folder)]
    attacks += [(name, link) for name in ("tables", "review", "stages", "figures")]
    attacks = chance.sample(attacks, ATTACKS)

    def attack(place: Path, name: str, how: Callable[[Path, Path], None], verb: Verb) -> str:
        verb.folder(place)
        victim, path = place / "victim", place / "run" / name
        is_folder = "." not in name
        if is_folder:  # its content lies elsewhere
            victim.mkdir()
            shutil.rmtree(path, ignore_errors=True)
        else:
            victim.write_text(PRECIOUS)
            path.parent.mkdir(exist_ok=True)
        how(path, victim)
        try:
            told = ended(verb.run(place), 0, 1, 2)
            kept = not list(victim.iterdir()) if is_folder else victim.read_text() == PRECIOUS
            if not kept:
                raise FaultError("what the link leads to was changed")
            inner = name not in LOCKS and how is not gone and not is_folder
            if verb.name == "report" and inner and told.code != 2:
                raise FaultError(f"a damaged file was reported: {told.line}")
            if verb.name != "review":
                return told.line
            again = ended(every["overlap"].run(place), 0, 2)
            if again.code == 0:
                same(place / "run", whole / "run")
            return f"{told.line} | search again: exit {again.code}"
        finally:
            shutil.rmtree(place, ignore_errors=True)

    cases = Cases()
    cases.run(
        (
            f"{verb.name}: {name} {how.__name__}",
            partial(attack, folder / f"d{place}", name, how, verb),
        )
        for place, (name, how) in enumerate(attacks)
        for verb in [[readers[0], readers[0], *readers[1:], review][place % 6]]
    )
    return cases.summary("links, damage and things in the place of files, each with its sentence")


WRITE = """
import sys
from heldout.store import MATCH, Dropped, Judgement, Run, append, dropped_table
number = sys.argv[1]
run = Run.create(sys.argv[2], command=["torture"])
run.update("models", {number: {}})
append(run.path, Judgement(number, MATCH, "x", "copy"))
run.write_table("dropped", dropped_table([Dropped("corpus", number, "r", "")]))
run.write_json(f"impact-{number}.json", {})
"""


def many_writers(data: Path, folder: Path, chance: random.Random) -> str:
    """Fifty processes that write to one folder at once, and fifty that search."""
    place = folder / "together"
    together = [ForkedCommand(str(number), place, script=WRITE) for number in range(1, WRITERS + 1)]
    for process in together:
        if process.wait(SECONDS):
            raise FaultError(f"a writer ended badly: {process.communicate()[1][-800:]}")
    manifest = json.loads((place / "manifest.json").read_text())
    judged = (place / "review/judgements.jsonl").read_text().splitlines()
    if len(manifest["models"]) != WRITERS or len(judged) != WRITERS:
        raise FaultError(f"{len(manifest['models'])} updates, {len(judged)} judgements are kept")
    if wrong := {name: fault for name, fault in compared_with_record(place).items() if fault}:
        raise FaultError(f"records are wrong: {wrong}")
    search = verbs(data, folder / "search")["overlap"]
    words = search.words(folder / "one")
    started = [ForkedCommand(*words) for _ in range(WRITERS)]
    refused = 0
    for process in started:
        said = process.communicate(10 * SECONDS)[1]
        if process.wait() not in (0, 2) or (process.wait() == 2 and "another process" not in said):
            raise FaultError(f"a writer ended with {process.wait()}: {said[-800:]}")
        refused += process.wait() == 2
    ended(search.run(folder / "one"), 0)
    same(folder / "one", folder / "search/searched")
    return f"{WRITERS} writers at once kept all; of {WRITERS} searches {refused} were refused"


def previous(data: Path, folder: Path, chance: random.Random) -> str:
    """Folders without checksums: they are read, and every verb makes of them what it makes of others."""

    def older(place: Path) -> None:
        path = place / "run/manifest.json"
        manifest = json.loads(path.read_text())
        manifest.pop("files", None)
        path.write_text(json.dumps(manifest))

    def attack(verb: Verb) -> str:
        place = verb.folder(folder / f"old-{verb.name}")
        alone = verb.folder(folder / f"new-{verb.name}")
        older(place)
        verified = ended(call(("report", place / "run", "--verify")), 2)
        if "no checksums recorded" not in verified.said:
            raise FaultError(f"--verify says {verified.line}")
        done = ended(verb.run(place), *verb.codes)
        ended(verb.run(alone), *verb.codes)
        for run in (place, alone):
            older(run)  # what was written has a record by now
        ours, other = results(place), results(alone)
        if ours.keys() != other.keys():
            raise FaultError(f"they differ in {sorted(ours.keys() ^ other.keys())}")
        return done.line

    cases = Cases()
    made = verbs(data, folder)
    every = [verb for verb in made.values() if verb.start is not None]
    every.append(Verb("overlap", made["overlap"].words, folder / "searched"))
    cases.run((f"previous version: {verb.name}", partial(attack, verb)) for verb in every)
    return cases.summary("verbs on folders of the previous version")


RUNS: dict[str, Callable[[Path, Path, random.Random], str]] = {
    "faults": faults,
    "verbs": verb_kills,
    "damage": damage,
    "fifty": many_writers,
    "previous": previous,
}
