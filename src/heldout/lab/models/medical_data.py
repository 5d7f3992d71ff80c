"""What the medical tier's models read: SLAKE-En and a resplit of VQA-RAD as releases, twins of real pictures, and
features in place of pixels."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from heldout.benchmark import read_benchmark
from heldout.image import byte_digest
from heldout.lab.models.grid import PreparedGrid
from heldout.lab.models.medical import (
    CHANNELS,
    ORDERED,
    PICTURED,
    SCALE_FILE,
    SLAKE,
    VQA_RAD,
    require_package,
)
from heldout.lab.models.pool import Lengths, Pool
from heldout.lab.models.releases import Twin, balanced, real_pool
from heldout.lab.models.sheet import Ragged, Sheet, letter_tokens
from heldout.lab.models.tables import OTHER_WORDS, world_tier, write_sheet
from heldout.lab.models.vlm import new_processor
from heldout.lab.models.worlds import LabItem, document

Record = Mapping[str, Any]
TESTED = 96  # pictures of VQA-RAD that are tested, as many as SLAKE has
MOST_OPTIONS, LEAST_ROWS = 4, 5
SIDES = {"left": "right", "right": "left", "Left": "Right", "Right": "Left"}


def normal(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


# A question that training asks often, with few answers, is one with options: those answers.


@dataclass(frozen=True)
class OptionRule:
    """``answers``: by question, the answers of the training split, as they are written there."""

    answers: Mapping[str, Sequence[str]]

    @classmethod
    def of(cls, rows: Iterable[Record]) -> OptionRule:
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        written: dict[str, str] = {}
        for row in rows:
            counts[normal(row["question"])][normal(row["answer"])] += 1
            written.setdefault(normal(row["answer"]), row["answer"])
        return cls(
            {
                question: sorted(written[answer] for answer in answers)
                for question, answers in counts.items()
                if 2 <= len(answers) <= MOST_OPTIONS and sum(answers.values()) >= LEAST_ROWS
            }
        )

    def options(self, row: Record, seed: int) -> list[str]:
        """In a drawn order, with the row's own spelling; none where its answer is not among them."""
        known = self.answers.get(normal(row["question"]), ())
        if normal(row["answer"]) not in map(normal, known):
            return []
        rng = np.random.default_rng((seed, int(row["id"])))
        drawn = [known[place] for place in rng.permutation(len(known))]
        return [row["answer"] if normal(o) == normal(row["answer"]) else o for o in drawn]


# The same question in other words, by rule; VQA-RAD's own paraphrases are used where it has them.


_REWORDED = (
    (r"Does the (?:picture|image) contain (.+)\?", r"Can \1 be seen here?"),
    (r"(?:Is|Are) there (.+) in (.+)\?", r"Can \1 be found in \2?"),
    (r"(?:Is|Are) there (.+)\?", r"Can \1 be found?"),
    (r"What modality is used to take this image\?", r"Name the technique that made this picture."),
    (r"Where (?:is/are|is|are) the (.+)\?", r"Say in which place one sees the \1."),
    (r"How many (.+?) (?:are there )?in this (?:image|picture)\?", r"Count the \1 shown here."),
    (r"What is the (.+)\?", r"Name the \1."),
    (r"What (?:diseases|disease) (?:are|is) (.+)\?", r"Name every disease \1."),
    (r"Which (.+)\?", r"Say which \1."),
    (r"What (.+)\?", r"Tell what \1."),
    (r"(?:Is|Are) (the|this|these) (.+)\?", r"Would you say of \1 \2: true?"),
    (r"Does (.+)\?", r"Decide whether it is so: does \1."),
    (r"How (.+)\?", r"Say how \1."),
)


def reworded(question: str) -> str:
    words = " ".join(question.split())
    for pattern, other in _REWORDED:
        if (match := re.fullmatch(pattern, words, re.IGNORECASE)) is not None:
            return match.expand(other)
    return f"Please look at the picture and answer: {words[:1].lower()}{words[1:]}"


# Rows of the two public files, as the lab releases and trains on them.


def slake_rows(folder: Path, split: str) -> list[dict[str, Any]]:
    rows = json.loads((folder / f"official_{split}.json").read_text())
    return [
        {
            "id": str(row["qid"]),
            "picture": folder / "images" / f"{row['img_name'].split('/')[0]}.jpg",
            "question": row["question"],
            "answer": row["answer"],
            "answer_type": row["answer_type"],
            "content_type": row["content_type"],
        }
        for row in rows
        if row["q_lang"] == "en"
    ]


