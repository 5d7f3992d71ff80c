"""Named benchmarks: their names on the hub and the meaning of their columns; NaturalBench's pairs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from heldout.benchmark.benchmark import normal
from heldout.benchmark.fields import FieldMap
from heldout.benchmark.readers import FileRow
from heldout.benchmark.source import ALIASES, BenchmarkSource
from heldout.errors import InputError
from heldout.store import Dropped

# NaturalBench: two images and two questions per row; each question has a different answer on each image.
#
# Read whole, a row is four items. Read by arm (``nb.parquet#arm=original``, ``#arm=twin``), it is two: the
# same two questions under the same ids, once on image 0 and once on image 1, so that the second arm is a
# ready-made twin of the first. Both are photographs; which one is called original is a convention.


ARMS = {"original": 0, "twin": 1}
_COLUMNS = ("Image_0", "Image_1", "Question_0", "Question_1")
_OF_ITEM = re.compile(r"(Image|Question)_[01]")


def is_group(values: Mapping[str, Any]) -> bool:
    """Whether a row holds two images and two questions."""
    return all(column in values for column in _COLUMNS)


def natural_bench(rows: Iterator[FileRow | Dropped]) -> Iterator[FileRow | Dropped]:
    """Each row as four that share its Index; a row that is one item already stays as it is."""
    number = 0
    for row in rows:
        if isinstance(row, Dropped):
            yield row
        elif not is_group(row.values):
            number += 1
            yield FileRow(number, row.values)
        else:
            for question in (0, 1):
                for image in (0, 1):
                    number += 1
                    yield FileRow(number, _item(row, image, question))


def natural_twins(
    rows: Iterator[FileRow | Dropped], arm: str, *, apart: bool
) -> Iterator[FileRow | Dropped]:
    """Each row as the two items of one arm. ``apart``: numbered as ``natural_bench`` numbers them, not
    by the row of the file."""
    if arm not in ARMS:
        raise InputError(f"#arm={arm}: expected one of {', '.join(ARMS)}")
    before = 0  # items of the rows so far
    for row in rows:
        if isinstance(row, Dropped):
            yield row
            continue
        if not is_group(row.values):
            listed = ", ".join(row.values)
            message = f"expected {', '.join(_COLUMNS)}; found {listed:.120}"
            yield Dropped("read", f"row {row.number}", "no pair of images", message)
            before += 1
            continue
        for question in (0, 1):
            values = _item(row, ARMS[arm], question)
            values["id"] = f"{values['Index']}-q{question}"
            answers = [_item(row, image, question)["answer"] for image in (0, 1)]
            if None in answers or normal(str(answers[0])) == normal(str(answers[1])):
                message = f"{values['question']!r:.120}: {answers[0]!r} and {answers[1]!r}"
                yield Dropped("read", str(values["id"]), "no twin", message)
                continue
            number = before + 2 * question + ARMS[arm] + 1
            yield FileRow(number if apart else row.number, values)
        before += 4


def _item(row: FileRow, image: int, question: int) -> dict[str, Any]:
    index = row.values.get("Index", row.number)
    text = row.values.get(f"Question_{question}")
    return {
        **{name: value for name, value in row.values.items() if not _OF_ITEM.match(name)},
        "Index": index,
        "id": f"{index}_image{image}_question{question}",
        "image": row.values.get(f"Image_{image}"),
        "question": text,
        "answer": row.values.get(f"Image_{image}_Question_{question}"),
    }


# Rows whose answer has another form.


def joined_labels(rows: Iterator[FileRow | Dropped]) -> Iterator[FileRow | Dropped]:
    """Open Images: the labels people confirmed, as one answer."""
    for row in rows:
        labels = row.values.get("labels") if isinstance(row, FileRow) else None
        if isinstance(row, FileRow) and isinstance(labels, list):
            names = [label for label in map(_confirmed, labels) if label]
            yield FileRow(row.number, {**row.values, "answer": ", ".join(names) or None})
        else:
            yield row


def _confirmed(label: Any) -> str | None:
    if isinstance(label, dict):
        confidence = label.get("confidence")
        denied = isinstance(confidence, int | float) and confidence <= 0
        return None if denied else str(label.get("label") or "") or None
    return str(label) if label else None


@dataclass(frozen=True)
class Preset:
    name: str
    hub: str  # dataset name on the hub
    split: str  # the split people report on
    configs: tuple[str, ...] = ()  # all of them are read, in this order
    mapping: Mapping[str, str] = field(default_factory=dict)
    answer_is: str = "auto"
    select: Mapping[str, str] = field(default_factory=dict)
    #: rows that hold several items are taken apart before fields are mapped
    explode: Callable[[Iterator[FileRow | Dropped]], Iterator[FileRow | Dropped]] | None = None
    several: bool = False  # released as many tables that are one benchmark
    about: str = ""
    archive: str = ""  # where its pictures are, where they are not in the tables
    strata: tuple[str, ...] = ()  # columns by which published results are broken down
    choices: bool = (
        True  # whether its items may have options; those of captions and labels have none
    )
    limit: str = ""  # what the hub's copy cannot do, and what can

    def limits(self, columns: Collection[str], pictures_missing: bool) -> list[str]:
        """What a copy with these ``columns`` lacks, in sentences; empty where it lacks nothing."""
        wanted = []
        if self.archive and pictures_missing:
            wanted.append(f"the pictures are not in the tables: {self.archive}")
        lacking = [name for name in self.strata if name not in columns]
        if lacking:
            wanted.append(f"no column {', '.join(lacking)}: {self.limit}")
        elif self.limit and not self.strata:
            wanted.append(self.limit)
        return wanted

    def selected(self, source: BenchmarkSource) -> BenchmarkSource:
        selection = {**self.select, "split": self.split, **source.selection}
        return BenchmarkSource(source.location, selection, source.limit)

    def fitting(self, columns: Collection[str]) -> dict[str, str]:
        """The mapping as far as ``columns`` has it: the authors' own files may differ."""
        return {
            name: value
            for name, value in self.mapping.items()
            if all(part in columns for part in value.split("+"))
        }

    def refuse(self, rows: Sequence[Mapping[str, Any]], fields: FieldMap, where: str) -> None:
        """An InputError if ``rows`` are clearly not this benchmark, in any layout it is known in."""
        filled = (
            name for row in rows for name, value in row.items() if value not in (None, "", [])
        )
        columns = list(dict.fromkeys(filled))
        fitting = self.fitting(columns)
        problem = None
        if self.mapping and not fitting:
            problem = f"one of the columns {', '.join(dict.fromkeys(self.mapping.values()))}"
        for key in self.select:
            names = ALIASES.get(key, (key,))
            # The hub's copy holds the selected rows alone, and then it has all of the columns.
            if len(fitting) < len(self.mapping) and not any(name in columns for name in names):
                problem = f"a column {' or '.join(names)}, of which it takes '{self.select[key]}'"
        multiple_choice = self.answer_is == "letter" or "options" in self.mapping
        if problem is None and multiple_choice and not any(fields.options(row) for row in rows):
            problem = "options to choose from" + (
                ", with letters as answers" if self.answer_is == "letter" else ""
            )
        if problem is None and not self.choices and any(fields.options(row) for row in rows):
            problem = "captions or labels, and no options to choose from"
        if problem is not None:
            raise InputError(
                f"{where} does not look like {self.name} ({self.about}): the preset expects "
                f"{problem}. It has: {', '.join(columns)}. {self._advice()}"
                f"Leave out the setting preset to read it as it is"
            )

    def _advice(self) -> str:
        message = "; ".join(part for part in (self.archive, self.limit) if part)
        return f"{message[:1].upper()}{message[1:]}. " if message else ""


