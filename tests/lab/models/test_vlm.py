"""The small model is an ordinary checkpoint: the product's backend loads it and reads the same numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from small_models import tokenizer  # noqa: E402

from heldout.lab.models._reading import embed, head, look, read  # noqa: E402
from heldout.lab.models.vlm import MEDIUM, SMALL, TOY, new_model, new_processor, save_model  # noqa: E402
from heldout.model.local import LocalModel  # noqa: E402
from heldout.model.request import Request, Score, Text  # noqa: E402


def _picture(seed: int = 0) -> Image.Image:
    side = TOY.picture
    return Image.fromarray(
        np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    )


def test_plain_tensors_give_the_logits_of_the_transformers_model() -> None:
    model, processor = new_model(TOY, tokenizer(), 3), new_processor(TOY, tokenizer())
    text = "Question: What colour is the star? Answer: red"
    given = processor(text=[f"<image>{text}"], images=[_picture()], return_tensors="pt")
    ids = tokenizer()(text, return_tensors="pt")["input_ids"]
    pixels = torch.from_numpy(np.asarray(_picture()).transpose(2, 0, 1).copy())[None]
    with torch.no_grad():
        whole = model(**given).logits
        ours = head(model, read(model, embed(model, ids, look(model, pixels))))
    assert whole.shape == ours.shape
    assert (whole - ours).abs().max() < 1e-5


def test_a_seed_gives_the_same_weights_and_another_seed_does_not() -> None:
    one, same, other = (new_model(TOY, tokenizer(), seed).state_dict() for seed in (1, 1, 2))
    assert all((one[name] == same[name]).all() for name in one)
    name = "model.language_model.embed_tokens.weight"
    assert (one[name] != other[name]).any()


def test_three_small_checkpoints_weigh_less_than_twelve_megabytes() -> None:
    model = new_model(SMALL, tokenizer(), 0)
    learnt = sum(weight.numel() for weight in model.parameters())
    full = learnt + (1280 - len(tokenizer())) * SMALL.width  # with the standing vocabulary
    assert full > 1_500_000 and 3 * 2 * full < 12_000_000


def test_the_grids_models_have_three_million_weights() -> None:
    model = new_model(MEDIUM, tokenizer(), 0)
    learnt = sum(weight.numel() for weight in model.parameters())
    assert 3_000_000 < learnt + (1280 - len(tokenizer())) * MEDIUM.width < 15_000_000


def test_the_products_backend_opens_a_saved_model(tmp_path: Path) -> None:
    model = new_model(TOY, tokenizer(), 5)
    save_model(tmp_path / "toy", model, TOY, tokenizer(), half=False)
    local = LocalModel.load(str(tmp_path / "toy"), device="cpu")
    request = Request("1", (Text("How many stars are there?"), Text("2", scored=True)))
    (score,) = local.score([request])
    assert isinstance(score, Score) and score.span_ok
    assert "".join(score.tokens).strip() == "2"
    ids = tokenizer()("Question: How many stars are there? Answer: 2", return_tensors="pt")
    with torch.no_grad():
        logits = head(model, read(model, embed(model, ids["input_ids"], None)))[0]
    wanted = logits[-2].log_softmax(-1)[ids["input_ids"][0, -1]]
    assert score.logprobs[-1] == pytest.approx(float(wanted), abs=1e-4)
