"""A real server with a tiny model: its scores are the model's own, whatever the network does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from endpoint_serving import ANSWERS, KEY, Server

from heldout.benchmark import Benchmark, read_benchmark
from heldout.detect import detectors, supported_detectors
from heldout.errors import InputError
from heldout.model.endpoint import Connection, Endpoint, EndpointError, Pace, probe
from heldout.model.item_scores import joint_request
from heldout.model.request import Request, Score, question_request
from heldout.store import Dropped

Connect = Callable[..., Connection]


@pytest.fixture(scope="module")
def items(bench: Path) -> Benchmark:
    return read_benchmark(str(bench))


def _score(endpoint: Endpoint, requests: list[Request]) -> dict[str, Score | Dropped]:
    return {one.id: one for one in endpoint.score(requests)}


def _truth(model: Any, processor: Any, request: Request) -> float:
    """The answer's log-probability by a plain forward of the saved model."""
    import torch

    asked = "".join(p.text for p in request.content if hasattr(p, "text") and not p.scored)
    prompt = f"<|user|><image>{asked}<|end|>\n<|assistant|>"
    images = [request.images[0].open().convert("RGB")]
    before = processor(text=prompt, images=images, return_tensors="pt")
    whole = processor(text=prompt + request.target, images=images, return_tensors="pt")
    with torch.inference_mode():
        logprobs = model(**whole).logits[0].log_softmax(-1)
    ids = whole["input_ids"][0]
    places = range(before["input_ids"].shape[1], len(ids))
    return float(sum(logprobs[place - 1, ids[place]] for place in places))


def test_chat_scores_are_the_models_own_and_only_of_the_answer(
    server: Server, connect: Connect, items: Benchmark
) -> None:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    folder = server.folder / "tiny-llava"
    loaded = (
        AutoModelForImageTextToText.from_pretrained(folder),
        AutoProcessor.from_pretrained(folder),
    )
    endpoint = Endpoint.open(connect(), "tiny-llava", dtype="float32")
    requests = [question_request(example) for example in items.examples[:7]]
    found = _score(endpoint, requests)
    for request in requests:
        score = found[request.id]
        assert isinstance(score, Score), score
        assert score.total == pytest.approx(_truth(*loaded, request), abs=1e-3)
    told = found["q2"]
    assert isinstance(told, Score)
    assert "".join(told.tokens) == ANSWERS[2]
    assert endpoint.identity["backend"] == "endpoint chat"


def test_a_document_is_scored_item_by_item(connect: Connect, items: Benchmark) -> None:
    endpoint = Endpoint.open(connect(), "tiny-text")
    both = joint_request("both", list(items.examples[:3]))
    score = _score(endpoint, [both])["both"]
    assert isinstance(score, Score), score
    assert "".join(score.tokens) == both.target
    assert score.span_ok


@pytest.mark.parametrize("how", ["busy", "plain"])
def test_retries_and_pace_change_nothing(connect: Connect, items: Benchmark, how: str) -> None:
    endpoint = Endpoint.open(connect(how, pace=Pace(500.0)), "tiny-llava", concurrency=8)
    requests = [question_request(example) for example in items.examples[:6]]
    found = _score(endpoint, requests)
    assert all(isinstance(score, Score) for score in found.values())


def test_inspect_names_every_detector_and_why_not(connect: Connect) -> None:
    def enabled(how: str, model: str) -> dict[str, bool]:
        return {
            one.detector: one.enabled for one in supported_detectors(probe(connect(how), model))
        }

    scored = {name for name, one in detectors().items() if one.needs == "scores"}
    assert set(enabled("plain", "tiny-llava")) == scored
    assert enabled("plain", "tiny-llava")["order-joint"]
    assert not enabled("plain", "tiny-llava")["min-k++"]
    assert not enabled("no-logprobs", "tiny-llava")["order-trend"]
    assert enabled("echo-only", "tiny-text")["order-trend"]
    told = {
        one.detector: one
        for one in supported_detectors(probe(connect("generated-only"), "tiny-text"))
    }
    assert "echo is not" in told["order-joint"].reason


def test_no_log_probabilities_is_one_sentence_with_what_to_do(connect: Connect) -> None:
    with pytest.raises(InputError, match="no log-probabilities.*vllm serve"):
        Endpoint.open(connect("no-logprobs"), "tiny-llava")


def test_pictures_are_refused_where_nobody_looks(connect: Connect, items: Benchmark) -> None:
    endpoint = Endpoint.open(connect("echo-only"), "tiny-llava")
    with pytest.raises(EndpointError, match="score .*with a picture"):
        _score(endpoint, [question_request(items.examples[0])])


def test_without_a_chat_template_an_answer_is_the_end_of_a_document(
    connect: Connect, items: Benchmark
) -> None:
    endpoint = Endpoint.open(connect("echo-only"), "tiny-text")
    request = question_request(items.examples[2], with_image=False)
    score = _score(endpoint, [request])["q2"]
    assert isinstance(score, Score)
    assert "".join(score.tokens).strip() == ANSWERS[2]
    assert endpoint.identity["backend"] == "endpoint completions"


def test_the_key_opens_and_is_told_to_nobody(connect: Connect) -> None:
    with pytest.raises(EndpointError, match="api_key_env") as refused:
        probe(connect("key", api_key="wrong-key-123"), "tiny-text")
    assert "wrong-key-123" not in str(refused.value)
    opened = connect("key", api_key=KEY)
    assert probe(opened, "tiny-text").chat.works
    assert KEY not in repr(opened)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("broken", "CUDA error"),
        ("moved", "redirects elsewhere"),
        ("garbage", "failed on 5 requests"),
    ],
)
def test_a_server_that_cannot_be_used_ends_with_a_sentence(
    connect: Connect, items: Benchmark, how: str, told: str
) -> None:
    with pytest.raises(InputError, match=told):
        endpoint = Endpoint.open(connect(how), "tiny-text", concurrency=1)
        requests = [question_request(example, with_image=False) for example in items]
        _score(endpoint, requests)


@pytest.mark.parametrize("url", ["localhost:8000", "file:///etc/passwd", "http://", "ftp://x/v1"])
def test_an_address_is_http(url: str) -> None:
    with pytest.raises(InputError, match="expected an address"):
        Connection(url)


def test_an_address_holds_no_secret() -> None:
    with pytest.raises(InputError, match="api_key_env") as refused:
        Connection("http://me:secret@host/v1")
    assert "secret" not in str(refused.value)
    assert Connection("http://host:8000/").url == "http://host:8000/v1"


def test_prompts_that_were_cut_and_scores_that_are_no_numbers_are_marked(
    connect: Connect, items: Benchmark
) -> None:
    request = question_request(items.examples[0])
    cut = _score(Endpoint.open(connect("cut"), "tiny-llava"), [request])["q0"]
    assert isinstance(cut, Score)
    assert cut.truncated
    strange = _score(Endpoint.open(connect("nan"), "tiny-llava"), [request])["q0"]
    assert isinstance(strange, Score)
    assert strange.total != strange.total
