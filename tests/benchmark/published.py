"""Small datasets laid out as published: for every preset its real columns and styles of values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

Picture = Callable[..., bytes]
IMAGE = "<picture>"
LETTER_ONLY = "Please answer directly with only the letter of the correct option and nothing else."
WORD_ONLY = "Please answer directly with a single word or number."


def _packed(index: int, suite: str, options: Mapping[str, str], label: str) -> dict[str, Any]:
    return {
        "images": [IMAGE], "question": f"What is shown in case {index}?",
        "options": json.dumps(options, ensure_ascii=False), "answer_label": label,
        "answer": options[label], "reasoning": None, "dataset_name": suite, "dataset_index": index,
        "hash": None, "misc": json.dumps({"id": f"{suite}-{index}"}),
    }  # fmt: skip


def _mmstar(index: int, question: str, answer: str) -> dict[str, Any]:
    return {
        "index": index, "question": question, "image": IMAGE, "answer": answer,
        "category": "coarse perception", "l2_category": "image scene and topic",
        "meta_info": {"source": "MMBench", "split": "val", "image_path": f"images/{index}.jpg"},
    }  # fmt: skip


def _mmmu(number: int, question: str, options: str, answer: str, **more: Any) -> dict[str, Any]:
    return {
        "id": f"validation_Pharmacy_{number}", "question": question, "options": options,
        "explanation": "", "image_1": IMAGE, "image_2": None, "image_3": None,
        "img_type": "['Tables']", "answer": answer, "topic_difficulty": "Easy",
        "question_type": "multiple-choice" if options != "[]" else "open",
        "subfield": "Medicinal Chemistry", **more,
    }  # fmt: skip


# Rows of the hub's own tables, by preset. Pictures are put in where IMAGE stands.
TABLES: dict[str, list[dict[str, Any]]] = {
    "slake-en": [
        {"image": IMAGE, "question": "What modality is used?", "answer": "MRI"},
        {"image": IMAGE, "question": "Does the picture contain liver?", "answer": "Yes"},
    ],
    "pathvqa": [
        {"image": IMAGE, "question": "what are positively charged?", "answer": "the histone"},
        {"image": IMAGE, "question": "is the wall thickened?", "answer": "yes"},
    ],
    "vqa-rad": [
        {"image": IMAGE, "question": "is there a fracture?", "answer": "no"},
        {"image": IMAGE, "question": "which side is it on?", "answer": "left"},
    ],
    "mmmu-med": [
        _mmmu(1, "<image 1> Which drug is drawn?", "['aspirin', \"Parkinson's drug\"]", "B"),
        _mmmu(2, "What follows? <image 1>", "['0.5 mL', '1.5 mL', '2.5 mL', '5 mL']", "D"),
        _mmmu(3, "How many rings are there? <image 1>", "[]", "3"),
    ],
    "medvlthinker-eval": [
        _packed(0, "PMC-VQA", {"A": "CT scan", "B": "MRI scan", "C": "PET scan", "D": "X-Ray"}, "C"),
        _packed(1, "VQA-RAD", {"A": "Yes", "B": "No"}, "B"),
        _packed(2, "SLAKE", {"A": "Lung, left", "B": 'the "right" lung'}, "A"),
        _packed(3, "PathVQA", {"A": "no", "B": "yes"}, "B"),
        _packed(4, "MMMU-medical", {"A": "<50%", "B": "50%–75%", "C": ">75%"}, "A"),
        _packed(5, "MedXpertQA-MM", {k: f"choice {k * 3}" for k in "ABCDE"}, "E"),
    ],
    "medsynvqa": [
        _packed(0, "biomedica", {k: f"finding {k * 3}" for k in "ABCDE"}, "D"),
        _packed(1, "biomedica", {k: f"sign {k * 3}" for k in "ABCDE"}, "A"),
    ],
    "mmstar": [
        _mmstar(0, "Which relation is right?\nOptions: A: The suitcase is on the book., B: The suitcase is "
                "beneath the cat., C: The suitcase is beneath the bed.", "B"),
        _mmstar(1, "What is shown?\nOptions: A: A cat, sitting on a mat, B: Two dogs, C: 3, 4, and 5, "
                "D: Vitamin B: none", "D"),
        _mmstar(2, "Hint: Please answer the question and provide the correct option letter, e.g., A, B, "
                "C, D, at the end.\nQuestion: Find x.\nChoices:\n(A) 5.5\n(B) 6.5\n(C) 7.5", "C"),
    ],
    "realworldqa": [
        {"image": IMAGE, "question": f"Where is the car?\n\nA. On the left\nB. On the right\n{LETTER_ONLY}",
         "answer": "B", "image_path": "0.webp"},
        {"image": IMAGE, "question": f"How many lanes are there?\n\n{WORD_ONLY}", "answer": "4",
         "image_path": "1.webp"},
        {"image": IMAGE, "question": f"Is the light green?\n\nA. Yes\nB. No\n{LETTER_ONLY}",
         "answer": "A", "image_path": "2.webp"},
    ],
    "naturalbench": [
        {"Index": 5, "Image_0": IMAGE, "Image_1": IMAGE, "Question_0": "Is it sunny?",
         "Image_0_Question_0": "Yes", "Image_1_Question_0": "No",
         "Question_1": "Which colour?; Option: A:deep red; B:dark blue;", "Image_0_Question_1": "A",
         "Image_1_Question_1": "B", "Question_Type": "yes_no", "Source": "DOCCI"},
    ],
    "coco": [
        {"question_id": f"{k:012}.jpg", "image": IMAGE, "question": "Please carefully observe the image.",
         "answer": [f"a cat {k}", "one cat"], "id": k, "license": 3, "file_name": f"{k:012}.jpg",
         "coco_url": "http://images"} for k in range(2)
    ],
    "flickr30k": [
        {"image": IMAGE, "caption": [f"a man {k}", "one man"], "sentids": ["0", "1"], "img_id": str(k),
         "filename": f"{k}.jpg"} for k in range(2)
    ],
    "imagenet": [{"image": IMAGE, "label": "tench"}, {"image": IMAGE, "label": "goldfish"}],
    "openimages": [
        {"image": IMAGE, "image_id": f"ab{k}", "original_url": "u", "title": "t",
         "labels": [{"label": "Tree", "confidence": 1.0}, {"label": "Car", "confidence": 0.0},
                    {"label": "Sky", "confidence": 1.0}]} for k in range(2)
    ],
    "textcaps": [
        {"question_id": f"v{k}", "question": "Please carefully observe the image.", "image": IMAGE,
         "image_id": f"x{k}", "image_name": f"x{k}", "image_path": f"test/x{k}.jpg",
         "caption_str": None, "reference_strs": None} for k in range(2)
    ],
    "conceptual-captions": [
        {"__key__": f"00000000{k}", "__url__": "cc3m-validation-0000.tar", "jpg": IMAGE,
         "json": {"caption": f"author {k} : a life", "url": "http://images"},
         "txt": f"author {k} : a life"} for k in range(2)
    ],
}  # fmt: skip


def publish(folder: Path, split: str, rows: Iterable[Mapping[str, Any]], picture: Picture) -> Path:
    """Rows as the hub's Parquet, one file of ``split``; every IMAGE becomes a picture of its own."""
    count = iter(range(1000))

    def filled(value: Any) -> Any:
        if value == IMAGE:
            return {"bytes": picture(next(count)), "path": None}
        return [filled(part) for part in value] if value == [IMAGE] else value

    full = [{key: filled(value) for key, value in row.items()} for row in rows]
    (folder / "data").mkdir(parents=True, exist_ok=True)
    table = pa.Table.from_pylist(full)
    pq.write_table(table, folder / "data" / f"{split}-00000-of-00001.parquet")
    return folder


