"""What the default search finds of real pictures: crops, panels, marks, tiny pictures, charts, print; and what it
calls a copy that is none.

    python bench/pictures.py                    # the half of the pictures that is reported
    python bench/pictures.py --half settle      # the half that thresholds were settled on
    python bench/pictures.py --only crops panels

VQA-RAD, SLAKE and VQA-Med 2019 are divided in two by a digest of their files; everything is drawn from
one half. Copies are planted in a corpus of all other pictures of the three collections, so that a crop of
a chest film competes with hundreds of chest films. The search is the default one of `heldout overlap`.
A false copy is a pair that was not planted, does not have equal bytes, and is called a copy.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import itertools
import json
import os
import platform
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from heldout.benchmark import Benchmark, Example
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.image import FileOnDisk, ImageRef
from heldout.overlap import COPIES, NearSearch, Relation, scan
from heldout.scenes import SCENES, vary
from heldout.stats import binomial_interval
from heldout.store import Run
from planted_pictures import (
    GUTTERS,
    TONES,
    changed_object,
    changed_plainly,
    chart,
    compounded,
    cropped,
    drawn_world,
    jpeg,
    labelled_bars,
    opacity,
    opaque_mark,
    small_copy,
    translucent_mark,
)
from planted_print import pairs as printed_pairs

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("HELDOUT_SHARED", ROOT.parent / "shared")) / "data"
FOLDERS = ("vqa_rad/images", "slake/images", "vqa_med_2019/train_images", "vqa_med_2019/val_images")
HALVES = {"settle": 0, "report": 1}
DECOY = "decoy: "


def real_pictures() -> dict[Path, str]:
    """Every file of the three collections, with its digest."""
    files = [path for folder in FOLDERS for path in sorted((DATA / folder).iterdir())]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@dataclass
class Planting:
    """A benchmark and a corpus in a folder, and which corpus file was made of which picture."""

    folder: Path
    pictures: dict[str, Path] = field(default_factory=dict)
    truth: dict[str, tuple[str, str]] = field(default_factory=dict)  # file: kind, picture

    def __post_init__(self) -> None:
        (self.folder / "corpus").mkdir(parents=True)
        (self.folder / "benchmark").mkdir()

    def ask(self, name: str, picture: Image.Image | Path) -> None:
        if isinstance(picture, Path):
            self.pictures[name] = picture
        else:
            self.pictures[name] = self.folder / "benchmark" / f"{name}.png"
            picture.save(self.pictures[name])

    def plant(self, kind: str, name: str, picture: Image.Image) -> None:
        file = f"{kind}-{name}.png".replace(" ", "_").replace(":", "").replace("/", "_")
        picture.save(self.folder / "corpus" / file, compress_level=1)
        self.truth[file] = (kind, name)

    def stranger(self, path: Path) -> None:
        copied = self.folder / "corpus" / f"stranger-{path.parent.parent.name}-{path.name}"
        shutil.copyfile(path, copied)

    def search(self, encoder: str | None = "pixels", jobs: int = 2) -> dict[str, Any]:
        examples = tuple(
            Example(
                name, (ImageRef(path.name, FileOnDisk(str(path))),), "What is shown?", answer="x"
            )
            for name, path in self.pictures.items()
        )
        run = Run.create(self.folder / "run")
        near = NearSearch(encoder, named=False) if encoder else None
        start = time.perf_counter()
        with LocalEngine(jobs) as engine, run.writing():
            (result,) = scan(
                Benchmark("planted", examples),
                [open_corpus(self.folder / "corpus", name="web")],
                run,
                engine,
                near=near,
                quiet=True,
            )
        seconds = time.perf_counter() - start
        rows = run.read_table("matches").to_pylist()
        return {"rows": rows, "seconds": seconds, "counts": result.counts}


@dataclass
class Tally:
    planted: int = 0
    found: int = 0
    undecided: int = 0
    listed: int = 0


def counted(
    planting: Planting, rows: list[dict[str, Any]]
) -> tuple[dict[str, Tally], list[dict[str, Any]]]:
    """By kind what became of the planted pairs; and the pairs that are wrongly called copies."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for kind, _ in planting.truth.values():
        tallies[kind].planted += 1
    false = []
    for row in rows:
        kind, name = planting.truth.get(row["corpus_id"], ("", ""))
        if name == row["benchmark_id"]:
            tally = tallies[kind]
            tally.listed += 1
            tally.found += row["relation"] in COPIES
            tally.undecided += row["relation"] == Relation.UNDECIDED
        elif row["relation"] in COPIES and row["method"] not in ("bytes", "pixels"):
            false.append(row)
    return tallies, false


