"""New splits of the union of old ones, so that no two share a picture (or a patient)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heldout import __version__
from heldout.benchmark import Benchmark, Example, Opened
from heldout.cure.groups import assign, groups_of, strata_of
from heldout.cure.lists import write_list
from heldout.cure.roundtrip import compare, pictures
from heldout.cure.writing import Chosen, chosen_by_table, new_folder, write_file
from heldout.engine import progress
from heldout.errors import InputError
from heldout.store import Run, write_json

RESPLIT_VERSION = 1
CLEAN = "clean"


def write_new_splits(
    opened: Sequence[Opened],
    out: Path,
    *,
    run: Run | None = None,
    stratify: str | None = None,
    seed: int = 0,
    quiet: bool = True,
) -> dict[str, Any]:
    """As many new splits as old ones, of about the old sizes, written in the format of the input.

    Items that share a picture, a cluster column's value or an entry of a file stay together, and so
    do pictures that ``run`` found to be copies of one another (undecided ones too).
    """
    names = _names(opened)
    union = Benchmark(
        name="union", examples=tuple(example for one in opened for example in one.benchmark)
    )
    title = f"reading the images of {', '.join(names)}"
    with progress(title, len(union.images), "images", disabled=quiet) as step:
        union.identify(step)
    groups = groups_of(union, opened, run)
    sizes = [len(one.benchmark) for one in opened]
    home = assign(groups, sizes, strata=strata_of(union, groups, stratify), seed=seed)
    for number, name in enumerate(names):
        if number not in home:
            raise InputError(
                f"the union has too few independent images to fill the split '{name}': "
                f"{len(set(groups)):,} groups for {len(opened)} splits"
            )
    with new_folder(out) as folder:
        clean = folder / CLEAN
        written = [
            _write_split(opened, names, home, number, union, clean) for number in range(len(names))
        ]
        if opened[0].tables[0].file.reader.name == "arrow":
            write_json(clean / "dataset_dict.json", {"splits": names})
        write_list(folder, "moved", (row for split in written for row in split.moved))
        shown = [split.shown for split in written]
        manifest = {
            "resplit_version": RESPLIT_VERSION,
            "heldout": __version__,
            "seed": seed,
            "stratify": stratify,
            "groups": len(set(groups)),
            "splits": [
                {**split.facts, "open": split.target.relative_to(folder).as_posix()}
                for split in written
            ],
            "shared_images": sum(
                len(shown[a] & shown[b]) for a in range(len(shown)) for b in range(a)
            ),
            "cautions": _cautions(run),
            "differences": [difference for split in written for difference in split.differences],
        }
        write_json(folder / "manifest.json", manifest)
    return manifest


@dataclass(frozen=True)
class _Written:
    target: Path
    facts: dict[str, Any]
    moved: list[dict[str, Any]]
    shown: set[str]  # the pictures of the split as it reads now
    differences: list[str]


def _write_split(
    opened: Sequence[Opened],
    names: Sequence[str],
    home: Sequence[int],
    number: int,
    union: Benchmark,
    clean: Path,
) -> _Written:
    one, name = opened[number], names[number]
    chosen: list[tuple[str, Chosen]] = []
    start = 0
    for origin, source in zip(names, opened, strict=True):
        end = start + len(source.benchmark)
        keep = [place == number for place in home[start:end]]
        chosen += [(origin, part) for part in chosen_by_table(source, keep)]
        start = end
    # The split's own table comes first: its frame and its columns are the new file's.
    chosen.sort(key=lambda pair: pair[0] != name)
    root, target = _place(opened, number, name, clean)
    write_file([part for _, part in chosen], target, root)
    pairs = [(origin, example) for origin, part in chosen for example in part.examples]
    if one.tables[0].file.reader.name == "image-folder":
        pairs = _as_a_folder_has_them(pairs)
    back = one.reading.back(target)
    trip = compare([example for _, example in pairs], union, back)
    called: Sequence[str | None] = trip.ids if len(trip.ids) == len(pairs) else [None] * len(pairs)
    moved = [
        {"benchmark_id": example.id, "written_id": now, "from": origin, "to": name}
        for (origin, example), now in zip(pairs, called, strict=True)
    ]
    facts = {
        "name": name,
        "source": one.benchmark.source,
        "items_before": len(one.benchmark),
        "items": len(pairs),
        "images": len(pictures(back.examples, back)),
        "moved_in": sum(origin != name for origin, _ in pairs),
        "fingerprint": back.fingerprint,
    }
    differences = [f"{name}: {difference}" for difference in trip.differences]
    return _Written(target, facts, moved, pictures(back.examples, back), differences)


def _as_a_folder_has_them(pairs: Sequence[tuple[str, Example]]) -> list[tuple[str, Example]]:
    """In the order of their names, and one file once: both splits may have held it."""
    once = {example.id: (origin, example) for origin, example in reversed(pairs)}
    return [once[name] for name in sorted(once, key=lambda name: name.encode().split(b"/"))]


def _place(opened: Sequence[Opened], number: int, name: str, clean: Path) -> tuple[Path, Path]:
    """Where a split's images are counted from, and where its file goes."""
    targets = [_target(one) for one in opened]
    if opened[number].tables[0].file.path.is_dir():
        return clean, clean / name
    if len(set(targets)) < len(targets):  # test/data.json and train/data.json
        return clean / name, clean / name / targets[number]
    return clean, clean / targets[number]


def _names(opened: Sequence[Opened]) -> list[str]:
    names = [one.benchmark.split or one.benchmark.name for one in opened]
    if len(set(names)) < len(names):
        raise InputError(
            f"the splits are called {', '.join(names)}: give files whose names say which split they are"
        )
    return names


def _target(opened: Opened) -> Path:
    relative = opened.tables[0].relative
    if len(opened.tables) > 1:  # the parts of a table become one
        split = opened.benchmark.split or opened.benchmark.name
        relative = relative.with_name(split + relative.suffix)
    return relative


def _cautions(run: Run | None) -> list[str]:
    stages = run.manifest()["stages"].values() if run is not None else ()
    if any(stage.get("encoder") for stage in stages):
        return []
    return [
        "pictures were told apart by their pixels: resized or re-compressed copies of one picture "
        "may be in two splits; give the setting run, a search of one split in the other with an encoder"
    ]
