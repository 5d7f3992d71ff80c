"""LocalModel on bad input, on borders of tokens, and without what scoring does not need."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")

import safetensors.torch
import torch
from test_families import plain
from tiny_models import save

from heldout.benchmark import read_benchmark
from heldout.errors import InputError, PrerequisiteError
from heldout.image import FileOnDisk, ImageRef, InlineBytes
from heldout.model.local import LocalModel
from heldout.model.local.load import LoadedModel, load
from heldout.model.request import Request, Score, Text, question_request
from heldout.store import Dropped


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save("qwen2_5_vl", tmp_path_factory.mktemp("qwen"))


@pytest.fixture
def loaded(folder: Path) -> LoadedModel:
    return load(str(folder), revision=None, dtype="float32", device="cpu", trust_remote_code=False)


@pytest.fixture
def shown(picture: Callable[..., bytes]) -> ImageRef:
    return ImageRef("a.png", InlineBytes(picture(0, (60, 44)), "a.png"))


def ask(identifier: str, *content: ImageRef | str, answer: str = "yes") -> Request:
    parts = [Text(part) if isinstance(part, str) else part for part in content]
    return Request(identifier, (*parts, Text(answer, scored=True)))


def test_what_cannot_be_scored_is_dropped_with_its_reason(
    loaded: LoadedModel, shown: ImageRef, picture: Callable[..., bytes], tmp_path: Path
) -> None:
    thin = ImageRef("thin", InlineBytes(picture(1, (2000, 2)), "thin"))
    asked = [
        ask("good", shown, "Is there a mass?"),
        ask("empty", shown, "Is there a mass?", answer=" "),
        ask("missing", ImageRef("b.png", FileOnDisk(str(tmp_path / "b.png"))), "Is it?"),
        ask("broken", ImageRef("c.png", InlineBytes(b"no picture", "c.png")), "Is it?"),
        ask("thin", thin, "Is it?"),
        ask("special", shown, "What does <|im_end|> mean?"),
        ask("in two parts", shown, "What does <|im_", "end|> mean?"),
        ask("half a character", shown, "What is \ud83d?"),
        ask("placeholder", shown, "Is it?", answer="<|image_pad|>"),
        ask("long", shown, "mass " * 600),
        ask("also good", shown, "Is there a nodule?"),
    ]
    given = {one.id: one for one in LocalModel(loaded, "tiny").score(asked)}
    assert given.keys() == {one.id for one in asked}
    reasons = {one.id: one.reason for one in given.values() if isinstance(one, Dropped)}
    assert reasons == {
        "empty": "nothing to score",
        "missing": "missing image",
        "broken": "not an image",
        "thin": "picture not processed",
        "special": "special token in the text",
        "in two parts": "special token in the text",
        "half a character": "not Unicode text",
        "placeholder": "special token in the text",
        "long": "prompt too long",
    }
    assert all(one.stage == "score" for one in given.values() if isinstance(one, Dropped))
    long = given["long"]
    assert isinstance(long, Dropped) and "the model reads 512" in long.detail


def test_counts_are_what_the_processor_gives(loaded: LoadedModel, shown: ImageRef) -> None:
    request = ask("a", shown, "Is there a mass?")
    text = loaded.processor.apply_chat_template(
        [
            {
                "role": "user",
                "content": [{"type": "image"}, {"type": "text", "text": "Is there a mass?"}],
            }
        ],
        add_generation_prompt=True,
    )
    whole = loaded.processor(text=[text + "yes"], images=[shown.open()])["input_ids"][0]
    broken = ask("b", ImageRef("c", InlineBytes(b"", "c")), "x")
    assert LocalModel(loaded, "tiny").count([request, broken, request]) == [
        len(whole),
        0,
        len(whole),
    ]


def test_a_picture_is_looked_at_once(loaded: LoadedModel, shown: ImageRef) -> None:
    looks = []
    loaded.model.model.visual.register_forward_hook(lambda *_: looks.append(1))
    asked = [ask(f"{n}", shown, f"Is there a mass {n}?") for n in range(9)]
    model = LocalModel(loaded, "tiny", batch_tokens=60)
    assert len(list(model.score(asked))) == 9
    assert len(looks) == 1


def test_options_of_one_question_are_scored_as_if_alone(
    loaded: LoadedModel, shown: ImageRef
) -> None:
    answers = ["yes", "no", "none of these", "no", "y"]
    asked = [ask(f"{n}", shown, "Is it?", answer=answer) for n, answer in enumerate(answers)]
    together = {one.id: one for one in LocalModel(loaded, "tiny").score(asked)}
    for request in asked:
        (alone,) = LocalModel(loaded, "tiny").score([request])
        shared = together[request.id]
        assert isinstance(alone, Score) and isinstance(shared, Score)
        assert shared.tokens == alone.tokens
        assert shared.logprobs == pytest.approx(alone.logprobs, abs=1e-3)


def test_rows_of_a_family_without_prefixes_share_one_look(tmp_path: Path, shown: ImageRef) -> None:
    save("paligemma", tmp_path)
    model = LocalModel.load(str(tmp_path), device="cpu")
    batches = []
    tower = model._forward._model.model.vision_tower
    tower.embeddings.register_forward_hook(lambda _m, _i, out: batches.append(len(out)))
    assert len(list(model.score([ask(f"{n}", shown, "x") for n in range(4)]))) == 4
    assert batches == [1]


def test_only_scored_places_go_through_the_head(loaded: LoadedModel, shown: ImageRef) -> None:
    lines = []
    loaded.model.lm_head.register_forward_hook(
        lambda _m, _i, out: lines.append(out[..., 0].numel())
    )
    asked = [ask(f"{n}", shown, f"Is there a mass {n}?") for n in range(4)]
    scores = list(LocalModel(loaded, "tiny").score(asked))
    assert sum(lines) == sum(len(one.logprobs) for one in scores if isinstance(one, Score)) > 0


def test_out_of_memory_halves_the_batch(loaded: LoadedModel, shown: ImageRef) -> None:
    asked = [ask(f"{n}", shown, f"Is there a mass {n}?") for n in range(7)]
    asked += [ask(f"text {n}", f"Is there a mass {n}?") for n in range(3)]
    expected = {one.id: one for one in LocalModel(loaded, "tiny").score(asked)}
    layer = loaded.model.model.language_model.layers[0]
    rows = []

    def full(_module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hidden = args[0] if args else kwargs["hidden_states"]
        if len(hidden) > 2:
            raise torch.OutOfMemoryError("no room")
        rows.append(len(hidden))

    hook = layer.register_forward_pre_hook(full, with_kwargs=True)
    given = {one.id: one for one in LocalModel(loaded, "tiny").score(asked)}
    hook.remove()
    assert max(rows) == 2
    for identifier, one in expected.items():
        other = given[identifier]
        assert isinstance(one, Score) and isinstance(other, Score)
        assert other.logprobs == pytest.approx(one.logprobs, abs=1e-3)

    def never(*_: Any) -> None:
        raise torch.OutOfMemoryError("no room")

    hook = layer.register_forward_pre_hook(never)
    reasons = [
        one.reason for one in LocalModel(loaded, "tiny").score(asked) if isinstance(one, Dropped)
    ]
    hook.remove()
    assert reasons == ["out of memory"] * 10


def test_logits_that_are_not_numbers_are_no_score(folder: Path, shown: ImageRef) -> None:
    broken = load(
        str(folder), revision=None, dtype="float32", device="cpu", trust_remote_code=False
    )
    with torch.no_grad():
        broken.model.lm_head.weight[5] = torch.nan
    (given,) = LocalModel(broken, "tiny").score([ask("a", shown, "Is it?")])
    assert isinstance(given, Dropped) and given.reason == "not finite" and "dtype" in given.detail


def test_an_answer_of_probability_0_has_a_reason_of_its_own(loaded: Any, shown: ImageRef) -> None:
    def impossible(_: object, __: object, logits: Any) -> Any:
        return torch.cat([logits[..., :1], torch.full_like(logits[..., 1:], -torch.inf)], -1)

    hook = loaded.model.lm_head.register_forward_hook(impossible)
    (given,) = LocalModel(loaded, "tiny").score([ask("a", shown, "Is it?")])
    hook.remove()
    assert isinstance(given, Dropped) and given.reason == "probability 0"


@pytest.mark.parametrize(
    ("family", "start", "clean"), [("qwen2_5_vl", "\n", True), ("llava", ":", False)]
)
def test_tokens_across_the_border_of_prompt_and_answer(
    family: str, start: str, clean: bool, tmp_path: Path, shown: ImageRef
) -> None:
    save(family, tmp_path, split=False)
    loaded = load(
        str(tmp_path), revision=None, dtype="float32", device="cpu", trust_remote_code=False
    )
    asked = [ask("a", shown, "Is there a mass?"), ask("b", shown, "Which?", answer="no")]
    for given, request in zip(LocalModel(loaded, "tiny").score(asked), asked, strict=True):
        assert isinstance(given, Score) and given.id == request.id
        assert start in given.tokens[0]
        assert given.span_ok is clean
        theirs = [line[0] for line in plain(family, loaded.model, loaded.processor, request)]
        assert given.logprobs == pytest.approx(theirs, abs=1e-3)


def test_real_questions_on_real_pictures(loaded: LoadedModel, shared_data: Path) -> None:
    benchmark = read_benchmark(f"{shared_data}/slake/official_test.json#q_lang=en")
    asked = [question_request(example) for example in benchmark.examples[:40]]
    scores = list(LocalModel(loaded, "tiny").score(asked))
    assert all(isinstance(one, Score) and one.span_ok for one in scores), scores
    answers = {request.id: request.target for request in asked}
    for one in scores:
        assert isinstance(one, Score)
        assert "".join(one.tokens) == answers[one.id]
    assert len({one.total for one in scores if isinstance(one, Score)}) == 40


def test_identity_changes_with_weights_dtype_and_chat_template(
    folder: Path, tmp_path: Path
) -> None:
    first = LocalModel.load(str(folder), device="cpu").identity
    assert first == LocalModel.load(str(folder), device="cpu").identity
    assert first["backend"] == "transformers" and first["template"] == "heldout-question/1"
    assert str(folder.parent) not in json.dumps(dict(first))
    half = LocalModel.load(str(folder), device="cpu", dtype="bfloat16").identity
    assert half["dtype"] == "bfloat16" != first["dtype"]
    other = load(str(folder), revision=None, dtype="float32", device="cpu", trust_remote_code=False)
    with torch.no_grad():
        other.model.lm_head.weight += 1
    other.model.save_pretrained(tmp_path)
    other.processor.chat_template += " "
    other.processor.save_pretrained(tmp_path)
    changed = LocalModel.load(str(tmp_path), device="cpu").identity
    assert changed["revision"] != first["revision"] and changed["form"] != first["form"]


def test_half_precision_stays_near_single(folder: Path, shown: ImageRef) -> None:
    asked = [ask(f"{n}", shown, f"Is there a mass {n}?") for n in range(3)]
    single = LocalModel.load(str(folder), device="cpu", dtype="float32").score(asked)
    half = LocalModel.load(str(folder), device="cpu", dtype="bfloat16").score(asked)
    for one, other in zip(single, half, strict=True):
        assert isinstance(one, Score) and isinstance(other, Score)
        assert other.total == pytest.approx(one.total, abs=0.5)


REMOTE = """
from transformers import LlavaConfig, LlavaForConditionalGeneration

