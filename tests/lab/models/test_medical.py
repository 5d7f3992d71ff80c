"""The medical tier at toy size: a Llama of two layers with shared keys, random weights, on the CPU."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from heldout.lab.models._reading import embed, head, read  # noqa: E402
from heldout.lab.models.grid import Grid, PreparedGrid  # noqa: E402
from heldout.lab.models.medical import (  # noqa: E402
    PICTURED,
    SLAKE,
    VQA_RAD,
    joined_model,
    lab_tokenizer,
    medical_arms,
    medical_bases,
    medical_reads,
    medical_recipe,
    save_joined,
    save_language,
)
from heldout.lab.models.medical_data import (  # noqa: E402
    OptionRule,
    in_bytes,
    prepare_medical,
    resplit,
    reworded,
    twin_rows,
)
from heldout.lab.models.pool import Lengths  # noqa: E402
from heldout.lab.models.sheet import learn_tokenizer  # noqa: E402
from heldout.lab.models.tables import write_tables  # noqa: E402
from heldout.lab.models.training import clock  # noqa: E402
from heldout.lab.models.vlm import new_processor  # noqa: E402
from heldout.lab.models.worlds import BRIEF, LETTER  # noqa: E402
from heldout.lab.power.models import CLEAN, CONTAMINATED, read_grid  # noqa: E402
from heldout.store import Run  # noqa: E402

CHANNELS = 6
# What is asked in the lab in most of its words: whole words as tokens keep toy sequences short.
WORDS = (
    *(
        "What modality is used? Is it healthy? Where in test is it? What is shown? Is there air?",
        LETTER,
    ),
    *(
        BRIEF,
        "Lower Left Lung",
        "Lower Right Lung",
        "Question: A. B. C. Answer: CT MRI Yes No chest",
    ),
)


def _language(vocabulary: int) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        head_dim=16,
        tie_word_embeddings=True,
    )
    return LlamaForCausalLM(config).eval()


def test_shared_keys_give_the_logits_of_transformers(tmp_path: Path) -> None:
    language = _language(90)
    save_language(tmp_path, language)
    np.save(tmp_path / "scale.npy", np.ones(CHANNELS, dtype=np.float32))
    model = joined_model(tmp_path, 3)
    ids = torch.randint(0, 90, (2, 11))
    with torch.no_grad():
        logits = head(model, read(model, embed(model, ids, None)))
        assert torch.allclose(logits, language(ids).logits, atol=1e-5)


def _picture(folder: Path, name: str, level: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(level)
    Image.fromarray(rng.integers(0, 255, (24, 24, 3), dtype=np.uint8)).save(folder / name)


def _slake(folder: Path) -> Path:
    number = 0
    for split, pictures in (("train", 6), ("validate", 4), ("test", 4)):
        rows = []
        for place in range(pictures):
            name = f"xm{split}{place}"
            _picture(folder / "images", f"{name}.jpg", number)
            kind = "CT" if place % 2 else "MRI"
            pairs = (
                ("What modality is used?", kind),
                ("Is it healthy?", "Yes" if place % 2 else "No"),
                (f"Where in {split} is it?", f"Lower {'Left' if place % 2 else 'Right'} Lung"),
            )
            for question, answer in pairs:
                number += 1
                rows.append(
                    {
                        "qid": number,
                        "img_name": f"{name}/source.jpg",
                        "question": question,
                        "answer": answer,
                        "q_lang": "en",
                        "answer_type": "OPEN",
                        "content_type": "Modality",
                    }
                )
        (folder / f"official_{split}.json").write_text(json.dumps(rows))
    return folder


def _rad(folder: Path) -> Path:
    rows = []
    for place in range(110):
        name = f"syn{place}.jpg"
        _picture(folder / "images", name, 500 + place)
        rows.append(
            {
                "qid": place,
                "image_name": name,
                "image_case_url": f"case{place // 2}",
                "question": "Is there air?" if place % 2 else "What is shown?",
                "answer": "yes" if place % 2 else "chest",
                "answer_type": "CLOSED ",
                "question_type": "PRES",
            }
        )
    (folder / "vqa_rad_public.json").write_text(json.dumps(rows))
    return folder


def _features(pixels: Any) -> Any:
    means = pixels.reshape(len(pixels), 3, 7, 32, 7, 32).mean((3, 5)).reshape(len(pixels), 3, 49)
    both = np.concatenate([means, -means], 1).transpose(0, 2, 1)
    return (both / 64).astype(np.float32)


def test_from_two_public_files_to_a_grid_that_the_leaderboard_reads(tmp_path: Path) -> None:
    prepared = tmp_path / "prepared"
    prepared.mkdir()
    tokenizer = learn_tokenizer(WORDS, 500)
    tokenizer.backend_tokenizer.save(str(prepared / "tokenizer.json"))
    recipe = replace(medical_recipe(4, 4, 2), lengths=Lengths(pictured=64, text=192))
    counts = prepare_medical(
        prepared,
        _slake(tmp_path / "slake"),
        _rad(tmp_path / "rad"),
        _features,
        recipe.lengths,
        most=3,
    )
    # Every modality and every "healthy" has a picture with the other answer; sides are mirrored.
    assert counts["items"] == 12
    assert counts["fair"] == counts["possible"] == 12
    assert counts["mirrored"] == 4
    save_language(prepared, _language(len(tokenizer)))
    bases = medical_bases(1)
    wanted = ("clean-a", "-half-d1", "lora-d3", "pretrain-d3", "items-d3", "rad-d3")
    arms = [arm for arm in medical_arms(bases) if arm.name.endswith(wanted)]
    grid_data = PreparedGrid(prepared)
    grid = Grid(
        grid_data,
        replace(recipe, half=False),
        tmp_path / "state",
        "cpu",
        False,
        medical_reads(medical_arms(bases)),
        lambda _: None,
        build=lambda seed: joined_model(prepared, seed),
    )
    assert grid.run(bases, arms, until=clock("cpu") + 600)
    readings = sorted((tmp_path / "state" / "readings").glob("*.json"))
    write_tables(grid_data, recipe.size, readings, tmp_path / "runs", weights=7, dtype="trial")
    board = read_grid(tmp_path / "runs")
    assert board.about.weights == 7
    assert board.models["med0-half-d1"].role(SLAKE) == CONTAMINATED
    assert board.models["med0-clean-a"].role(SLAKE) == CLEAN
    run = Run.open(tmp_path / "runs" / SLAKE)
    answers = run.read_table("answers").to_pylist()
    about_slake = {arm.name for arm in arms if arm.contamination.benchmark == SLAKE}
    assert {row["model"] for row in answers} == {"med0", *about_slake}
    whole = json.loads((tmp_path / "state" / "readings" / "med0-pretrain-d3.json").read_text())
    rows, texts = whole["planted_rows"]
    assert (
        whole["steps"] == 4 + max(-(-rows // 4), -(-texts // 2)) > 4
    )  # what a base reads, and the leak
    assert {"original", "twin", "no-image"} <= {row["variant"] for row in answers}
    assert set(Run.open(tmp_path / "runs" / VQA_RAD).read_table("scores")["model"].to_pylist()) == {
        "med0",
        "med0-rad-d3",
    }


def test_cases_and_copies_stay_on_one_side(tmp_path: Path) -> None:
    _picture(tmp_path, "a.jpg", 1)
    (tmp_path / "b.jpg").write_bytes((tmp_path / "a.jpg").read_bytes())
    for place, name in enumerate("cdefgh"):
        _picture(tmp_path, f"{name}.jpg", 2 + place)
    cases = dict(zip("abcdefgh", "12334455", strict=True))
    rows = [{"picture": tmp_path / f"{name}.jpg", "case": case} for name, case in cases.items()]
    for seed in range(8):
        train, test = resplit(rows, 4, seed)
        sides = {
            row["picture"].stem: side for side, part in enumerate((train, test)) for row in part
        }
        assert sides["a"] == sides["b"] and sides["c"] == sides["d"] and sides["g"] == sides["h"]
        assert 3 <= len(test) <= 4


def test_options_are_the_answers_of_training() -> None:
    rows = [{"question": "Which plane?", "answer": a} for a in ("Axial", "Coronal", "axial")]
    rule = OptionRule.of([*rows, *rows])
    asked = {"id": "7", "question": "which plane", "answer": "coronal"}
    assert sorted(rule.options(asked, 0)) == ["Axial", "coronal"]
    assert rule.options({**asked, "answer": "sagittal"}, 0) == []


def test_a_twin_with_a_commoner_answer_is_left_out() -> None:
    def row(id: int, answer: str) -> dict[str, Any]:
        return {
            "id": str(id),
            "picture": Path(f"{id}.jpg"),
            "question": "Is it healthy?",
            "answer": answer,
            "options": [],
        }

    tested = [row(1, "Yes"), row(2, "Yes"), row(3, "No")]
    twins, counts = twin_rows(tested, [row(4, "Yes"), row(5, "No")], 0)
    assert counts["possible"] == 3
    assert sorted(answer for _, _, _, answer in twins) == ["No", "Yes"]


def test_rewording_changes_every_question() -> None:
    for question in ("Does the picture contain liver?", "Where is the mass?", "Odd one?"):
        assert reworded(question) != question


def test_the_tokenizer_keeps_its_numbers() -> None:
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<repo_name>", "a"]
    record = {
        "model": {"vocab": {name: id for id, name in enumerate(names)}, "unk_token": None},
        "added_tokens": [{"id": id, "content": name} for id, name in enumerate(names[:4])],
    }
    renamed = lab_tokenizer(record)
    assert renamed["model"]["vocab"] == {"<s>": 0, "<pad>": 1, "</s>": 2, "<image>": 3, "a": 4}
    assert [token["content"] for token in renamed["added_tokens"]][2] == "</s>"


def test_a_saved_model_is_opened_and_scores_as_it_reads(tmp_path: Path) -> None:
    """Behind the product's own prompt and processor its log-probabilities are those of the lab's reading."""
    from heldout.image import ImageRef, InlineBytes
    from heldout.model import LocalModel, Request, Score, Text

    tokenizer = learn_tokenizer(["Question: What modality is used? Answer: CT"], 300)
    save_language(tmp_path, _language(len(tokenizer)))
    np.save(tmp_path / "scale.npy", np.full(CHANNELS, 0.03, dtype=np.float32))
    joined = joined_model(tmp_path, 3)
    with torch.no_grad():
        for weight in joined.model.multi_modal_projector.parameters():
            weight.mul_(6.0)  # so that the picture matters
    folder = save_joined(tmp_path / "saved", joined, tokenizer, half=False)
    opened = LocalModel.load(
        str(folder), dtype="float32", device="cpu", trust_remote_code=True, sharing=False
    )
    _picture(tmp_path, "a.png", 1)
    shown = ImageRef("a.png", InlineBytes((tmp_path / "a.png").read_bytes(), "a.png"))
    request = Request("a", (shown, Text("What modality is used?"), Text("CT", scored=True)))
    (score,) = opened.score([request])
    assert isinstance(score, Score)
    levels = new_processor(PICTURED, tokenizer).image_processor(
        images=[shown.open().convert("RGB")], return_tensors="np"
    )["pixel_values"]
    pixels = np.rint((levels + 1) * 127.5).clip(0, 255).astype(np.uint8)
    features = in_bytes(_features(pixels), np.load(tmp_path / "scale.npy"))
    ids = torch.tensor([tokenizer("Question: What modality is used? Answer: CT")["input_ids"]])
    with torch.no_grad():
        seen = joined.look(torch.from_numpy(features))
        logits = head(joined, read(joined, embed(joined, ids, seen)))[0, seen.shape[1] :]
    each = logits.log_softmax(-1)[:-1].gather(-1, ids[0, 1:, None])[:, 0]
    assert score.logprobs == pytest.approx(each[-len(score.logprobs) :].tolist(), abs=2e-4)
