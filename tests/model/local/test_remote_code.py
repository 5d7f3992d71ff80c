"""Checkpoints that bring their classes along: CheXagent-8b, and InternVL as first released.

The classes in remote_code/ have the interface of the published ones. Scores and replies are compared with
what the model card of each tells a user to run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import torch
from PIL import Image
from test_families import answer_tokens, compare, lines, requests_for
from tiny_models import CODE, REMOTE, save
from typer.testing import CliRunner

from heldout.audit._recording import forget_loaded, scorer_of
from heldout.audit.audit_file import AuditFile, BenchmarkEntry, ModelEntry
from heldout.cli.app import app
from heldout.errors import InputError, PrerequisiteError
from heldout.image import ImageRef, InlineBytes
from heldout.model.local import LocalModel
from heldout.model.local._remote import TiledImages
from heldout.model.local.load import LoadedModel, load
from heldout.model.request import Prompt, Reply, Request, Text
from heldout.store import Dropped, Run

MOST = 6


@pytest.fixture(scope="module", autouse=True)
def torchvision() -> None:
    """Loaded where tests run, not where they are collected: it takes seconds."""
    pytest.importorskip("torchvision", reason="torchvision is not installed")


@pytest.fixture
def pictures(picture: Callable[..., bytes]) -> list[ImageRef]:
    sizes = [(60, 44), (44, 70)]
    return [
        ImageRef(f"{n}.png", InlineBytes(picture(n, size), f"{n}.png"))
        for n, size in enumerate(sizes)
    ]


def opened(family: str, folder: Path, side: str = "right") -> LoadedModel:
    save(family, folder, side=side)
    return load(str(folder), revision=None, dtype="float32", device="cpu", trust_remote_code=True)


def tiles(images: Sequence[Image.Image], grids: Sequence[tuple[int, int]]) -> Any:
    """As InternVL's model card: tiles of the resized picture, a thumbnail, torchvision's transforms."""
    import torchvision.transforms as tv

    made = []
    for image, (columns, rows) in zip(images, grids, strict=True):
        whole = image.resize((28 * columns, 28 * rows))
        for number in range(columns * rows):
            left, top = number % columns * 28, number // columns * 28
            made.append(whole.crop((left, top, left + 28, top + 28)))
        if columns * rows > 1:
            made.append(image.resize((28, 28)))
    change = tv.Compose(
        [
            tv.Resize((28, 28), interpolation=tv.InterpolationMode.BICUBIC),
            tv.ToTensor(),
            tv.Normalize(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)),
        ]
    )
    return torch.stack([change(tile) for tile in made])


#: of pictures of 60 × 44 and 44 × 70 pixels, of at most four tiles
GRIDS = {(60, 44): (2, 2), (44, 70): (1, 2)}


def question_of(family: str, content: Sequence[ImageRef | Text]) -> str:
    shown = "<image>\n" if family == "internvl_chat" else ""
    return "".join(part.text if isinstance(part, Text) else shown for part in content)


def plain(family: str, loaded: LoadedModel, request: Request) -> list[tuple[float, ...]]:
    """The checkpoint's own forward on prompt and answer as one text."""
    model, tok = loaded.model, loaded.tokenizer
    images = [picture.open().convert("RGB") for picture in request.images]
    question = question_of(family, request.content[:-1])
    if family == "chexagent":
        text = f" USER: <s>{question} ASSISTANT: <s>{request.target}"
        inputs = loaded.processor(images=images or None, text=text, return_tensors="pt")
    else:
        text = (
            "<|im_start|>system\nThis is the picture of the liver.<|im_end|>\n"
            f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n{request.target}"
        )
        grids = [GRIDS[image.size] for image in images]
        for columns, rows in grids:
            count = 4 * (columns * rows + (columns * rows > 1))
            text = text.replace("<image>", "<img>" + "<IMG_CONTEXT>" * count + "</img>", 1)
        inputs = tok(text, return_tensors="pt")
        if images:
            inputs["pixel_values"] = tiles(images, grids)
            inputs["image_flags"] = torch.ones(len(inputs["pixel_values"]), 1)
    with torch.no_grad():
        logits = (model if images else model.language_model)(**inputs).logits[0]
    return lines(logits, inputs["input_ids"][0], answer_tokens(tok, text, request.target))


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", REMOTE)
def test_batches_padding_and_sharing_change_no_score(
    family: str, side: str, tmp_path: Path, pictures: list[ImageRef]
) -> None:
    loaded = opened(family, tmp_path / family, side)
    asked = requests_for("instructblip" if family == "chexagent" else family, pictures)
    if family == "chexagent":  # takes two
        two = (pictures[1], pictures[0], Text("Same?"), Text("none", scored=True))
        asked.append(Request("two", two))
    expected = {request.id: plain(family, loaded, request) for request in asked}
    assert len({round(sum(line[0] for line in found), 4) for found in expected.values()}) == len(
        asked
    )
    compare(loaded, asked, expected, 1, 3, 8)


