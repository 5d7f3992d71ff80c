"""Everything that must hold when it goes wrong, as one command of minutes.

    make torture
    .venv/bin/python bench/torture.py --only kills,fuzz --seed 7

Campaigns, each with one line of counts: SIGKILL at random moments of overlap, ask and audit and of the
parts and the merge of a divided search, and three writers on one run folder, all ending with the tables
of a run that nobody touched; two runs with other workers, same tables; a disk that fills up; damaged
pictures through every decoder, the compiled parts built with sanitizers where a compiler is there;
texts that are markup through the report; run folders under attack (torture_runs.py, a line per case); and
the tests of the suite that attack archives, pages, locks, workers and limits. Exit code 1 if one fails.
"""

from __future__ import annotations

import argparse
import html.parser
import io
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/model/endpoint"))
from asking_process import Scripted  # type: ignore[import-not-found]  # noqa: E402

from torture_runs import RUNS, FaultError  # noqa: E402

ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
KILLS = {"overlap": 16, "ask": 8, "audit": 8}
PARTS = 4
WRITERS = 3
MUTATIONS = 6000
HOSTILE = "\"'><script>alert(1)</script><img src=x onerror=alert(2)><!--</style></title>{{7*7}}${7}"
# Tests of the suite that are attacks; what needs something that is not installed skips itself.
ATTACKS = {
    "archives": [
        "tests/corpus/test_zip_corpus.py",
        "tests/corpus/test_webdataset.py",
        "tests/corpus/test_corpus_robust.py",
        "tests/corpus/test_folder.py",
    ],
    "pages": [
        "tests/report/test_page.py",
        "tests/report/test_gallery_browser.py",
        "tests/review/test_review_guard.py",
        "tests/review/test_review_page.py",
    ],
    "pictures": [
        "tests/image/test_hostile_images.py",
        "tests/image/test_bombs_and_depth.py",
        "tests/image/test_float_pictures.py",
    ],
    "lost items": ["tests/overlap/images/test_salvage.py", "tests/engine/test_local.py"],
    "limits": ["tests/cli/test_machine.py", "tests/test_errors.py", "tests/store/test_run.py"],
    "killed models": [
        "tests/train/test_training_runs.py::test_a_killed_training_goes_on_to_the_same_weights",
        "tests/model/endpoint/test_score_command.py::test_a_killed_run_goes_on_where_it_was",
        "tests/model/endpoint/test_ask_command.py::test_a_killed_process_loses_nothing_that_arrived",
    ],
}


class BrokenError(Exception):
    """What must hold does not."""


def heldout(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "heldout", *map(str, words)]


def finish(command: list[str], *codes: int) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False)
    if done.returncode not in (codes or (0,)):
        raise BrokenError(
            f"exit code {done.returncode}: {' '.join(command[2:])}\n{done.stderr[-2000:]}"
        )
    return done


def tables(folder: Path) -> dict[str, pl.DataFrame]:
    """Every table below a run or audit folder, by name."""
    found = {
        str(path.relative_to(folder)): pl.read_parquet(path)
        for path in sorted(folder.glob("**/tables/*.parquet"))
    }
    if not found:
        raise BrokenError(f"{folder} has no tables")
    return found


def compare(mine: Path, theirs: Path) -> int:
    ours, other = tables(mine), tables(theirs)
    different = [
        name
        for name in {*ours, *other}
        if name not in ours or name not in other or not ours[name].equals(other[name])
    ]
    if different:
        raise BrokenError(f"{mine} and {theirs} differ in {', '.join(sorted(different))}")
    return len(ours)