def show(title: str, planting: Planting, found: dict[str, Any], verbose: bool) -> dict[str, Any]:
    tallies, false = counted(planting, found["rows"])
    undecided = sum(
        row["relation"] == Relation.UNDECIDED
        and planting.truth.get(row["corpus_id"], ("", ""))[1] != row["benchmark_id"]
        for row in found["rows"]
    )
    pairs = found["counts"].get("pairs", 0)
    files = len(list((planting.folder / "corpus").iterdir()))
    print(
        f"\n**{title}**: {len(planting.pictures):,} pictures looked for among {files:,}; "
        f"{pairs:,} pairs verified; false copies {len(false)}, other pairs left undecided {undecided:,}; "
        f"{found['seconds']:.0f} s\n"
    )
    print("| kind | planted | called a copy | interval | undecided | among the candidates |")
    print("|---|--:|--:|---|--:|--:|")
    for kind, tally in tallies.items():
        interval = binomial_interval(tally.found, tally.planted)
        print(
            f"| {kind} | {tally.planted} | {tally.found} ({tally.found / tally.planted:.3f}) | "
            f"{interval.low:.3f}–{interval.high:.3f} | {tally.undecided} | {tally.listed} |",
            flush=True,
        )
    for row in false:
        print(
            f"  false: {row['benchmark_id']} {row['corpus_id']} {row['relation']} {row['transform']}"
        )
    if verbose:
        told(planting, found["rows"])
    return {
        "section": title,
        "files": files,
        "pictures": len(planting.pictures),
        "pairs": pairs,
        "false": [[row["benchmark_id"], row["corpus_id"]] for row in false],
        "undecided": undecided,
        "seconds": found["seconds"],
        "kinds": {kind: vars(tally) for kind, tally in tallies.items()},
    }


def told(planting: Planting, rows: list[dict[str, Any]]) -> None:
    """Planted pairs that were missed, with the numbers."""
    known = {(row["benchmark_id"], row["corpus_id"]): row for row in rows}
    for file, (kind, name) in planting.truth.items():
        row = known.get((name, file))
        wrong = row is None or (row["relation"] in COPIES) == kind.startswith(DECOY)
        if not wrong:
            continue
        if row is None:
            print(f"  not proposed: {file}")
            continue
        registration = json.loads(row["evidence"])["registration"]
        numbers = {
            k: registration[k]
            for k in ("correlation", "residual", "detail", "overlap", "inliers", "reason")
        }
        print(f"  {file}: {row['relation']} {row['transform']} {row['similarity']:.3f} {numbers}")


