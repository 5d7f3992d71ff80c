"""Reads public repositories as pairs of pictures whose truth is known, to measure the picture judge on them.

    python bench/collected_pictures.py NAME FOLDER

`collections.yaml` names for each collection the repository, the commit and the files that FOLDER must hold, as they
lie in the repository; where an entry has `earlier`, the files of that earlier commit lie in FOLDER/earlier. Pairs
with a file that is not there are left out, so that a copy without the earlier release gives fewer pairs. The command
prints how many pairs there are of each truth and kind.

Truth comes from the repository (names, lists, history) and was checked by eye; lists made by eye are in the yaml.
The pictures are for measuring and are never copied into this repository.
"""

from __future__ import annotations

import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]
from PIL import Image

LIST = Path(__file__).with_name("collections.yaml")
COPY, PART, OTHER = "copy", "copy that differs in part", "other"
LANGUAGES = ("ar", "de", "ja", "ru")


@dataclass(frozen=True)
class PicturePair:
    """Two pictures; `group` names what they are made of, so that a half never splits it."""

    query: Path
    candidate: Path
    truth: str
    kind: str
    group: str


@functools.cache
def _entry(name: str) -> dict[str, Any]:
    entries: list[dict[str, Any]] = yaml.safe_load(LIST.read_text("utf-8"))["pictures"]
    return next(entry for entry in entries if entry["name"] == name)


def _listed(name: str) -> Iterator[tuple[str, str, str, str]]:
    """Query, candidate, truth and kind of the pairs that were chosen by eye."""
    for part in _entry(name)["pairs"]:
        for line in part["of"]:
            query, candidate = line.split(" ")
            yield query, candidate, part["truth"], part["kind"]


def _there(pairs: list[PicturePair]) -> list[PicturePair]:
    return [pair for pair in pairs if pair.query.is_file() and pair.candidate.is_file()]


def _groups(pairs: list[tuple[str, str]]) -> dict[str, str]:
    """Each picture's group: all that hang together by pairs, named by the first of them."""
    group: dict[str, str] = {}

    def first(name: str) -> str:
        while group.setdefault(name, name) != name:
            name = group[name]
        return name

    for one, two in sorted(pairs):
        low, high = sorted((first(one), first(two)))
        group[high] = low
    return {name: first(name) for name in group}


def receipts(folder: Path) -> list[PicturePair]:
    place = folder / "data" / "img"
    listed = list(_listed("receipts"))
    return _there(
        [
            PicturePair(place / f"{one}.jpg", place / f"{two}.jpg", truth, kind, one)
            for one, two, truth, kind in listed
        ]
    )


def chest_films(folder: Path) -> list[PicturePair]:
    listed = list(_listed("chest_films"))
    group = _groups([(one, two) for one, two, truth, _ in listed if truth != OTHER])
    images = folder / "images"
    pairs = [
        PicturePair(images / one, images / two, truth, kind, group.get(one, one))
        for one, two, truth, kind in listed
    ]
    # Pictures of 480 x 480 were replaced by larger ones of another shape, under the same names.
    pairs += [
        PicturePair(path, images / path.name, COPY, "replaced by a larger one", path.name)
        for path in sorted((folder / "earlier" / "images").glob("*"))
        if path.suffix != ".gz"
        and (images / path.name).is_file()
        and path.read_bytes() != (images / path.name).read_bytes()
    ]
    return _there(pairs)


def _size(path: Path) -> tuple[int, int]:
    with Image.open(path) as picture:
        return picture.size