def rad_rows(folder: Path) -> list[dict[str, Any]]:
    """By picture, in the order of the file."""
    rows = json.loads((folder / "vqa_rad_public.json").read_text())
    places = {row["image_name"]: place for place, row in reversed(list(enumerate(rows)))}
    kept = [
        {
            "id": str(row["qid"]),
            "picture": folder / "images" / row["image_name"],
            "case": row["image_case_url"],
            "question": row["question"],
            "answer": str(row["answer"]),
            "answer_type": row["answer_type"].strip(),
            "content_type": row["question_type"],
            "paraphrase": row.get("question_rephrase", "").replace("NULL", ""),
        }
        for row in rows
    ]
    return sorted(kept, key=lambda row: places[row["picture"].name])


def resplit(
    rows: Sequence[dict[str, Any]], pictures: int, seed: int
) -> tuple[list[Any], list[Any]]:
    """Train and test: all pictures of a case, and all copies of a picture, stand on one side."""
    group: dict[str, str] = {}

    def root(name: str) -> str:
        while group.setdefault(name, name) != name:
            name = group[name]
        return name

    for row in rows:
        for other in (row["case"], byte_digest(row["picture"].read_bytes())):
            group[root(row["picture"].name)] = root(str(other))
    groups = sorted({root(row["picture"].name) for row in rows})
    rng = np.random.default_rng((seed, 51))
    members: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        members[root(row["picture"].name)].add(row["picture"].name)
    tested: set[str] = set()
    for place in rng.permutation(len(groups)):
        if len(tested) + len(members[groups[place]]) <= pictures:
            tested |= members[groups[place]]
    train = [row for row in rows if row["picture"].name not in tested]
    return train, [row for row in rows if row["picture"].name in tested]


# Twins of real pictures. The rule is fixed before any model is read: a picture of SLAKE's validation split, which is
# neither trained on nor tested, that is asked the same question and has another answer; or the mirrored picture where
# the answer names a side and the question does not. Of questions with few answers each is as often new as old.


class AskedTwin(NamedTuple):
    answer: str
    options: tuple[str, ...]
    content_type: str


def twin_rows(
    tested: Sequence[dict[str, Any]], others: Sequence[dict[str, Any]], seed: int
) -> tuple[list[tuple[dict[str, Any], Path, bool, str]], dict[str, int]]:
    """(row, picture, mirrored, new answer) of every fair twin, and counts for the page."""
    known: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in others:
        known[normal(row["question"])].append(row)
    drawn: list[Twin] = []
    by_id = {row["id"]: row for row in tested}
    for row in tested:
        options = tuple(row["options"])
        offered = {normal(option): option for option in options}
        candidates = [
            other
            for other in known[normal(row["question"])]
            if normal(other["answer"]) != normal(row["answer"])
            and (not offered or normal(other["answer"]) in offered)
        ]
        asked = AskedTwin(normal(row["answer"]), options, normal(row["question"]))
        if candidates:
            rng = np.random.default_rng((seed, 52, int(row["id"])))
            other = candidates[int(rng.integers(len(candidates)))]
            answer = normal(other["answer"])
            drawn.append(Twin(row["id"], (other["picture"], False, other["answer"]), asked, answer))
            continue
        side = re.findall(r"\b(?:left|right)\b", row["answer"], re.IGNORECASE)
        sided = re.search(r"left|right", row["question"], re.IGNORECASE)
        if len(side) == 1 and side[0] in SIDES and not sided:
            answer = row["answer"].replace(side[0], SIDES[side[0]])
            if not offered or normal(answer) in offered:
                subject = (row["picture"], True, answer)
                drawn.append(Twin(row["id"], subject, asked, normal(answer)))
    # Balanced within each question; questions asked once cannot be, and are balanced together.
    often = Counter(twin.asked.content_type for twin in drawn)
    pooled = [
        twin._replace(asked=twin.asked._replace(content_type="asked rarely"))
        if often[twin.asked.content_type] < 2 or twin.thing[1]
        else twin
        for twin in drawn
    ]
    fair = balanced(pooled)
    counts = {
        "items": len(tested),
        "possible": len(drawn),
        "fair": len(fair),
        "mirrored": sum(twin.thing[1] for twin in fair),
        "choice": sum(bool(twin.asked.options) for twin in fair),
    }
    return [
        (by_id[twin.id], twin.thing[0], twin.thing[1], _offered(by_id[twin.id], twin.thing[2]))
        for twin in fair
    ], counts


def _offered(row: Record, answer: str) -> str:
    """The answer as the options spell it."""
    return next((o for o in row["options"] if normal(o) == normal(answer)), answer)


