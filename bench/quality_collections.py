"""Public collections in the quality table, where a copy of their repositories lies.

collections.yaml names repository, commit, files and how truth is known; collected_words.py and collected_pictures.py
read them. DIR holds a folder OWNER+NAME for each: the files themselves, or a git directory somewhere in it.
"""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

import collected_pictures
import collected_words
import quality_pictures
import quality_words
from quality_figures import Figure

LIST = Path(__file__).with_name("collections.yaml")
Entry = dict[str, Any]


def entries() -> dict[str, list[Entry]]:
    """By section, words and pictures."""
    read: dict[str, list[Entry]] = yaml.safe_load(LIST.read_text("utf-8"))
    return read


def parts(
    copies: Path, out: Path, half: int, options: Sequence[str]
) -> Iterator[tuple[str, str, Callable[[], list[Figure]]]]:
    """Section, name and what measures it, of every collection that is there; of the others a line says so."""
    for kind, measure in (("words", words_of), ("pictures", pictures_of)):
        for entry in entries()[kind]:
            folder = files_of(entry, copies, out)
            if folder is None:
                print(
                    f"{entry['name']}: no copy of {entry['repository']} in {copies}",
                    file=sys.stderr,
                )
                continue
            yield (
                f"collected {kind}",
                entry["name"],
                functools.partial(measure, entry["name"], folder, out, half, tuple(options)),
            )


def files_of(entry: Entry, copies: Path, out: Path) -> Path | None:
    """The folder with the collection's files; from a git directory they are laid out once, those of an earlier commit
    in a subfolder *earlier*."""
    place: Path = copies / entry["repository"].replace("/", "+")
    if not place.is_dir():
        return None
    heads = (head.parent for head in sorted(place.rglob("HEAD")))
    git = next((folder for folder in heads if (folder / "objects").is_dir()), None)
    if git is None:
        return place
    folder: Path = out / "collections" / entry["name"] / entry["commit"][:12]
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        lay_out(git, entry["commit"], entry["files"], partial)
        if "earlier" in entry:
            earlier = entry["earlier"]
            lay_out(git, earlier["commit"], earlier["files"], partial / "earlier")
        partial.rename(folder)
    return folder


def lay_out(git: Path, commit: str, patterns: Sequence[str], folder: Path) -> None:
    """The files of a commit that the patterns name. They are read through an empty repository that borrows the objects:
    attributes and filters of the copy could run programs."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as made:
        subprocess.run(["git", "init", "--quiet", "--bare", made], check=True)
        (Path(made) / "objects/info/alternates").write_text(f"{(git / 'objects').resolve()}\n")
        has = ["git", f"--git-dir={made}", "cat-file", "-e", f"{commit}^{{commit}}"]
        if subprocess.run(has, stderr=subprocess.DEVNULL).returncode:
            raise SystemExit(
                f"{git} has no commit {commit}, which collections.yaml names: fetch it there"
            )
        names = [f":(glob){pattern}" for pattern in patterns]
        command = ["git", f"--git-dir={made}", "archive", commit, "--", *names]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as archive,
            tarfile.open(fileobj=archive.stdout, mode="r|") as members,
        ):
            members.extractall(folder, filter="data")


def words_of(name: str, folder: Path, out: Path, half: int, options: Sequence[str]) -> list[Figure]:
    collected = collected_words.READERS[name](folder)
    place = out / "collected" / name
    benchmark = quality_words.write_rows(place / "bench.jsonl", collected.benchmark)
    corpus = quality_words.write_rows(place / "corpus.jsonl", collected.corpus)
    rows = [
        f"{item}\t{text}\t{truth}\t{quality_words.half_of(item)}\n"
        for item, text, truth in collected.truth
    ]
    (place / "truth.tsv").write_text(
        "benchmark_id\tcorpus_id\ttruth\thalf\n" + "".join(rows), "utf-8"
    )
    searched = quality_words.search(benchmark, corpus, place / "run", options)
    truth = quality_words.read_truth(place / "truth.tsv")
    figures = quality_words.figures_of(name, searched, truth, half)
    return [replace(figure, section="collected words") for figure in figures]


def pictures_of(
    name: str, folder: Path, out: Path, half: int, options: Sequence[str]
) -> list[Figure]:
    pairs = [
        quality_pictures.Pair(p.query, p.candidate, p.truth, f"{name}, {p.kind}", half)
        for p in collected_pictures.READERS[name](folder)
        if quality_words.half_of(p.group) == half
    ]
    judged = quality_pictures.judged(pairs, quality_pictures.product())
    return quality_pictures.figures_of(judged, "collected pictures")