@pytest.mark.parametrize("family", REMOTE)
def test_replies_are_those_of_the_model_card(
    family: str, tmp_path: Path, pictures: list[ImageRef]
) -> None:
    loaded = opened(family, tmp_path / family)
    model, tok = loaded.model, loaded.tokenizer
    asked = [
        Prompt(Request(f"{n}", (pictures[n % 2], Text(question))), 2)
        for n, question in enumerate(["which organ is shown?", "Is there a mass?", "x", "A mass?"])
    ]
    wanted = {}
    for prompt in asked:
        (image,) = (picture.open().convert("RGB") for picture in prompt.request.images)
        words = question_of(family, prompt.request.content)
        settings = {"max_new_tokens": MOST, "do_sample": False}
        if family == "chexagent":
            inputs = loaded.processor(
                images=[image], text=f" USER: <s>{words} ASSISTANT: <s>", return_tensors="pt"
            )
            made = model.generate(**inputs, **settings)[0]
            wanted[prompt.request.id] = tok.decode(made, skip_special_tokens=True)
        else:
            shown = tiles([image], [GRIDS[image.size]])
            wanted[prompt.request.id] = model.chat(tok, shown, words, settings)
    assert len(set(wanted.values())) > 2, wanted
    for sharing in (True, False):
        replies: list[Reply] = []
        asker = LocalModel(loaded, "tiny", sharing=sharing).asker(MOST, logprobs=True)
        assert not [one for one in asker.ask(asked, replies.append) if isinstance(one, Dropped)]
        assert {one.id: one.text.strip() for one in replies} == {
            name: text.strip() for name, text in wanted.items()
        }


@pytest.mark.parametrize("family", REMOTE)
def test_a_picture_is_looked_at_once(family: str, tmp_path: Path, pictures: list[ImageRef]) -> None:
    loaded = opened(family, tmp_path / family)
    looks: list[int] = []
    loaded.model.vision_model.register_forward_hook(lambda *_: looks.append(1))
    questions = [f"Is there a mass {n}?" for n in range(5)]
    model = LocalModel(loaded, "tiny", batch_tokens=60)
    scored = [
        Request(text, (pictures[0], Text(text), Text("no", scored=True))) for text in questions
    ]
    assert len(list(model.score(scored))) == 5 and len(looks) == 1
    asked = [Prompt(Request(text, (pictures[0], Text(text))), 2) for text in questions]
    assert len(list(model.asker(2).ask(asked, lambda _: None))) == 5 and len(looks) == 2


def test_places_before_the_text_count_towards_the_context(
    tmp_path: Path, pictures: list[ImageRef]
) -> None:
    model = LocalModel(opened("chexagent", tmp_path / "chexagent"), "tiny")

    def request(words: int) -> Request:
        return Request("a", (pictures[0], Text("mass" + " mass" * words), Text("no", scored=True)))

    most = 512 - 5
    words = next(n for n in range(most) if model.count([request(n)])[0] > most)
    fits, late = (list(model.score([request(n)])) for n in (words - 1, words))
    assert not isinstance(fits[0], Dropped)
    assert isinstance(late[0], Dropped) and late[0].reason == "prompt too long"


def test_a_reply_ends_where_the_template_ends_a_turn(tmp_path: Path) -> None:
    loaded = opened("internvl_chat", tmp_path / "internvl")
    end = loaded.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert LocalModel(loaded, "tiny")._forward.stops == (end,)
    agent = opened("chexagent", tmp_path / "chexagent")
    assert LocalModel(agent, "tiny")._forward.stops == (agent.tokenizer.eos_token_id,)