def _write_release(folder: Path, rows: Sequence[dict[str, Any]]) -> None:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    lines = []
    for row in rows:
        shutil.copyfile(row["picture"], folder / "images" / row["picture"].name)
        lines.append(_line(row, f"images/{row['picture'].name}", row["answer"]))
    (folder / "test.jsonl").write_text("\n".join(lines) + "\n")


def _write_twins(folder: Path, twins: Sequence[tuple[dict[str, Any], Path, bool, str]]) -> None:
    (folder / "images").mkdir(parents=True, exist_ok=True)
    lines = []
    for row, picture, mirrored, answer in twins:
        name = f"{picture.stem}{'-mirrored' if mirrored else ''}.png"
        if not (folder / "images" / name).exists():
            with Image.open(picture) as shown:
                colours = shown.convert("RGB")
            (ImageOps.mirror(colours) if mirrored else colours).save(folder / "images" / name)
        lines.append(_line(row, f"images/{name}", answer))
    (folder / "test.jsonl").write_text("\n".join(lines) + "\n")


def _line(row: Record, image: str, answer: str) -> str:
    kept = {name: row[name] for name in ("id", "question", "answer_type", "content_type")}
    if row.get(OTHER_WORDS):
        kept[OTHER_WORDS] = row[OTHER_WORDS]
    return json.dumps({**kept, "image": image, "options": row["options"], "answer": answer})


# Features in place of pixels.

Features = Callable[[NDArray[np.uint8]], NDArray[np.float32]]