_QUESTION = {"image": "image", "question": "question", "answer": "answer"}

# Several suites packed into one table: options as JSON text by letter, the key as letter and as text.
_PACKED = {
    "id": "dataset_index",
    "image": "images",
    "question": "question",
    "options": "options",
    "answer": "answer_label",
}

PRESETS: tuple[Preset, ...] = (
    Preset(
        "slake-en",
        "mdwiratathya/SLAKE-vqa-english",
        "test",
        mapping=_QUESTION,
        select={"lang": "en"},
        about="SLAKE 1.0 (Liu et al. 2021), English questions",
        strata=("answer_type", "content_type"),
        limit="tables by stratum need the official files (BoKelvin/SLAKE, unpacked, with "
        "the preset slake-en); the mirror mdwiratathya/SLAKE-vqa-english has no strata",
    ),
    Preset(
        "pathvqa",
        "flaviagiammarino/path-vqa",
        "test",
        mapping=_QUESTION,
        about="PathVQA (He et al. 2020), pathology",
    ),
    Preset(
        "vqa-rad",
        "flaviagiammarino/vqa-rad",
        "test",
        mapping=_QUESTION,
        about="VQA-RAD (Lau et al. 2018), radiology",
    ),
    Preset(
        "omnimedvqa",
        "foreverbeliever/OmniMedVQA",
        "test",
        mapping={
            "id": "question_id",
            "image": "image_path",
            "question": "question",
            "options": "option_A+option_B+option_C+option_D",
            "answer": "gt_answer",
        },
        answer_is="text",
        several=True,
        about="OmniMedVQA (Hu et al. 2024)",
        archive="the hub has one zip, OmniMedVQA.zip: unpack it and give QA_information/Open-access",
    ),
    Preset(
        "pmc-vqa",
        "xmcmic/PMC-VQA",
        "test",
        mapping={
            "image": "Figure_path",
            "question": "Question",
            "options": "Choice A+Choice B+Choice C+Choice D",
            "answer": "Answer_label",
        },
        answer_is="letter",
        about="PMC-VQA (Zhang et al. 2023), figures of open-access articles",
        archive="download images.zip (images_2.zip for the _2 tables) from xmcmic/PMC-VQA, unpack it, "
        "and give its folder with the setting images",
    ),
    Preset(
        "mmmu-med",
        "MMMU/MMMU",
        "validation",
        configs=(
            "Basic_Medical_Science",
            "Clinical_Medicine",
            "Diagnostics_and_Laboratory_Medicine",
            "Pharmacy",
            "Public_Health",
        ),
        mapping={"id": "id", "question": "question", "options": "options", "answer": "answer"},
        answer_is="letter",
        several=True,
        about="MMMU (Yue et al. 2024), Health & Medicine; #split=validation+dev reads both",
    ),
    Preset(
        "medxpertqa-mm",
        "TsinghuaC3I/MedXpertQA",
        "test",
        configs=("MM",),
        mapping={
            "id": "id",
            "image": "images",
            "question": "question",
            "options": "options",
            "answer": "label",
        },
        answer_is="letter",
        about="MedXpertQA (Zuo et al. 2025), multimodal",
        archive="download images.zip from TsinghuaC3I/MedXpertQA, unpack it, and give its folder "
        "with the setting images",
    ),
    Preset(
        "medvlthinker-eval",
        "UCSC-VLAA/MedVLThinker-Eval",
        "test",
        mapping=_PACKED,
        answer_is="letter",
        about="MedVLThinker-Eval (Huang et al. 2025): closed questions of MMMU, MedXpertQA, PathVQA, "
        "PMC-VQA, SLAKE and VQA-RAD; one of them: #dataset_name=MMMU-medical",
    ),
    Preset(
        "medsynvqa",
        "MedVLSynther/MedVLSynther-13K",
        "train",
        mapping=_PACKED,
        answer_is="letter",
        about="MedSynVQA (MedVLSynther-13K), synthesised from open-access articles; training data",
    ),
    Preset(
        "mmstar",
        "Lin-Chen/MMStar",
        "val",
        mapping={"id": "index", **_QUESTION},
        answer_is="letter",
        about="MMStar (Chen et al. 2024)",
    ),
    Preset(
        "realworldqa",
        "xai-org/RealworldQA",
        "test",
        mapping=_QUESTION,
        about="RealWorldQA (xAI 2024)",
    ),
    Preset(
        "naturalbench",
        "BaiqiL/NaturalBench",
        "train",
        mapping={"id": "id", "cluster": "Index", **_QUESTION},
        explode=natural_bench,
        about="NaturalBench (Li et al. 2024): two images and two questions make four items",
    ),
    Preset(
        "coco",
        "lmms-lab/COCO-Caption2017",
        "val",
        mapping={"id": "question_id", **_QUESTION},
        choices=False,
        about="COCO captions 2017 (Lin et al. 2014)",
    ),
    Preset(
        "flickr30k",
        "lmms-lab/flickr30k",
        "test",
        mapping={"id": "img_id", "image": "image", "answer": "caption"},
        choices=False,
        about="Flickr30k (Young et al. 2014)",
    ),
    Preset(
        "imagenet",
        "ILSVRC/imagenet-1k",
        "validation",
        mapping={"image": "image", "answer": "label"},
        answer_is="text",
        choices=False,
        about="ImageNet-1k (Russakovsky et al. 2015)",
    ),
    Preset(
        "openimages",
        "vikhyatk/openimages-human-labels",
        "train",
        mapping={"id": "image_id", "image": "image", "answer": "answer"},
        explode=joined_labels,
        choices=False,
        about="Open Images (Kuznetsova et al. 2020), human-verified labels",
    ),
    Preset(
        "textcaps",
        "lmms-lab/TextCaps",
        "test",
        mapping={
            "id": "question_id",
            "image": "image",
            "question": "question",
            "answer": "caption_str",
        },
        choices=False,
        about="TextCaps (Sidorov et al. 2020)",
        limit="the test split is released without captions; #split=val has them",
    ),
    Preset(
        "conceptual-captions",
        "pixparse/cc3m-wds",
        "validation",
        mapping={"id": "__key__", "image": "jpg", "answer": "txt"},
        choices=False,
        about="Conceptual Captions, also GCC or CC3M (Sharma et al. 2018)",
        limit="google-research-datasets/conceptual_captions lists addresses without pictures; "
        "pixparse/cc3m-wds has those that could still be downloaded",
    ),
)


def find_preset(name: str, by_name: bool = False) -> Preset | None:
    """The preset called ``name``; an unknown one is an error only if the user asked ``by_name``."""
    for preset in PRESETS:
        if preset.name == name:
            return preset
    if not by_name:
        return None
    names = [preset.name for preset in PRESETS]
    near = difflib.get_close_matches(name.lower(), names, n=3, cutoff=0.4)
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    raise InputError(f"there is no preset '{name}'; {hint}There are: {', '.join(names)}")