def course_figures(folder: Path) -> list[PicturePair]:
    entry = _entry("course_figures")
    originals = sorted(
        path
        for path in folder.glob("[0-9s]*/**/*")
        if path.suffix in (".png", ".jpg", ".jpeg") and path.stem not in entry["leave_out"]
    )
    pairs = []
    for number, path in enumerate(originals):
        # One language each, in turn; a name that stands twice is told apart by its size.
        language = folder / "translated_images" / LANGUAGES[number % len(LANGUAGES)]
        name = re.escape(path.stem)
        found = [
            other
            for other in sorted(language.glob("*.webp"))
            if re.fullmatch(rf"{name}\.[0-9a-f]{{16}}", other.stem) and _size(other) == _size(path)
        ]
        if found:
            where = path.relative_to(folder).with_suffix("").as_posix()
            same = where in entry["without_words"]
            kind = "stored again as WebP" if same else "words translated"
            pairs.append(PicturePair(path, found[0], COPY if same else PART, kind, path.stem))
    pairs += [
        PicturePair(folder / one, folder / two, truth, kind, Path(one).stem)
        for one, two, truth, kind in _listed("course_figures")
    ]
    return _there(pairs)


def screens(folder: Path) -> list[PicturePair]:
    """Both releases have a screen under one name; pairs of different screens are of the later one."""
    return _there(
        [
            PicturePair(
                (folder if truth == OTHER else folder / "earlier") / "galata/test" / one,
                folder / "galata/test" / two,
                truth,
                kind,
                one,
            )
            for one, two, truth, kind in _listed("screens")
        ]
    )


def old_pages(folder: Path) -> list[PicturePair]:
    data = folder / "data"
    pairs = []
    for sample in sorted((data / "DIBCO11-machine_printed/data/OCR-D-IMG").glob("*.png")):
        ink = sample.name.replace("IMG", "IMG-BIN").replace(".png", ".tif")
        pairs.append(
            PicturePair(
                sample,
                sample.parents[1] / "OCR-D-IMG-BIN" / ink,
                COPY,
                "page and its ink by hand",
                sample.stem,
            )
        )
    listed = list(_listed("old_pages"))
    group = _groups([(one, two) for one, two, truth, _ in listed if truth != OTHER])
    pairs += [
        PicturePair(data / one, data / two, truth, kind, group.get(one, one))
        for one, two, truth, kind in listed
    ]
    return _there(pairs)


def memes(folder: Path) -> list[PicturePair]:
    entry = _entry("memes")
    templates = folder / "templates"
    pairs = []
    tests = folder / "app/tests/images"
    for made in sorted(path for path in tests.glob("*/**/*.[jp]*g") if path.is_file()):
        name = made.relative_to(tests).parts[0]
        plain = sorted(templates.glob(f"{name}/default.[jp]*g"))
        if plain and name not in entry["leave_out"] and min(_size(made)) >= 64:
            pairs.append(PicturePair(plain[0], made, PART, "caption", name))
    pairs += [
        PicturePair(templates / one, templates / two, truth, kind, one.split("/")[0])
        for one, two, truth, kind in _listed("memes")
    ]
    earlier = folder / "earlier" / "templates"
    replaced = [
        path
        for path in sorted(earlier.glob("*/*.[jp]*g"))
        if (templates / path.relative_to(earlier)).is_file()
        and path.read_bytes() != (templates / path.relative_to(earlier)).read_bytes()
    ]
    # Every eighth of some 160: they are all compressed again and teach the same.
    pairs += [
        PicturePair(
            path,
            templates / path.relative_to(earlier),
            COPY,
            "compressed again",
            path.relative_to(earlier).parts[0],
        )
        for path in replaced[::8]
    ]
    return _there(pairs)


READERS: dict[str, Callable[[Path], list[PicturePair]]] = {
    "receipts": receipts,
    "chest_films": chest_films,
    "course_figures": course_figures,
    "screens": screens,
    "old_pages": old_pages,
    "memes": memes,
}


def main() -> None:
    name, folder = sys.argv[1:]
    pairs = READERS[name](Path(folder))
    counts = Counter((pair.truth, pair.kind) for pair in pairs)
    for (truth, kind), count in sorted(counts.items()):
        print(f"{count:4} {truth}: {kind}")
    print(f"{len(pairs):4} in all, {len({pair.group for pair in pairs})} groups")


if __name__ == "__main__":
    main()