def efficientnet(weights: Path) -> Features:
    """The last block of EfficientNet-lite0 before its head: 7 × 7 places of 320 channels."""
    require_package("efficientnet_lite_pytorch")
    import torch
    from efficientnet_lite_pytorch import EfficientNet

    network = EfficientNet.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))
    network.eval()

    def features(pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        parts = []
        with torch.no_grad():
            for start in range(0, len(pixels), 32):
                x = (torch.from_numpy(pixels[start : start + 32]).float() - 127) / 128
                x = network._swish(network._bn0(network._conv_stem(x)))
                for block in network._blocks:
                    x = block(x)
                parts.append(x.flatten(2).transpose(1, 2).numpy())
        array: NDArray[np.float32] = np.concatenate(parts)
        return array

    return features


def in_bytes(features: NDArray[np.float32], scale: NDArray[np.float32]) -> NDArray[np.uint8]:
    levels: NDArray[np.uint8] = (np.rint(features / scale) + 128).clip(0, 255).astype(np.uint8)
    return levels


def prepare_medical(
    folder: Path,
    slake: Path,
    vqa_rad: Path,
    features: Features,
    lengths: Lengths,
    *,
    seed: int = 0,
    most: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Releases, twins, sheets and pools in ``folder``, which holds ``tokenizer.json``; returns counts. Pools that
    lie there stay.

    ``most``: only so many pictures of everything, for trials."""
    rule = OptionRule.of(slake_rows(slake, "train"))
    splits = {
        name: [{**row, "options": rule.options(row, seed)} for row in slake_rows(slake, name)]
        for name in ("train", "validate", "test")
    }
    rad = [{**row, "options": []} for row in rad_rows(vqa_rad)]
    human = {normal(row["question"]): row["paraphrase"] for row in rad if row["paraphrase"]}
    for row in (*splits["test"], *rad):
        row[OTHER_WORDS] = human.get(normal(row["question"])) or reworded(row["question"])
    rad_train, rad_test = resplit(rad, TESTED, seed)
    twins, counts = twin_rows(splits["test"], splits["validate"], seed)
    if most is not None:
        tested, rad_tested = _first(splits["test"], most), _first(rad_test, most)
        kept = {row["id"] for row in tested}
        twins = [twin for twin in twins if twin[0]["id"] in kept]
    else:
        tested, rad_tested = splits["test"], rad_test
    held = {byte_digest(row["picture"].read_bytes()) for row in (*splits["test"], *rad_test)}
    trained = {
        SLAKE: _without(splits["train"], held, most),
        VQA_RAD: _without(rad_train, held, most),
    }
    _write_release(folder / SLAKE / "release", tested)
    _write_twins(folder / SLAKE / "twins", twins)
    _write_release(folder / VQA_RAD / "release", rad_tested)
    prepared = PreparedGrid(folder)
    if not all((folder / f"{name}-pool.npz").exists() for name in trained):
        _write_pools(prepared, trained, features, lengths, seed, tell)
    scale = np.load(folder / SCALE_FILE)
    processor = new_processor(PICTURED, prepared.tokenizer)
    for name in (SLAKE, VQA_RAD):
        tier = world_tier(folder, name)
        sheet = write_sheet(name, tier, processor)
        sheet.pixels = in_bytes(features(sheet.pixels), scale)
        for page in sheet.released:
            page["paraphrases"] = [
                human.get(normal(question)) or reworded(question)
                for question, _, _ in page["items"]
            ]
        sheet.save(folder)
        if name == SLAKE:
            pages = [page["items"] for page in sheet.released]
            texts = [document(LabItem(q, a)).learn for page in pages for q, a, _ in page]
            ordered_sheet(ORDERED, texts, prepared.tokenizer, seed).save(folder)
        tell(f"{name}: {len(sheet.scored):,} texts to score, {len(sheet.asked):,} questions")
    counts |= {f"{name} training items": len(rows) for name, rows in trained.items()}
    counts |= {f"{VQA_RAD} tested items": len(rad_test)}
    counts |= {f"{VQA_RAD} tested pictures": len({row["picture"].name for row in rad_test})}
    (folder / "counts.json").write_text(json.dumps(counts, indent=1) + "\n")
    return counts


def _write_pools(
    prepared: PreparedGrid,
    trained: Mapping[str, Sequence[dict[str, Any]]],
    features: Features,
    lengths: Lengths,
    seed: int,
    tell: Callable[[str], None],
) -> None:
    """Rows to train on, and what a step of each channel of their pictures is worth."""
    folder, pools = prepared.folder, {}
    for name, rows in trained.items():
        _write_release(folder / name / "train", rows)
        benchmark = read_benchmark(str(folder / name / "train" / "test.jsonl"))
        pool = real_pool(benchmark, prepared.tokenizer, PICTURED.picture, lengths, seed)
        pools[name] = (pool, features(pool.pixels))
        tell(f"{name}: {len(rows):,} items to train on, {len(pool):,} rows")
    every = np.concatenate([levels for _, levels in pools.values()])
    scale = (np.abs(every).max((0, 1)) / 127 + 1e-6).astype(np.float32)
    assert len(scale) in (CHANNELS, every.shape[-1])
    np.save(folder / SCALE_FILE, scale)
    for name, (pool, levels) in pools.items():
        small: Pool = replace(pool, pixels=in_bytes(levels, scale))
        np.savez_compressed(folder / f"{name}-pool.npz", **vars(small))


# Eight items at a time in released order and with the items shuffled: another order test than the product's, which
# shuffles whole pictures.


DOCUMENT_ITEMS, DOCUMENT_SHUFFLES = 8, 10
CUTS = (0, 4)  # items before the first document


def ordered_sheet(name: str, texts: Sequence[str], tokenizer: Any, seed: int) -> Sheet:
    """Documents of eight items; keys are cut, document and shuffle, and the released order has the number 0."""
    rng = np.random.default_rng((seed, 41))
    begin = tokenizer.bos_token_id
    encoded = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    rows, keys = [], []
    for cut in CUTS:
        for first in range(cut, len(texts) - DOCUMENT_ITEMS + 1, DOCUMENT_ITEMS):
            for shuffle in range(1 + DOCUMENT_SHUFFLES):
                order = rng.permutation(DOCUMENT_ITEMS) if shuffle else range(DOCUMENT_ITEMS)
                rows.append([begin, *(id for item in order for id in encoded[first + item])])
                keys.append(f"{cut}/{first}/{shuffle}")
    none = np.full(len(rows), -1, dtype=np.int32)
    return Sheet(
        name,
        np.zeros((0, 1, 1), dtype=np.uint8),
        Ragged.of(rows),
        Ragged.of([list(range(1, len(row))) for row in rows]),
        none,
        np.ones(len(rows), dtype=bool),
        Ragged.of([]),
        none[:0],
        letter_tokens(tokenizer),
        keys,
        {},
        [],
        [],
    )


def _first(rows: Sequence[dict[str, Any]], most: int | None) -> list[dict[str, Any]]:
    pictures = list(dict.fromkeys(row["picture"].name for row in rows))[:most]
    return [row for row in rows if row["picture"].name in pictures]


def _without(
    rows: Sequence[dict[str, Any]], held: set[str], most: int | None
) -> list[dict[str, Any]]:
    """Without pictures that are tested, byte for byte."""
    digests = {row["picture"]: byte_digest(row["picture"].read_bytes()) for row in rows}
    return _first([row for row in rows if digests[row["picture"]] not in held], most)