def radiographs(
    half: str, folder: Path, kind: str, images: int, among: int | None, seed: int
) -> Iterator[tuple[str, Planting]]:
    """Copies of one kind in a corpus of other radiographs; each picture has one copy there, or three
    in figures with gutters of three colours."""
    files = real_pictures()
    own = [path for path, digest in files.items() if int(digest[:4], 16) % 2 == HALVES[half]]
    draw = np.random.default_rng(seed)
    chosen = [own[i] for i in draw.permutation(len(own))[:images]]
    taken = {files[path] for path in chosen}
    others = [path for path, digest in files.items() if digest not in taken]
    if among is not None:
        others = [others[i] for i in sorted(draw.permutation(len(others))[:among].tolist())]
    planting = Planting(folder / kind)
    for path in others:
        planting.stranger(path)
    for number, path in enumerate(chosen):
        name = f"{number:03d}"
        planting.ask(name, path)
        picture = Image.open(path).convert("RGB")
        panels = [Image.open(others[i]).convert("RGB") for i in draw.integers(len(others), size=6)]
        if kind == "crops":
            part, share = cropped(picture, draw)
            band = "15–25" if share < 0.25 else "25–40" if share < 0.4 else "40–60"
            planting.plant(f"crop of {band} %", name, part)
        elif kind == "panels":
            for gutter in ("white", "black", "grey" if number % 2 else "blue"):
                colour = gutter if gutter in ("white", "black") else "coloured"
                figure = compounded(picture, draw, panels, GUTTERS[gutter])
                planting.plant(f"panel, {colour} gutters", name, figure)
        elif kind == "marks":
            planting.plant("opaque words", name, opaque_mark(picture, draw))
            planting.plant("translucent words", name, translucent_mark(picture, draw))
        elif kind == "tones":
            # Few of each picture: of more copies than places the farthest would not be proposed.
            tone, bent = list(TONES.items())[number % len(TONES)]
            planting.plant(tone, name, jpeg(bent(picture), 95))
            way = number // len(TONES) % 2
            change = ("an object", "an opacity")[way]
            decoy = opacity(picture, draw) if way else changed_plainly(picture, draw, panels[0])
            planting.plant(f"{DECOY}{change} changed, another tone", name, jpeg(bent(decoy), 95))
            for quality in (75, 92):
                planting.plant(f"stored again, quality {quality}", name, jpeg(picture, quality))
        else:
            planting.plant(f"{DECOY}object changed", name, changed_object(picture, draw, panels[0]))
            # Draws of its own: those of the decoys above stay what they were.
            figures = np.random.default_rng([seed, number])
            decoy = changed_plainly(picture, figures, panels[0])
            colours = list(GUTTERS.values())
            figure = compounded(decoy, figures, panels, colours[number % len(colours)])
            planting.plant(f"{DECOY}object changed, inside a labelled figure", name, figure)
    yield f"radiographs, {kind}", planting


def worlds(folder: Path, count: int, seed: int) -> Iterator[tuple[str, Planting]]:
    for world in ("scenes", "films"):
        planting = Planting(folder / world)
        draw = np.random.default_rng([seed, len(world)])
        for number in range(count):
            picture, decoy, marked = drawn_world(world, draw)
            name = f"{number:03d}"
            planting.ask(name, picture)
            planting.plant(f"{DECOY}one attribute changed", name, decoy)
            planting.plant("translucent words", name, marked)
        yield world, planting