class TinyConfig(LlavaConfig):
    model_type = "tiny_of_its_own"

class TinyModel(LlavaForConditionalGeneration):
    config_class = TinyConfig
"""


def test_code_of_the_checkpoint_runs_only_when_trusted(tmp_path: Path, shown: ImageRef) -> None:
    folder = save("llava", tmp_path / "remote")
    native = load(str(folder), revision=None, dtype="auto", device="cpu", trust_remote_code=False)
    known = list(LocalModel(native, "tiny").score([ask("a", shown, "Is it?")]))
    config = json.loads((folder / "config.json").read_text())
    config["model_type"] = "tiny_of_its_own"
    doors = {"AutoConfig": "TinyConfig", "AutoModelForCausalLM": "TinyModel"}
    config["auto_map"] = {door: f"modeling_tiny.{name}" for door, name in doors.items()}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "modeling_tiny.py").write_text(REMOTE)
    with pytest.raises(InputError, match="trust_remote_code"):
        LocalModel.load(str(folder), device="cpu")
    # The weights carry names that only transformers' own class translates: they are not found.
    with pytest.raises(InputError, match=r"\b1 of .*lm_head\.weight"):
        LocalModel.load(str(folder), device="cpu", trust_remote_code=True)
    weights = {name: weight.contiguous() for name, weight in native.model.state_dict().items()}
    safetensors.torch.save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    model = LocalModel.load(str(folder), device="cpu", trust_remote_code=True)
    (score,), (other,) = model.score([ask("a", shown, "Is it?")]), known
    assert isinstance(score, Score) and isinstance(other, Score)
    assert score.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert model.identity["remote_code"].startswith("modeling_tiny.py sha256:")
    assert "remote_code" not in LocalModel(native, "tiny").identity


def test_a_checkpoint_that_cannot_be_used_is_an_input_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        LocalModel.load(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="endpoint"):
        LocalModel.load("http://localhost:8000/v1")
    (tmp_path / "hollow").mkdir()
    with pytest.raises(InputError, match="^model "):
        LocalModel.load(str(tmp_path / "hollow"))
    with pytest.raises(InputError, match="^dtype int8: "):
        LocalModel.load(str(folder), dtype="int8")
    with pytest.raises(InputError, match="^device "):
        LocalModel.load(str(folder), device="nonsense")
    blind = save("llava", tmp_path / "blind")
    for file in ("processor_config.json", "preprocessor_config.json"):
        (blind / file).unlink(missing_ok=True)
    with pytest.raises(InputError, match="no image processor"):
        LocalModel.load(str(blind))
    mute = save("llava", tmp_path / "mute")
    (mute / "tokenizer.json").unlink()
    with pytest.raises(InputError, match=r"tokenizer .*tokenizer\.json"):
        LocalModel.load(str(mute))


def test_a_checkpoint_without_a_chat_template_is_asked_in_a_plain_form(
    tmp_path: Path, shown: ImageRef
) -> None:
    folder = save("gemma3", tmp_path / "base")
    (folder / "chat_template.jinja").unlink()
    model = LocalModel.load(str(folder), device="cpu")
    assert model.identity["form"] == "Question: {} Answer:"
    request = ask("a", shown, "Is it?")
    (score,) = model.score([request])
    assert isinstance(score, Score) and score.span_ok and "".join(score.tokens).strip() == "yes"
    assert "".join(model.tokens(request)).endswith("Question: Is it? Answer: yes")


def test_smolvlm_names_the_package_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = save("smolvlm", tmp_path / "smolvlm")
    monkeypatch.setattr("transformers.models.smolvlm.processing_smolvlm.num2words", None)
    with pytest.raises(PrerequisiteError, match=r"num2words.*pip install 'heldout\[hf\]'"):
        LocalModel.load(str(folder), device="cpu")


def test_weights_that_are_cut_short_are_told_in_a_sentence(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "cut")
    weights = tmp_path / "cut" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    with pytest.raises(InputError, match="cut"):
        LocalModel.load(str(tmp_path / "cut"), device="cpu")


LIGHT = """
import sys
for name in ("polars", "pydantic", "typer", "rich", "faiss"):
    sys.modules[name] = None
