"""New splits of the union of old ones, so that no two share a picture (or a patient)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from heldout import __version__
from heldout.benchmark import Benchmark
from heldout.benchmark.writers import Opened
from heldout.cure.groups import assign, groups_of, strata_of
from heldout.cure.lists import write_list
from heldout.cure.roundtrip import compare, pictures
from heldout.cure.writing import chosen_by_table, new_folder, write_file
from heldout.errors import InputError
from heldout.store import Run, write_json

RESPLIT_VERSION = 1
CLEAN = "clean"


def resplit(
    opened: Sequence[Opened],
    out: Path,
    *,
    run: Run | None = None,
    stratify: str | None = None,
    seed: int = 0,
) -> dict[str, Any]:
    """As many new splits as old ones, of about the old sizes, written in the format of the input.

    Items that share a picture, a cluster column's value or an entry of a file stay together, and so
    do pictures that ``run`` found to be copies of one another (undecided ones too).
    """
    names = _names(opened)
    union = Benchmark(
        name="union", examples=tuple(example for one in opened for example in one.benchmark)
    )
    owner = [number for number, one in enumerate(opened) for _ in one.benchmark]
    groups = groups_of(union, opened, run)
    sizes = [len(one.benchmark) for one in opened]
    strata = strata_of(union, groups, stratify)
    home = assign(groups, sizes, strata=strata, seed=seed)
    with new_folder(out) as folder:
        splits, moved, differences, shown = [], [], [], []
        for number, (name, one) in enumerate(zip(names, opened, strict=True)):
            inside = [place == number for place in home]
            if not any(inside):
                raise InputError(
                    f"the union has too few independent images to fill the split '{name}': "
                    f"{len(set(groups)):,} groups for {len(opened)} splits"
                )
            chosen, start = [], 0
            for source in opened:
                keep = inside[start : start + len(source.benchmark)]
                start += len(source.benchmark)
                chosen += chosen_by_table(source, keep)
            # The split's own table comes first: its frame and its columns are the new file's.
            chosen.sort(key=lambda part: part.opened is not one)
            target = folder / CLEAN / _target(one, name)
            write_file(chosen, target, folder / CLEAN)
            originals = [example for part in chosen for example in part.examples]
            back = one.reading.back(target)
            trip = compare(originals, union, back)
            differences += [f"{name}: {told}" for told in trip.differences]
            shown.append(pictures(back.examples, back))
            splits.append({
                "name": name,
                "source": one.benchmark.source,
                "open": target.relative_to(folder).as_posix(),
                "items_before": len(one.benchmark),
                "items": len(originals),
                "images": len(shown[-1]),
                "moved_in": sum(
                    place == number and was != number for place, was in zip(home, owner, strict=True)
                ),
                "fingerprint": back.fingerprint,
            })  # fmt: skip
            moved += _moved(chosen, trip.ids, names, opened, name)
        write_list(folder, "moved", moved)
        manifest = {
            "resplit_version": RESPLIT_VERSION,
            "heldout": __version__,
            "seed": seed,
            "stratify": stratify,
            "groups": len(set(groups)),
            "splits": splits,
            "shared_images": sum(
                len(shown[a] & shown[b]) for a in range(len(shown)) for b in range(a)
            ),
            "cautions": _cautions(run),
            "differences": differences,
        }
        write_json(folder / "manifest.json", manifest)
    return manifest


def _names(opened: Sequence[Opened]) -> list[str]:
    names = [one.benchmark.split or one.benchmark.name for one in opened]
    if len(set(names)) < len(names):
        raise InputError(
            f"the splits are called {', '.join(names)}: give files whose names say which split they are"
        )
    return names


def _target(opened: Opened, name: str) -> Path:
    table = opened.tables[0]
    if table.file.path.is_dir():
        return Path(name)
    relative = table.relative
    if len(opened.tables) > 1:  # the parts of a table become one
        relative = relative.with_name(name + relative.suffix)
    return relative


def _moved(
    chosen: Sequence[Any], written: Sequence[str], names: Sequence[str], opened: Sequence[Opened],
    here: str,
) -> list[dict[str, Any]]:  # fmt: skip
    origins = [
        (example, names[list(map(id, opened)).index(id(part.opened))])
        for part in chosen
        for example in part.examples
    ]
    called: Sequence[str | None] = (
        written if len(written) == len(origins) else [None] * len(origins)
    )
    return [
        {"benchmark_id": example.id, "written_id": name, "from": origin, "to": here,
         "cluster": json.dumps([ref.name for ref in example.images], ensure_ascii=False)}
        for (example, origin), name in zip(origins, called, strict=True)
    ]  # fmt: skip


def _cautions(run: Run | None) -> list[str]:
    if run is not None:
        return []
    return [
        "pictures were told apart by their pixels: resized or re-compressed copies of one picture "
        "may be in two splits; give --run with a scan of one split against the other with --encoder"
    ]
