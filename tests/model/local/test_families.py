"""Every family against a plain forward of one item at a time: sharing and batching change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import torch
from tiny_models import FAMILIES, REMOTE, save

from heldout.image import ImageRef, InlineBytes
from heldout.model.local import LocalModel
from heldout.model.local.load import LoadedModel, load
from heldout.model.request import Request, Score, Text
from heldout.store import Dropped

TOLERANCE = 1e-3
WITHOUT_CHAT = {
    "blip_2": "Question: {} Answer:",
    "blip_2_t5": "Question: {} Answer:",
    "instructblip": "Question: {} Answer:",
    "paligemma": "answer en {}",
}
QUESTIONS = [
    ("which organ is shown in this picture?", "the liver"),
    ("Is there a mass?", "yes"),
    ("Is there a mass?", "no"),
    ("What colour is it?", "grey and white; none of these é 1 2 3"),
    ("x", "CT"),
    ("Is there a mass in the left lung? what is abnormal?", "pleural effusion, cardiomegaly"),
    ("which", "nodule"),
    ("Which organ, and of which colour is it in the picture? Is there a fracture?", "no"),
    ("Is there a mass?", "no"),  # of the other picture: every score differs from every other
]


@pytest.fixture
def pictures(picture: Callable[..., bytes]) -> list[ImageRef]:
    sizes = [(60, 44), (44, 70)]
    return [
        ImageRef(f"{n}.png", InlineBytes(picture(n, size), f"{n}.png"))
        for n, size in enumerate(sizes)
    ]


def requests_for(family: str, pictures: Sequence[ImageRef]) -> list[Request]:
    one, two = pictures
    asked = [
        Request(f"{n}", (one if n < 7 else two, Text(question), Text(answer, scored=True)))
        for n, (question, answer) in enumerate(QUESTIONS)
    ]
    if family != "paligemma":
        asked += [
            Request("none", (Text("Is there a mass?"), Text("no", scored=True))),
            Request("none too", (Text("which organ is shown?"), Text("the lung", scored=True))),
        ]
    if family not in WITHOUT_CHAT:
        asked += [
            # The picture is not part of what these two begin with.
            Request("late", (Text("A mass?"), one, Text("x"), Text("yes", scored=True))),
            Request("later", (Text("Which organ?"), one, Text("x"), Text("liver", scored=True))),
        ]
    if family not in ("blip_2", "blip_2_t5", "instructblip"):
        asked.append(Request("two", (two, one, Text("Same?"), Text("none", scored=True))))
    return asked


def plain(family: str, model: Any, processor: Any, request: Request) -> list[tuple[float, ...]]:
    """log p, mean and deviation of each answer token: the processor on the whole text, full logits."""
    images = [picture.open().convert("RGB") for picture in request.images]
    answer, tok = request.target, processor.tokenizer
    words = [part.text for part in request.content[:-1] if isinstance(part, Text)]
    if family in WITHOUT_CHAT:
        prompt = WITHOUT_CHAT[family].format(*words)
    else:
        content = [
            {"type": "text", "text": part.text} if isinstance(part, Text) else {"type": "image"}
            for part in request.content[:-1]
        ]
        turn = [{"role": "user", "content": content}]
        prompt = processor.apply_chat_template(turn, add_generation_prompt=True, tokenize=False)
    text = prompt + (" " if prompt.endswith(":") else "") + answer
    kept = {"return_tensors": "pt"}
    if tok.bos_token and text.startswith(tok.bos_token):
        kept["add_special_tokens"] = False
    if family == "paligemma":
        inputs = processor(
            text="<image>" * len(images) + prompt, images=[images], suffix=answer, **kept
        )
        inputs.pop("labels")
        count = int(inputs["token_type_ids"].sum()) - 1
        inputs = {k: v if k == "pixel_values" else v[:, :-1] for k, v in inputs.items()}  # no <eos>
    elif family in WITHOUT_CHAT:
        replied = family == "blip_2_t5"
        read = prompt if replied else text
        inputs = processor(text=read, images=images, **kept) if images else tok(read, **kept)
        if family == "instructblip" and images:
            read = processor.qformer_tokenizer(prompt, return_tensors="pt")
            inputs["qformer_input_ids"] = read["input_ids"]
            inputs["qformer_attention_mask"] = read["attention_mask"]
        count = answer_tokens(tok, text, answer)
        if replied:
            reply = tok(answer, add_special_tokens=False, return_tensors="pt")["input_ids"]
            start = torch.zeros((1, 1), dtype=torch.long)
            inputs["decoder_input_ids"] = torch.cat([start, reply], 1)
            count = reply.shape[1]
        if not images:
            model = model.language_model
    else:
        inputs = processor(text=[text], images=[images] if images else None, **kept)
        count = answer_tokens(tok, text, answer)
    with torch.no_grad():
        logits = model(**inputs).logits[0]
    return lines(logits, reply[0] if family == "blip_2_t5" else inputs["input_ids"][0], count)


def lines(logits: Any, ids: Any, count: int) -> list[tuple[float, ...]]:
    """log p, mean and deviation of the last ``count`` tokens, over the whole vocabulary."""
    logits = logits.double()
    p = torch.log_softmax(logits[-count - 1 : -1], -1)
    mean = (p.exp() * p).sum(-1)
    deviation = ((p.exp() * p.square()).sum(-1) - mean.square()).sqrt()
    chosen = p.gather(-1, ids[-count:, None])[:, 0]
    return list(zip(chosen.tolist(), mean.tolist(), deviation.tolist(), strict=True))


def answer_tokens(tok: Any, text: str, answer: str) -> int:
    offsets = tok(text, return_offsets_mapping=True)["offset_mapping"]
    return sum(end > len(text) - len(answer) and end > start for start, end in offsets)


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("family", FAMILIES)
def test_batches_padding_and_sharing_change_no_score(
    family: str, side: str, tmp_path: Path, pictures: list[ImageRef]
) -> None:
    save(family, tmp_path, side=side)
    loaded = load(
        str(tmp_path), revision=None, dtype="float32", device="cpu", trust_remote_code=False
    )
    asked = requests_for(family, pictures)
    expected = {
        request.id: plain(family, loaded.model, loaded.processor, request) for request in asked
    }
    assert len({round(sum(line[0] for line in lines), 4) for lines in expected.values()}) == len(
        asked
    )
    # A batch of one row has no padding, on whichever side.
    compare(loaded, asked, expected, *((1, 3, 8) if side == "right" else (3,)))


def compare(
    loaded: LoadedModel,
    asked: Sequence[Request],
    expected: dict[str, list[tuple[float, ...]]],
    *batches: int,
) -> None:
    """Scores in batches of so many rows, with sharing and without, are the expected ones."""
    longest = max(LocalModel(loaded, "tiny").count(asked))
    assert longest > 0
    for sharing in (True, False):
        for rows in batches:
            model = LocalModel(loaded, "tiny", batch_tokens=rows * longest, sharing=sharing)
            scores = list(model.score(asked))
            assert [s for s in scores if isinstance(s, Dropped)] == []
            assert sorted(score.id for score in scores) == sorted(expected)
            for score in scores:
                assert isinstance(score, Score) and score.span_ok
                given = zip(score.logprobs, score.mu, score.sigma, strict=True)
                for ours, theirs in zip(given, expected[score.id], strict=True):
                    assert ours == pytest.approx(theirs, abs=TOLERANCE), (score.id, rows, sharing)


@pytest.mark.parametrize("family", [*FAMILIES, *REMOTE])
def test_scores_move_with_the_picture(
    family: str, tmp_path: Path, pictures: list[ImageRef]
) -> None:
    save(family, tmp_path / family)
    model = LocalModel.load(
        str(tmp_path / family), dtype="float32", device="cpu", trust_remote_code=family in REMOTE
    )
    question, answer = Text("which organ is shown?"), Text("the liver", scored=True)
    asked = [
        Request("shown", (pictures[0], question, answer)),
        Request("another", (pictures[1], question, answer)),
        Request("removed", (question, answer)),
    ]
    scores = {one.id: one for one in model.score(asked)}
    totals = [one.total for one in scores.values() if isinstance(one, Score)]
    if family == "paligemma":
        dropped = scores["removed"]
        assert isinstance(dropped, Dropped) and dropped.reason == "model needs a picture"
    assert len(totals) == (2 if family == "paligemma" else 3)
    gaps = [abs(one - other) for n, one in enumerate(totals) for other in totals[:n]]
    assert min(gaps) > 10 * TOLERANCE, totals


@pytest.mark.parametrize("family", ["qwen2_5_vl", "gemma3", "idefics3", "llava", "internvl"])
def test_a_document_is_scored_like_one_plain_text(
    family: str, tmp_path: Path, pictures: list[ImageRef]
) -> None:
    save(family, tmp_path)
    model = LocalModel.load(str(tmp_path), dtype="float32", device="cpu")
    one, two = pictures
    parts = (
        Text("Which organ? "),
        Text("liver", scored=True),
        Text("\n"),
        one,
        Text("A mass? "),
        Text("yes, one", scored=True),
        Text("\n"),
        two,
        Text("a"),
        Text(" nodule", scored=True),
    )
    whole, *ends = [
        Request("whole", parts, turn=False),
        *(
            Request(f"{end}", (*_quiet(parts[: end - 1]), parts[end - 1]), turn=False)
            for end in (6, 10)
        ),
    ]
    scores = {score.id: score for score in model.score([whole, *ends])}
    assert all(isinstance(score, Score) and score.span_ok for score in scores.values()), scores
    joint = scores["whole"]
    assert "".join(joint.tokens).replace(" ", "").endswith("liveryes,onenodule")
    last, middle = scores["10"].logprobs, scores["6"].logprobs
    assert joint.logprobs[-len(last) :] == pytest.approx(last, abs=TOLERANCE)
    inner = joint.logprobs[: -len(last)][-len(middle) :]
    assert inner == pytest.approx(middle, abs=TOLERANCE)


def _quiet(parts: Sequence[ImageRef | Text]) -> list[ImageRef | Text]:
    return [Text(part.text) if isinstance(part, Text) else part for part in parts]


@pytest.mark.parametrize("family", ["qwen2_5_vl", "gemma3", "llava"])
def test_the_first_word_of_a_document_is_scored(family: str, tmp_path: Path) -> None:
    save(family, tmp_path)
    model = LocalModel.load(str(tmp_path), dtype="float32", device="cpu")
    words = ["liver", " and", " lung"]
    whole = Request("whole", tuple(Text(word, scored=True) for word in words), turn=False)
    first = Request("first", (Text(words[0], scored=True),), turn=False)
    scores = {score.id: score for score in model.score([whole, first])}
    joint, alone = scores["whole"], scores["first"]
    assert isinstance(joint, Score) and isinstance(alone, Score) and joint.span_ok
    assert "".join(joint.tokens) == "liver and lung" and "".join(alone.tokens) == "liver"
    assert joint.logprobs[: len(alone.logprobs)] == pytest.approx(alone.logprobs, abs=TOLERANCE)
