"""Replies of every family against its own generation, one item at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import torch
from tiny_models import FAMILIES, save

from heldout.image import ImageRef, InlineBytes
from heldout.model.local import LocalModel
from heldout.model.local.load import LoadedModel, load
from heldout.model.request import CUT, STOPPED, Prompt, Reply, Request, Text
from heldout.store import Dropped

MOST = 6
FORMS = {
    "blip_2": "Question: {} Answer:",
    "blip_2_t5": "Question: {} Answer:",
    "instructblip": "Question: {} Answer:",
    "paligemma": "answer en {}",
}
QUESTIONS = [
    "which organ is shown?",
    "Is there a mass?",
    "Is it a mass there?",
    "What colour is it?",
    "x",
    "which organ is grey?",
]


@pytest.fixture
def pictures(picture: Callable[..., bytes]) -> list[ImageRef]:
    return [
        ImageRef(f"{n}.png", InlineBytes(picture(n, size), f"{n}.png"))
        for n, size in enumerate([(60, 44), (44, 70)])
    ]


def prompts_for(family: str, pictures: Sequence[ImageRef]) -> list[Prompt]:
    one, two = pictures
    asked = [
        Prompt(Request(f"{n}", (one if n < 5 else two, Text(question))), 2)
        for n, question in enumerate(QUESTIONS)
    ]
    if family != "paligemma":
        asked += [Prompt(Request("none", (Text("Is there a mass?"),)), 2)]
    if family not in FORMS:
        asked += [
            Prompt(Request("late", (Text("A mass?"), one, Text("x"))), 2),
            Prompt(Request("later", (Text("Which organ?"), one, Text("x"))), 2),
        ]
    return asked


def expected(family: str, loaded: LoadedModel, request: Request) -> list[int]:
    """The processor on the whole prompt, and the model's own generate."""
    model, processor, tok = loaded.model, loaded.processor, loaded.tokenizer
    images = [picture.open().convert("RGB") for picture in request.images]
    words = [part.text for part in request.content if isinstance(part, Text)]
    if family in FORMS:
        prompt = ("<image>" if family == "paligemma" else "") + FORMS[family].format(*words)
        inputs = (processor if images else tok)(
            text=prompt, return_tensors="pt", **({"images": images} if images else {})
        )
        model = model if images else model.language_model
    else:
        content = [
            {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}
            for part in request.content
        ]
        turn = [{"role": "user", "content": content}]
        prompt = processor.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
        kept: dict[str, Any] = {"return_tensors": "pt"}
        if tok.bos_token and prompt.startswith(tok.bos_token):
            kept["add_special_tokens"] = False
        inputs = processor(text=[prompt], images=[images] if images else None, **kept)
    made = model.generate(**inputs, max_new_tokens=MOST, do_sample=False)[0].tolist()
    ids = inputs["input_ids"][0].tolist()
    if family == "blip_2_t5":
        return list(made[1:])  # the token every reply begins with
    return made[len(ids) :] if made[: len(ids)] == ids else made


@pytest.mark.parametrize("family", FAMILIES)
def test_sharing_and_batches_change_no_word(
    family: str, tmp_path: Path, pictures: list[ImageRef]
) -> None:
    save(family, tmp_path)
    loaded = load(
        str(tmp_path), revision=None, dtype="float32", device="cpu", trust_remote_code=False
    )
    asked = prompts_for(family, pictures)
    wanted = {
        p.request.id: loaded.tokenizer.decode(
            expected(family, loaded, p.request), skip_special_tokens=True
        )
        for p in asked
    }
    assert len(set(wanted.values())) > 2, wanted
    for sharing, batch in ((True, 10_000), (True, 1), (False, 10_000)):
        model = LocalModel(loaded, "tiny", batch_tokens=batch, sharing=sharing)
        kept: list[Reply] = []
        found = list(model.asker(MOST, logprobs=True).ask(asked, kept.append))
        assert [one for one in found if isinstance(one, Dropped)] == []
        assert {one.id: one.text for one in kept} == wanted, (sharing, batch)
        for one in kept:
            assert one.prompt_tokens and one.reply_tokens is not None
            assert len(one.choice_logprobs) == 2 and all(
                v is not None and v < 0 for v in one.choice_logprobs
            )
            assert one.finish == (CUT if one.reply_tokens == MOST else STOPPED)


def test_a_reply_ends_where_the_model_ends_it(tmp_path: Path, pictures: list[ImageRef]) -> None:
    save("llava", tmp_path)
    loaded = load(
        str(tmp_path), revision=None, dtype="float32", device="cpu", trust_remote_code=False
    )
    asked = prompts_for("llava", pictures)[:2]
    first = expected("llava", loaded, asked[0].request)
    loaded.model.generation_config.eos_token_id = [first[2]]
    replies = {r.id: r for r in LocalModel(loaded, "tiny").asker(MOST).ask(asked, lambda _: None)}
    ended = replies["0"]
    assert isinstance(ended, Reply)
    assert ended.finish == STOPPED and ended.reply_tokens == first.index(first[2])
    assert torch.is_inference_mode_enabled() is False


def test_what_cannot_be_asked_has_a_reason(tmp_path: Path, pictures: list[ImageRef]) -> None:
    save("llava", tmp_path)
    model = LocalModel.load(str(tmp_path), dtype="float32", device="cpu")
    broken = ImageRef("b.png", InlineBytes(b"no picture", "b.png"))
    asked = [
        Prompt(Request("long", (pictures[0], Text("mass " * 600)))),
        Prompt(Request("broken", (broken, Text("?")))),
        Prompt(Request("token", (pictures[0], Text("<image> <pad>")))),
        Prompt(Request("fine", (pictures[0], Text("Is there a mass?")))),
    ]
    found = {one.id: one for one in model.asker(4).ask(asked, lambda _: None)}
    reasons = {name: one.reason for name, one in found.items() if isinstance(one, Dropped)}
    assert reasons == {
        "long": "prompt too long",
        "broken": "not an image",
        "token": "special token in the text",
    }
    assert all(one.stage == "ask" for one in found.values() if isinstance(one, Dropped))