from heldout.model.local import LocalModel
from heldout.model.request import question_request
from heldout.model.request import Request
print("fine")
"""


def test_scoring_imports_no_table_or_command_line_library() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, check=False
    )
    assert done.stdout == "fine\n", done.stderr


def test_entropies_of_picture_question_and_answer(loaded: LoadedModel, shown: ImageRef) -> None:
    """The picture comes first, so that its entropies know nothing of the question; a text has none."""
    model = LocalModel(loaded, "tiny")
    asked = [
        ask("mass", shown, "Is there a mass?"),
        ask("node", shown, "Is there any nodule to be seen?"),
        ask("text", "Is there a mass?"),
    ]
    results = list(model.entropies(asked))
    values = dict(result for result in results if not isinstance(result, Dropped))
    (dropped,) = (result for result in results if isinstance(result, Dropped))
    assert dropped.id == "text" and values.keys() == {"mass", "node"}
    image, question, answer = values["mass"]
    assert image == pytest.approx(values["node"][0], rel=1e-4)
    assert question[1, 2] != pytest.approx(values["node"][1, 1, 2], rel=1e-6)
    # Order 1 at the answer's places is what a score keeps as mu.
    (score,) = model.score(asked[:1])
    assert isinstance(score, Score)
    assert answer[1, 2] == pytest.approx(-sum(score.mu) / len(score.mu), rel=1e-4)