def picture(rng: np.random.Generator, format: str = "PNG") -> bytes:
    small = rng.integers(0, 256, (24, 24, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(small).resize((160, 160), Image.Resampling.BICUBIC).save(buffer, format)
    return buffer.getvalue()


def write_data(folder: Path, text: str = "organ") -> None:
    """A benchmark of 24 items, a corpus of 24 tars that holds a third of it, an audit of both."""
    rng = np.random.default_rng(0)
    (folder / "bench").mkdir(parents=True)
    (folder / "corpus").mkdir()
    ours = [picture(rng) for _ in range(24)]
    rows = []
    for number, image in enumerate(ours):
        (folder / f"bench/{number}.png").write_bytes(image)
        question = f"Which {text} can be seen at the upper left of picture number {number}?"
        options = ["liver", "heart", "left lung", f"spleen {text}"]
        rows.append(
            {
                "id": f"q{number} {text}",
                "image": f"{number}.png",
                "question": question,
                "options": options,
                "answer": options[number % 4],
            }
        )
    (folder / "bench/test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    answers = {row["question"]: row["answer"] for row in rows}
    (folder / "answers.json").write_text(json.dumps(answers))
    for shard in range(24):
        with tarfile.open(folder / f"corpus/{shard:03d}.tar", "w") as tar:
            for index in range(6):
                known = index == 3 and shard % 3 == 0
                image = ours[shard] if known else picture(rng, "JPEG" if index % 2 else "PNG")
                words = f"a caption {text} {rows[shard]['question'] if known else index}"
                for ending, data in (("jpg", image), ("txt", words.encode())):
                    member = tarfile.TarInfo(f"{index:03d}.{ending}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    scores = np.random.default_rng(1)
    for model in ("target", "clean"):
        logprobs = [
            {"id": row["id"], "logprobs": (-scores.exponential(size=3)).tolist()} for row in rows
        ]
        lines = "".join(json.dumps(line) + "\n" for line in logprobs)
        (folder / f"{model}.jsonl").write_text(lines)


def audit_file(folder: Path, output: Path) -> Path:
    path = folder / f"{output.name}.yaml"
    models = "".join(
        f"  - {{name: {name}, scores: {{b: {folder / name}.jsonl}}}}\n"
        for name in ("target", "clean")
    )
    path.write_text(
        f"benchmarks: [{{name: b, source: {folder / 'bench/test.jsonl'}}}]\n"
        f"corpora: [{{name: web, source: {folder / 'corpus'}}}]\n"
        f"models:\n{models}baselines: [clean]\npermutations: 199\n"
        f"search: {{text: true, workers: 2}}\noutput: {output}\n"
    )
    return path


def kill_until(command: list[str], kills: int, chance: random.Random, whole: float) -> int:
    """Kill ``command`` at random moments until it was killed ``kills`` times or had no work left."""
    done = 0
    for _ in range(kills):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=ENVIRONMENT
        )
        try:
            # Half of a run is its start: most kills should hit the work.
            process.wait(chance.uniform(0.2 * whole, 0.8 * whole))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            done += 1
    return done


def kills(folder: Path, chance: random.Random) -> str:
    data = folder / "data"
    write_data(data)
    told = []
    running = Scripted(data / "answers.json")
    try:
        for verb, count in KILLS.items():

            def command(run: Path, verb: str = verb) -> list[str]:
                if verb == "overlap":
                    return heldout(
                        "overlap",
                        data / "bench",
                        "--against",
                        data / "corpus",
                        "--text",
                        "--quiet",
                        "--workers",
                        "2",
                        "--out",
                        run,
                    )
                if verb == "ask":
                    return heldout(
                        "ask",
                        data / "bench",
                        "--endpoint",
                        running.url(),
                        "--rate",
                        "60/s",
                        "--quiet",
                        "--out",
                        run,
                    )
                return heldout("audit", audit_file(data, run))

            start = time.monotonic()
            finish(command(folder / f"{verb}-whole"))
            whole = time.monotonic() - start
            done = 0
            # A run that has no work left ends before it is struck: start another one.
            for attempt in range(1, 9):
                run = folder / f"{verb}-{attempt}"
                done += kill_until(command(run), min(6, count - done), chance, whole)
                finish(command(run))
                compare(run, folder / f"{verb}-whole")
                if done >= count:
                    break
            told.append(f"{verb} {done}")
    finally:
        running.process.kill()
        running.process.communicate()
    return f"{', '.join(told)} kills, every run ended with the tables of one that was left alone"


def parts(folder: Path, chance: random.Random) -> str:
    """A search in parts, each part and the merge killed at random moments and begun again."""
    data = folder / "data"
    write_data(data)

    def command(run: Path, *more: str) -> list[str]:
        search = ("overlap", data / "bench", "--against", data / "corpus", "--text", "--quiet")
        return heldout(*search, "--workers", "1", "--out", run, *more)

    finish(command(folder / "whole"))
    start = time.monotonic()
    finish(command(folder / "alone", "--part", f"1/{PARTS}"))
    alone = time.monotonic() - start
    done, runs = 0, []
    for number in range(1, PARTS + 1):
        runs.append(folder / f"part-{number}")
        part = command(runs[-1], "--part", f"{number}/{PARTS}")
        done += kill_until(part, 3, chance, alone * 1.2)
        finish(part)
    merge = heldout("merge", *runs, "--out", folder / "merged", "--workers", "1", "--quiet")
    merges = kill_until(merge, 3, chance, alone)
    finish(merge)
    compare(folder / "merged", folder / "whole")
    return (
        f"{PARTS} parts, {done} kills of parts and {merges} of the merge: the tables of one search"
    )


def writers(folder: Path, chance: random.Random) -> str:
    data = folder / "data"
    write_data(data)
    refused = rounds = 0

    def command(run: Path) -> list[str]:
        return heldout(
            "overlap", data / "bench", "--against", data / "corpus", "--quiet", "--out", run
        )

    finish(command(folder / "alone"))
    for rounds in range(1, 4):
        run = folder / f"run-{rounds}"
        together = [
            subprocess.Popen(
                command(run),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env=ENVIRONMENT,
            )
            for _ in range(WRITERS)
        ]
        for process in together:
            said = process.communicate()[1]
            if process.returncode not in (0, 2):
                raise BrokenError(f"a writer ended with {process.returncode}: {said}")
            if process.returncode == 2 and "being written by another process" not in said:
                raise BrokenError(f"a writer was refused otherwise: {said}")
            refused += process.returncode == 2
        compare(run, folder / "alone")
    if not refused:
        raise BrokenError("no writer was ever refused")
    return f"{rounds} rounds of {WRITERS} writers, {refused} refused, tables as of one"


def determinism(folder: Path, chance: random.Random) -> str:
    data = folder / "data"
    write_data(data)
    for workers in (1, 2):
        words = [
            "--text",
            "--quiet",
            "--workers",
            str(workers),
            "--out",
            str(folder / f"run-{workers}"),
        ]
        finish(heldout("overlap", data / "bench", "--against", data / "corpus", *words))
    return f"{compare(folder / 'run-1', folder / 'run-2')} tables equal with 1 and 2 workers"


def disk(folder: Path, chance: random.Random) -> str:
    """A file system of its own that is full half-way; needs the right to mount one."""
    data, small = folder / "data", folder / "small"
    write_data(data)
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=120k", "tmpfs", str(small)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return "not possible here: no right to mount a file system (the limits below stand for it)"
    try:

        def command(run: Path) -> list[str]:
            return heldout("overlap", data / "bench", "--against", data / "corpus", "--out", run)

        finish(command(folder / "whole"))
        said = finish(command(small / "run"), 4).stderr
        if "disk is full" not in said or "Traceback" in said:
            raise BrokenError(f"a full disk was not said: {said}")
        subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
        finish(command(small / "run"))
        count = compare(small / "run", folder / "whole")
    finally:
        subprocess.run(["umount", "-l", str(small)], check=False)
    return f"full disk: exit code 4 and a sentence; with more room {count} tables as of one run"


class Tags(html.parser.HTMLParser):
    """The elements of a page with the names of their attributes: what a browser would obey."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, tuple[str, ...]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, tuple(sorted(name for name, _ in attrs))))


def markup(folder: Path, chance: random.Random) -> str:
    seen = []
    for name, text in (("plain", "organ"), ("hostile", HOSTILE)):
        data, run = folder / name, folder / f"run-{name}"
        write_data(data, text)
        finish(
            heldout(
                "overlap",
                data / "bench",
                "--against",
                f"web={data / 'corpus'}",
                "--text",
                "--quiet",
                "--out",
                run,
            )
        )
        page = Tags()
        page.feed((run / "report.html").read_text())
        seen.append(page.seen)
    theirs = Tags()
    theirs.feed(HOSTILE)
    # Other texts make other pages: what may not be there are the elements that the text asks for.
    alien = (set(seen[1]) - set(seen[0])) & set(theirs.seen)
    if alien or sum(t == "script" for t, _ in seen[0]) != sum(t == "script" for t, _ in seen[1]):
        raise BrokenError(f"markup of a stranger is markup in the report: {sorted(alien)}")
    return f"{len(seen[1])} elements in a report full of markup, none of another kind than without"


FUZZ = """
import importlib.util, io, random, sys
from pathlib import Path

seed, count, *built = sys.argv[1:]
for path in built:  # before anybody imports the others
    name = "heldout.image._jpeg" if "_jpeg" in path else "heldout.overlap.images._sums"
    spec = importlib.util.spec_from_file_location(name, path)
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
import numpy as np
from PIL import Image
from heldout.image import ImageError, decode_shrunk, decoded_digest, digest_bytes, grey_jpeg, to_rgb
from heldout.image import decode, native_size
from heldout.overlap.images.fingerprint import fingerprint, screen

chance, rng = random.Random(int(seed)), np.random.default_rng(int(seed))
sources = []
for side in (1, 8, 17, 64, 150):
    small = Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=np.uint8))
    colour = small.resize((side, side + 3), Image.Resampling.BICUBIC)
    grey = colour.convert("L").convert("RGB")
    for image in (colour, grey):
        for format, options in (("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}),
                                ("JPEG", {"subsampling": 0, "quality": 30}), ("WEBP", {}),
                                ("GIF", {}), ("BMP", {}), ("TIFF", {}), ("PPM", {}), ("TGA", {})):
            buffer = io.BytesIO()
            image.save(buffer, format, **options)
            sources.append(buffer.getvalue())
kinds = {}
for _ in range(int(count)):
    data = bytearray(chance.choice(sources))
    for _ in range(chance.choice((1, 2, 8, 40))):
        how = chance.randrange(5)
        place = chance.randrange(len(data)) if data else 0
        if how == 0 and data:
            data[place] = chance.randrange(256)
        elif how == 1:
            del data[place : place + chance.randrange(64)]
        elif how == 2:
            data[place:place] = chance.randbytes(chance.randrange(16))
        elif how == 3:
            data[place:place] = data[place : place + chance.randrange(200)]
        elif data:
            data[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
    data = bytes(data)
    for look in (digest_bytes, fingerprint, native_size, grey_jpeg, decoded_digest,
                 lambda data: screen(data, ""), lambda data: to_rgb(decode_shrunk(data, 8)[0])):
        try:
            look(data)
        except ImageError as error:
            kinds[error.reason] = kinds.get(error.reason, 0) + 1
print(sum(kinds.values()), len(kinds))
"""


def sanitized(folder: Path) -> tuple[list[str], dict[str, str]]:
    """The compiled parts built with sanitizers, and what their process needs; none without a compiler."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return [], {}
    found = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=False
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    if not all(Path(path).is_absolute() for path in found):
        return [], {}
    flags = [
        "-g",
        "-O1",
        "-fno-omit-frame-pointer",
        "-shared",
        "-fPIC",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
        f"-I{sysconfig.get_path('include')}",
    ]
    parts = []
    for source in sorted((ROOT / "src").rglob("_*.c")):
        target = folder / f"{source.stem}.so"
        build = [compiler, *flags, str(source), "-o", str(target)]
        if subprocess.run(build, capture_output=True, check=False).returncode == 0:
            parts.append(str(target))
    preload = {
        "LD_PRELOAD": " ".join(found),
        "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
    }
    return parts, preload if parts else {}


def fuzz(folder: Path, chance: random.Random) -> str:
    parts, preload = sanitized(folder)
    words = [sys.executable, "-W", "ignore", "-c", FUZZ]
    done = subprocess.run(
        [
            *words,
            str(chance.randrange(1 << 30)),
            str(MUTATIONS // 3 if parts else MUTATIONS),
            *parts,
        ],
        capture_output=True,
        text=True,
        env=ENVIRONMENT | preload,
        check=False,
    )
    if done.returncode:
        raise BrokenError(f"a damaged picture did harm: {done.stderr[-3000:]}")
    refused, reasons = done.stdout.split()
    how = f"{len(parts)} compiled parts with sanitizers" if parts else "no sanitizers here"
    count = MUTATIONS // 3 if parts else MUTATIONS
    return f"{count} damaged pictures through 7 functions, {refused} refusals of {reasons} kinds, {how}"


def suite(name: str) -> Callable[[Path, random.Random], str]:
    def attack(folder: Path, chance: random.Random) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-n", "2", "-m", "not ray", *ATTACKS[name]],
            cwd=ROOT,
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            check=False,
        )
        if done.returncode:
            raise BrokenError((done.stdout + done.stderr)[-3000:])
        return next(line for line in reversed(done.stdout.splitlines()) if " passed" in line)

    return attack


def on_runs(name: str) -> Callable[[Path, random.Random], str]:
    def attack(folder: Path, chance: random.Random) -> str:
        write_data(folder / "data")
        try:
            return RUNS[name](folder / "data", folder / "work", chance)
        except FaultError as error:
            raise BrokenError(str(error)) from error

    return attack


CAMPAIGNS: dict[str, Callable[[Path, random.Random], str]] = {
    "kills": kills,
    "parts": parts,
    "writers": writers,
    "determinism": determinism,
    "disk": disk,
    "fuzz": fuzz,
    "markup": markup,
    **{name: on_runs(name) for name in RUNS},
    **{name: suite(name) for name in ATTACKS},
}


def chosen(only: str | None) -> Iterator[str]:
    wanted = only.split(",") if only else list(CAMPAIGNS)
    unknown = set(wanted) - set(CAMPAIGNS)
    if unknown:
        sys.exit(f"no campaign {', '.join(sorted(unknown))}; there are: {', '.join(CAMPAIGNS)}")
    yield from wanted


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", help=f"some of: {','.join(CAMPAIGNS)}")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    broken = 0
    start = time.monotonic()
    for name in chosen(asked.only):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="heldout-torture-") as folder:
            try:
                told = CAMPAIGNS[name](Path(folder), random.Random(f"{asked.seed} {name}"))
            except BrokenError as error:
                broken += 1
                told = f"BROKEN: {error}"
        print(f"{name:14} {time.monotonic() - begun:5.0f} s  {told}", flush=True)
    print(f"{'all':14} {time.monotonic() - start:5.0f} s  {broken} broken")
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