def publish_files(name: str, folder: Path, picture: Picture) -> tuple[Path, Path | None]:
    """Presets whose authors release files of their own: what to read, and the folder of pictures."""
    images = folder / "images"
    images.mkdir(parents=True)
    for k in range(3):
        (images / f"{k}.jpg").write_bytes(picture(k))
    if name == "omnimedvqa":
        tables = folder / "QA_information" / "Open-access"
        tables.mkdir(parents=True)
        for k, source in enumerate(("ACRIMA", "BRATS")):
            row = {
                "dataset": source, "question_id": f"{source}_0000", "question_type": "Disease Diagnosis",
                "question": "What is the diagnosis?", "gt_answer": "glaucoma",
                "image_path": f"images/{k}.jpg", "option_A": "no disease", "option_B": "glaucoma",
                "modality_type": "Fundus Photography",
            }  # fmt: skip
            if source == "BRATS":
                row |= {"option_C": "a tumour", "option_D": "a cyst", "gt_answer": "a cyst"}
            (tables / f"{source}.json").write_text(json.dumps([row]))
        return tables, folder
    if name == "pmc-vqa":
        (folder / "test.csv").write_text(
            "Figure_path,Question,Answer,Choice A,Choice B,Choice C,Choice D,Answer_label\n"
            "0.jpg,Which uptake is seen?,Focal, A:Diffuse , B:Focal , C:None , D:Unknown ,B\n"
            '1.jpg,What do (A) and (B) show?,"Cells, dead", A:Vessels ," B:Cells, live"," C:Cells, dead", '
            "D:Bone ,C\n"
        )
        return folder / "test.csv", images
    assert name == "medxpertqa-mm"
    rows = [
        {"id": f"MM-{k}", "question": "A man has pain. Which drug (A and B excluded) helps?\n"
         "Answer Choices: (A) Vitamin A (B) Drug (B12) (C) Vitamin D, oral (D) Surgery (B)",
         "options": {"A": "Vitamin A", "B": "Drug (B12)", "C": "Vitamin D, oral", "D": "Surgery (B)"},
         "label": "BD"[k], "images": [f"{k}.jpg", "2.jpg"], "medical_task": "Treatment",
         "body_system": "Skeletal", "question_type": "Reasoning"} for k in range(2)
    ]  # fmt: skip
    (folder / "MM").mkdir()
    (folder / "MM" / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "MM" / "dev.jsonl").write_text(json.dumps({**rows[0], "id": "dev"}) + "\n")
    return folder / "MM", images