@pytest.mark.parametrize(
    ("size", "most", "grid"),
    [
        ((448, 448), 12, (1, 1)),
        ((896, 448), 12, (2, 1)),
        ((448, 1350), 12, (1, 3)),
        ((800, 1300), 12, (2, 3)),
        (
            (300, 300),
            12,
            (1, 1),
        ),  # equal shapes: more tiles only for a picture with the pixels for them
        ((1000, 1000), 12, (3, 3)),
        ((1000, 1000), 6, (2, 2)),
        ((5000, 100), 12, (12, 1)),
        ((1000, 1000), 1, (1, 1)),
    ],
)
def test_a_picture_is_cut_into_the_nearest_grid(
    size: tuple[int, int], most: int, grid: tuple[int, int]
) -> None:
    config = SimpleNamespace(
        force_image_size=448,
        dynamic_image_size=True,
        min_dynamic_patch=1,
        max_dynamic_patch=most,
        use_thumbnail=True,
    )
    cutter = TiledImages(config)
    assert cutter.grid(*size) == grid
    made = cutter.tiles(Image.new("RGB", size))
    assert len(made) == grid[0] * grid[1] + (grid != (1, 1))
    assert {tile.size for tile in made} == {(448, 448)}


def test_more_pictures_than_the_model_takes_are_dropped(
    tmp_path: Path, pictures: list[ImageRef]
) -> None:
    model = LocalModel(opened("chexagent", tmp_path / "chexagent"), "tiny")
    request = Request("three", (*pictures, pictures[0], Text("x"), Text("no", scored=True)))
    (given,) = model.score([request])
    assert isinstance(given, Dropped) and given.reason == "too many pictures"


@pytest.mark.parametrize("family", REMOTE)
def test_without_the_flag_nothing_of_the_checkpoint_runs(family: str, tmp_path: Path) -> None:
    folder = save(family, tmp_path / family)
    ran = tmp_path / "ran"
    for file in folder.glob("*.py"):
        file.write_text(f"open({str(ran)!r}, 'w').close()\n" + file.read_text())
    with pytest.raises(InputError, match="trust_remote_code"):
        LocalModel.load(str(folder), device="cpu")
    assert not ran.exists()
    LocalModel.load(str(folder), device="cpu", trust_remote_code=True)
    assert ran.exists()


def test_the_manifest_names_the_files_that_ran(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    folder = save("chexagent", tmp_path / "model")
    (tmp_path / "a.png").write_bytes(picture(0, (60, 44)))
    rows = [
        {"id": f"{n}", "image": "a.png", "question": f"which organ {n}?", "answer": answer}
        for n, answer in enumerate(["liver", "the lung", "no", "yes, a mass", "none", "CT and MRI"])
    ]
    bench = tmp_path / "bench.jsonl"
    bench.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = [
        "score",
        str(bench),
        "--model",
        str(folder),
        "--out",
        str(tmp_path / "run"),
        "--dtype",
        "float32",
        "--device",
        "cpu",
        "--quiet",
    ]
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, InputError) and not (tmp_path / "run").exists()
    done = CliRunner().invoke(app, [*command, "--trust-remote-code"])
    assert done.exit_code == 0, done.exception or done.output
    recorded = Run.open(tmp_path / "run").manifest()["models"]["model"]["remote_code"]
    files = sorted((CODE / "chexagent").glob("*.py"))
    assert recorded == ", ".join(
        f"{file.name} sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}" for file in files
    )


def test_an_audit_file_must_name_its_trust(tmp_path: Path) -> None:
    folder = save("chexagent", tmp_path / "chexagent")
    file = AuditFile(benchmarks=[BenchmarkEntry(name="b", source="b.jsonl")])
    with pytest.raises(InputError, match="trust_remote_code"):
        scorer_of(ModelEntry(name="m", device="cpu").score_settings(file, str(folder)))
    trusting = ModelEntry(name="m", device="cpu", trust_remote_code=True)
    try:
        scorer = scorer_of(trusting.score_settings(file, str(folder)))
        assert "modeling_chexagent.py" in scorer.identity["remote_code"]
    finally:
        forget_loaded()


def test_packages_that_the_code_needs_are_named(tmp_path: Path) -> None:
    folder = save("chexagent", tmp_path / "chexagent")
    code = folder / "modeling_chexagent.py"
    code.write_text("import einops_of_nobody\nfrom timm_of_nobody import x\n" + code.read_text())
    with pytest.raises(PrerequisiteError, match="pip install einops_of_nobody timm_of_nobody$"):
        LocalModel.load(str(folder), device="cpu", trust_remote_code=True)


def test_code_that_fails_is_a_sentence(tmp_path: Path) -> None:
    folder = save("chexagent", tmp_path / "chexagent")
    code = folder / "modeling_chexagent.py"
    code.write_text(code.read_text() + "\nassert False, 'install transformers 4.40'\n")
    with pytest.raises(InputError, match="AssertionError: install transformers 4.40"):
        LocalModel.load(str(folder), device="cpu", trust_remote_code=True)