def small(half: str, folder: Path, images: int, seed: int) -> Iterator[tuple[str, Planting]]:
    """32 pixels a side: films, figures of articles, rendered scenes."""
    files = real_pictures()
    draw = np.random.default_rng(seed)
    once = {digest: path for path, digest in files.items()}  # VQA-Med holds files of VQA-RAD
    own = [path for digest, path in once.items() if int(digest[:4], 16) % 2 == HALVES[half]]
    own = [own[i] for i in draw.permutation(len(own))]
    figures = sorted((DATA / "pmc_articles").rglob("*.jpg"))
    figures = figures[HALVES[half] :: 2]
    planting = Planting(folder / "small")
    pictures: list[tuple[str, Image.Image]] = [
        ("film", Image.open(path).convert("RGB")) for path in own[:images]
    ]
    for path in figures:  # pieces of figures are as various as photographs
        figure = Image.open(path).convert("RGB")
        side = min(figure.size) // 2
        for x, y in ((0, 0), (figure.width - side, figure.height - side)):
            piece = figure.crop((x, y, x + side, y + side))
            if side >= 128 and np.asarray(piece.convert("L")).std() > 25:
                pictures.append(("piece of a figure", piece))
    decoys = {}
    for _ in range(images // 2):
        scene, decoys[len(pictures)], _ = drawn_world("scenes", draw)
        pictures.append(("rendered scene", scene))
    changes = np.random.default_rng([seed, 32])
    for number, (kind, picture) in enumerate(pictures):
        plain, copy = small_copy(picture, draw)
        planting.ask(f"{number:03d}", plain)
        planting.plant(kind, f"{number:03d}", copy)
        if number in decoys:
            changed = small_copy(decoys[number], changes)[1]
            planting.plant(f"{DECOY}one attribute of a scene changed", f"{number:03d}", changed)
    fills = np.random.default_rng([seed, 33])
    for number in range(images):  # what differs may be finer than a pixel
        scene = SCENES.draw(fills)
        planting.ask(f"fill-{number:03d}", small_copy(SCENES.render(scene, 224), fills)[0])
        changed = SCENES.render(vary(scene, fills, "texture"), 224)
        planting.plant(
            f"{DECOY}only a fill changed", f"fill-{number:03d}", small_copy(changed, fills)[1]
        )
    for number, path in enumerate(own[images:]):  # others, at the same size
        tiny = Image.open(path).convert("RGB").resize((32, 32), Image.Resampling.LANCZOS)
        tiny.save(planting.folder / "corpus" / f"stranger-{number:04d}.png")
    yield "32 pixels", planting


def small_strangers(count: int) -> None:
    """Different films at 32 pixels, each with the two of the other half whose detail correlates most with
    its own: half of all neighbouring slices, and pairs that no threshold was settled on."""
    from heldout.overlap import cheap_features, register

    once = {digest: path for path, digest in real_pictures().items()}
    own = list(once.values())
    side = np.array([int(digest[:4], 16) % 2 for digest in once])
    tiny = [
        Image.open(path).convert("RGB").resize((32, 32), Image.Resampling.LANCZOS) for path in own
    ]
    detail = np.stack([_detail(picture) for picture in tiny])
    alike = detail @ detail.T
    alike[side[:, None] == side] = -1.0
    pairs = {
        (min(first, second), max(first, second))
        for first, row in enumerate(alike)
        for second in np.argsort(-row)[:2].tolist()
    }
    hardest = sorted(pairs, key=lambda pair: -alike[pair])[:count]
    features = [cheap_features(picture) for picture in tiny]
    relations: dict[str, int] = defaultdict(int)
    for first, second in hardest:
        for theirs in (features[second], cheap_features(jpeg(tiny[second], 85))):
            registration = register(features[first], theirs)
            relations[str(registration.relation)] += 1
            if registration.is_copy:
                print(f"  false: {own[first].name} {own[second].name} {registration.transform}")
    print(
        f"\n**strangers at 32 pixels**: the {len(hardest):,} most alike pairs across halves of {len(own):,} films, "
        f"each as it is and with one of the two compressed: {dict(relations)}",
        flush=True,
    )


def _detail(picture: Image.Image) -> np.ndarray[Any, np.dtype[np.float32]]:
    import cv2

    grey = np.asarray(picture.convert("L"), np.float32)
    values = (grey - cv2.GaussianBlur(grey, (0, 0), 4.0)).ravel()
    return np.asarray(values / max(float(np.linalg.norm(values)), 1e-6))


def charts(folder: Path, count: int, seed: int) -> Iterator[tuple[str, Planting]]:
    """Charts of four templates on both sides, a tenth of them the same."""
    planting = Planting(folder / "charts")
    draw = np.random.default_rng(seed)
    for number in range(count):
        page = chart(number % 4, draw)
        planting.ask(f"{number:03d}", page)
        if number % 10 == 0:
            planting.plant("the same chart", f"{number:03d}", jpeg(page, 85))
        other = chart(number % 4, draw)
        other.save(planting.folder / "corpus" / f"other-{number:03d}.png")
    yield "charts of four templates", planting


def bars(folder: Path, count: int, seed: int) -> Iterator[tuple[str, Planting]]:
    """Charts with a figure over each bar: copies, and copies in which one bar and its figure are others."""
    planting = Planting(folder / "bars")
    draw = np.random.default_rng(seed)
    for number in range(count):
        chosen, decoy = labelled_bars(draw)
        quality = int(draw.integers(70, 96))
        factor = float(draw.choice((1.0, 1.0, 0.8)))
        size = (round(factor * chosen.width), round(factor * chosen.height))
        name = f"{number:03d}"
        planting.ask(name, chosen)
        for kind, page in (("bars", chosen), (f"{DECOY}one bar and its figure", decoy)):
            planting.plant(kind, name, jpeg(page.resize(size, Image.Resampling.LANCZOS), quality))
    yield "labelled bars", planting


def prints(half: str, folder: Path, count: int, seed: int) -> Iterator[tuple[str, Planting]]:
    """Tables, charts and films with print: copies, and copies in which one figure or word is another."""
    planting = Planting(folder / "print")
    drawn = printed_pairs(HALVES[half], max(1, count // 12), seed)
    for number, (kind, picture, copy, decoy) in enumerate(drawn):
        planting.ask(f"{number:03d}", picture)
        planting.plant(kind, f"{number:03d}", copy)
        planting.plant(f"{DECOY}one word of a {kind}", f"{number:03d}", decoy)
    yield "print", planting


def strangers(folder: Path) -> Iterator[tuple[str, Planting]]:
    """All pairs of different pictures across the three collections."""
    for bench, corpora in (("vqa_rad", ("slake", "vqa_med_2019")), ("slake", ("vqa_med_2019",))):
        planting = Planting(folder / f"strangers-{bench}")
        for number, path in enumerate(sorted((DATA / bench / "images").iterdir())):
            planting.ask(f"{number:03d}", path)
        for path in (path for path in real_pictures() if path.parent.parent.name in corpora):
            planting.stranger(path)
        yield f"{bench} × {' and '.join(corpora)}", planting


CORPUS_STAGES = (
    "hashes of a corpus picture, decoded small",
    "decode it and digest its pixels",
    "cut it into panels",
    "its layout",
    "picture and panels as the encoder prepares them",
)


SHIFT = 3  # pixels cut off a copy, so that it has to be pulled into place


def compared_close_up(pictures: list[Image.Image], side: int) -> Callable[[], object]:
    """The close comparison of copies that were cropped a little and stored again."""
    from heldout.overlap.images._closeup import is_rewritten

    warp = ((1.0, 0.0, -float(SHIFT)), (0.0, 1.0, -float(SHIFT)), (0.0, 0.0, 1.0))
    pairs = []
    for picture in pictures:
        large = picture.convert("RGB").resize((side, side), Image.Resampling.LANCZOS)
        pairs.append((large, jpeg(large.crop((SHIFT, SHIFT, side, side)), 85)))
    return lambda: [
        is_rewritten(one, copy, warp, inverted=False, marked=False) for one, copy in pairs
    ]


def speed(folder: Path, count: int) -> None:
    """CPU seconds of a default scan, stage by stage, and of the whole, for JPEGs of 512 pixels."""
    import resource

    import imagehash

    from heldout.image import decode, pixel_digest, to_rgb
    from heldout.overlap import cheap_features, open_encoder, parts, register
    from heldout.overlap.images._pixels import find_pieces, layout, small_greys
    from heldout.overlap.images.fingerprint import screen

    files = list(real_pictures())[:: max(1, 1362 // count)][:count]
    data = []
    for path in files:
        buffer = io.BytesIO()
        picture = Image.open(path).convert("RGB").resize((512, 512), Image.Resampling.LANCZOS)
        picture.save(buffer, "JPEG", quality=85)
        data.append(buffer.getvalue())
    encoder = open_encoder("pixels")
    images = [decode(each) for each in data]
    greys = [to_rgb(image).convert("L") for image in images]
    cut = [parts(to_rgb(image)) for image in images]
    few = images[:12]
    features = [cheap_features(image) for image in few]
    batch = np.stack([small_greys(grey) for grey in greys])

    def spent(work: Callable[[], object], divided: int) -> float:
        start = time.process_time()
        work()
        return 1e3 * (time.process_time() - start) / divided

    stages = {
        "hashes of a corpus picture, decoded small": spent(
            lambda: [screen(d) for d in data], count
        ),
        "decode it and digest its pixels": spent(
            lambda: [pixel_digest(decode(d)) for d in data], count
        ),
        "cut it into panels": spent(lambda: [parts(to_rgb(i)) for i in images], count),
        "its layout": spent(lambda: layout(batch), count),
        "its words": spent(lambda: [find_pieces(grey) for grey in greys], count),
        "picture and panels as the encoder prepares them": spent(
            lambda: [encoder.prepare_parts(each) for each in cut], count
        ),
        "all views of a benchmark picture": spent(
            lambda: [encoder.encode_views(i) for i in few], len(few)
        ),
        "register a pair of different pictures, with what is computed once of each": spent(
            lambda: [register(a, b) for a, b in itertools.pairwise(features)], len(few) - 1
        ),
    }
    for side in (512, 1600):
        stages[f"compare a copy of {side:,} pixels a side again close up"] = spent(
            compared_close_up(few, side), len(few)
        )
    peer = spent(lambda: [imagehash.phash(Image.open(io.BytesIO(d))) for d in data], count)
    stages["peer: imagehash.phash of a corpus picture, decoding it"] = peer
    print("\n| stage | CPU ms, one core |\n|---|--:|")
    for name, milliseconds in stages.items():
        print(f"| {name} | {milliseconds:.1f} |", flush=True)
    corpus = sum(stages[name] for name in CORPUS_STAGES)
    print(
        f"\nA corpus picture: {corpus:.1f} ms, {2e3 / corpus:.0f} a second on two cores; "
        f"{corpus / peer:.1f} times the peer's time"
    )
    for encoder_name in (None, "pixels"):
        planting = Planting(folder / f"speed-{encoder_name}")
        for number, each in enumerate(data):
            (planting.folder / "corpus" / f"{number:04d}.jpg").write_bytes(each)
        for number, path in enumerate(files[:: max(1, count // 20)][:20]):
            planting.ask(f"{number:03d}", path)
        before = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        found = planting.search(encoder_name, jobs=1)
        after = [
            resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        ]
        seconds = sum(
            b.ru_utime + b.ru_stime - a.ru_utime - a.ru_stime
            for a, b in zip(before, after, strict=True)
        )
        print(
            f"\nWhole scan of {count} JPEGs of 512 pixels for 20 pictures, "
            f"{'default' if encoder_name else 'encoder none'}: {seconds:.1f} CPU s, "
            f"{count / seconds:.0f} images a core second; {found['counts'].get('pairs', 0)} pairs verified",
            flush=True,
        )


SECTIONS = (
    "crops",
    "panels",
    "marks",
    "tones",
    "decoys",
    "worlds",
    "small",
    "small strangers",
    "charts",
    "bars",
    "print",
    "strangers",
    "speed",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--half", choices=list(HALVES), default="report")
    parser.add_argument("--only", nargs="+", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--among", type=int, help="other radiographs in the corpus; default: all")
    parser.add_argument("--encoder", default="pixels", help="none: hashes alone")
    parser.add_argument("--verbose", action="store_true", help="name what was missed")
    parser.add_argument("--seed", type=int, help="another draw; default: 100 or 101, by half")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder that stays")
    options = parser.parse_args()
    seed = 100 + HALVES[options.half] if options.seed is None else options.seed
    kinds = set(options.only)
    print(f"{platform.machine()}, half: {options.half}, seed {seed}, encoder {options.encoder}")
    results = []
    with tempfile.TemporaryDirectory(prefix="heldout-pictures-") as temporary:
        folder = options.keep or Path(temporary)
        parts: list[Iterator[tuple[str, Planting]]] = []
        for kind in ("crops", "panels", "marks", "tones", "decoys"):
            if kind in kinds:
                planted = radiographs(
                    options.half, folder, kind, options.images, options.among, seed
                )
                parts.append(planted)
        if "worlds" in kinds:
            parts.append(worlds(folder, options.images, seed))
        if "small" in kinds:
            parts.append(small(options.half, folder, options.images, seed))
        if "small strangers" in kinds:
            small_strangers(10 * options.images)
        if "charts" in kinds:
            parts.append(charts(folder, options.images, seed))
        if "bars" in kinds:
            parts.append(bars(folder, options.images, seed))
        if "print" in kinds:
            parts.append(prints(options.half, folder, options.images, seed))
        if "strangers" in kinds:
            parts.append(strangers(folder))
        if "speed" in kinds:
            speed(folder, 3 * options.images)
        for part in parts:
            for title, planting in part:
                found = planting.search(
                    None if options.encoder == "none" else options.encoder, options.jobs
                )
                results.append(show(title, planting, found, options.verbose))
    out = ROOT / "bench" / "out" / f"pictures-{options.half}-{options.only[0]}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
