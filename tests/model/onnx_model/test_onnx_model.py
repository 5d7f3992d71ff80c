"""The onnxruntime backend against the transformers one: same tokens, same numbers, same words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("transformers", reason="transformers is not installed")
pytest.importorskip("onnx", reason="onnx is not installed")
pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")

import torch
from exported import by_torch, make, pictures, requests

from command_line import run_forked
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.model.local.entropy import moments as torch_moments
from heldout.model.onnx import OnnxModel
from heldout.model.onnx.graphs import moments
from heldout.model.request import Prompt, Reply, Request, Score, Text
from heldout.store import Dropped

CLOSE = 1e-4
WITHOUT = "torch,transformers,onnx"


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make(tmp_path_factory.mktemp("onnx"))


@pytest.mark.parametrize(("sharing", "batch"), [(True, 10_000), (True, 40), (False, 10_000)])
def test_scores_are_those_of_the_torch_backend(
    folders: tuple[Path, Path], picture: Callable[..., bytes], sharing: bool, batch: int
) -> None:
    asked = requests(pictures(picture))
    expected = {one.id: one for one in by_torch(folders[0]).score(asked)}
    model = OnnxModel.load(folders[1], device="cpu", sharing=sharing, batch_tokens=batch)
    found = {one.id: one for one in model.score(asked)}
    assert found.keys() == expected.keys() == {one.id for one in asked}
    reasons = set()
    for name, theirs in expected.items():
        ours = found[name]
        if isinstance(theirs, Dropped):
            assert ours == theirs
            reasons.add(theirs.reason)
            continue
        assert isinstance(ours, Score)
        assert (ours.tokens, ours.span_ok) == (theirs.tokens, theirs.span_ok)
        for part in ("logprobs", "mu", "sigma"):
            assert getattr(ours, part) == pytest.approx(getattr(theirs, part), abs=CLOSE), name
    assert reasons == {"nothing to score", "special token in the text", "prompt too long"}
    assert len({one.total for one in found.values() if isinstance(one, Score)}) > 20
    assert model.count(asked) == by_torch(folders[0]).count(asked)
    assert model.tokens(asked[0]) == by_torch(folders[0]).tokens(asked[0])


@pytest.mark.parametrize("sharing", [True, False])
def test_replies_are_those_of_the_torch_backend(
    folders: tuple[Path, Path], picture: Callable[..., bytes], sharing: bool
) -> None:
    shown = pictures(picture)
    asked = [
        Prompt(Request(f"{n}/{question}", (one, Text(question))), 3)
        for n, one in enumerate(shown)
        for question in ("Is it grey?", "Is it white?", "which organ is shown?")
    ]
    asked += [
        Prompt(Request("none", (Text("Is there a mass?"),)), 2),
        Prompt(Request("late", (Text("A mass?"), shown[0], Text("x"))), 2),
        Prompt(Request("later", (Text("Which organ?"), shown[0], Text("x"))), 2),
    ]

    def replies(model: object) -> dict[str, Reply]:
        made = list(model.asker(6, logprobs=True).ask(asked, lambda _: None))  # type: ignore[attr-defined]
        return {one.id: one for one in made}

    expected = replies(by_torch(folders[0]))
    found = replies(OnnxModel.load(folders[1], device="cpu", sharing=sharing))
    assert found.keys() == expected.keys()
    for name, theirs in expected.items():
        ours = found[name]
        assert (ours.text, ours.finish, ours.prompt_tokens, ours.reply_tokens) == (
            theirs.text,
            theirs.finish,
            theirs.prompt_tokens,
            theirs.reply_tokens,
        )
        assert ours.choice_logprobs == pytest.approx(theirs.choice_logprobs, abs=CLOSE)
    assert len({one.text for one in found.values()}) > 3


def test_a_prompt_of_one_token_is_answered_like_a_longer_one(folders: tuple[Path, Path]) -> None:
    from heldout.model.local.layout import PictureInputs, Row

    passes = OnnxModel.load(folders[1], device="cpu")._forward
    ids = (5, 6, 7)
    prefix = passes.read(ids[:-1], PictureInputs())
    assert prefix is not None
    cache = passes.spread(prefix, 1)
    tokens = passes.likeliest(passes.step(cache, [ids[-1:]], 2, None))
    for place in range(3):
        tokens += passes.likeliest(passes.step(cache, [tokens[-1:]], 3 + place, None))
    whole, first = passes.generate(Row(ids, (), (), True), PictureInputs(), 4)
    assert whole == tokens[: len(whole)] and passes.likeliest(first[None]) == tokens[:1]


def test_entropies_are_those_of_the_torch_backend(
    folders: tuple[Path, Path], picture: Callable[..., bytes]
) -> None:
    asked = requests(pictures(picture))
    ours, theirs = (
        {r.id if isinstance(r, Dropped) else r[0]: r for r in model.entropies(asked)}
        for model in (OnnxModel.load(folders[1], device="cpu"), by_torch(folders[0]))
    )
    read = [name for name, result in theirs.items() if not isinstance(result, Dropped)]
    assert len(read) >= 24 and {"none", "long", "document"} <= theirs.keys() - set(read)
    for name in read:
        assert np.allclose(ours[name][1], theirs[name][1], atol=1e-4), name
    for name in theirs.keys() - set(read):
        assert isinstance(ours[name], Dropped) and ours[name].reason == theirs[name].reason


def test_moments_are_those_of_the_torch_backend() -> None:
    rng = np.random.default_rng(0)
    logits = (rng.normal(size=(6, 50)) * 4).astype(np.float32)
    logits[1, 7] = -np.inf
    logits[2] += 300
    logits[5, 3] = np.nan
    targets = [1, 2, 3, 4, 5, 6]
    theirs = torch.stack(torch_moments(torch.tensor(logits), torch.tensor(targets)), 1).numpy()
    assert np.allclose(moments(logits, targets), theirs, atol=1e-6, equal_nan=True)
    assert np.isnan(theirs[5]).all() and np.isfinite(theirs[:5]).all()


def write(folder: Path, picture: Callable[..., bytes], shift: int) -> Path:
    """Pictures of the model's own size, so that nobody resizes them."""
    folder.mkdir()
    rows = []
    for number in range(6):
        name = f"{number // 2}.png"
        (folder / name).write_bytes(picture(number // 2 + 10 * shift, (28, 28)))
        options = ["liver", "lung", "none of it"]
        rows.append(
            {
                "id": f"q{number}",
                "image": name,
                "question": f"which organ is shown? {number}",
                "options": options,
                "answer": options[(number + shift) % 3],
            }
        )
    path = folder / "bench.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_score_and_ask_write_the_same_tables(
    folders: tuple[Path, Path], tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    bench, twin = write(tmp_path / "a", picture, 0), write(tmp_path / "b", picture, 1)
    variants = f"rotation-all,no-image,no-question,slot,shuffle-1..2,confused-choices,twin={twin}"
    found = {}
    for name, model in (("torch", str(folders[0])), ("onnx", f"onnx:{folders[1]}")):
        run = str(tmp_path / name)
        common = [
            "--model",
            model,
            "--as",
            "m",
            "--out",
            run,
            "--dtype",
            "float32",
            "--device",
            "cpu",
        ]
        scored = CliRunner().invoke(
            app,
            [
                "score",
                str(bench),
                *common,
                "--options",
                "--order-neighbour",
                "--order-joint",
                "--budget",
                "3000",
                "--context",
                "200",
                "--interleaved",
                "--json",
            ],
        )
        assert scored.exit_code == 0, scored.exception or scored.output
        asked = CliRunner().invoke(
            app,
            [
                "ask",
                str(bench),
                *common,
                "--variants",
                variants,
                "--max-new-tokens",
                "3",
                "--json",
            ],
        )
        assert asked.exit_code == 0, asked.exception or asked.output
        made = json.loads(scored.stdout)["models"][0]
        found[name] = (
            made["rows"],
            [(check["name"], check["passed"]) for check in made["checks"]],
            json.loads(asked.stdout)["models"][0]["asked"],
        )
    assert found["onnx"] == found["torch"]
    for table in ("scores", "option_scores", "order_joint", "order_neighbour", "answers"):
        theirs, ours = (
            pl.read_parquet(tmp_path / name / f"tables/{table}.parquet")
            for name in ("torch", "onnx")
        )
        assert ours.columns == theirs.columns and len(ours) == len(theirs) > 0
        for column, kind in theirs.schema.items():
            left, right = ours[column], theirs[column]
            if isinstance(kind, pl.List) and kind.inner == pl.Float64:
                left, right = left.explode(), right.explode()
            if left.dtype == pl.Float64:
                tolerance = CLOSE * (
                    100 if table.startswith("order") else 10
                )  # sums of many tokens
                assert left.to_numpy() == pytest.approx(
                    right.to_numpy(), abs=tolerance, nan_ok=True
                )
            else:
                assert left.equals(right), (table, column)
    known = json.loads((tmp_path / "onnx/manifest.json").read_text())["models"]["m"]
    assert known["backend"] == "onnxruntime" and known["dtype"] == "float32"
    assert known["provider"] == "CPUExecutionProvider" and known["revision"].startswith("onnx ")
    assert known["source"].startswith("tiny files ")
    mixed = CliRunner().invoke(
        app,
        [
            "score",
            str(bench),
            "--model",
            f"onnx:{folders[1]}",
            "--as",
            "m",
            "--out",
            str(tmp_path / "torch"),
        ],
    )
    assert isinstance(mixed.exception, InputError) and "never compared" in str(mixed.exception)


def test_it_runs_where_torch_and_transformers_cannot_be_imported(
    folders: tuple[Path, Path], tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    bench = write(tmp_path / "a", picture, 0)
    common = [str(bench), "--model", f"onnx:{folders[1]}", "--out", str(tmp_path / "run"), "--json"]
    for verb in (["score", *common, "--options"], ["ask", *common, "--variants", "rotation-all"]):
        done = run_forked(*verb, without=WITHOUT)
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["models"][0]["model"] == "exported"
    other = ["--model", str(folders[0]), "--out", str(tmp_path / "other")]
    refused = run_forked("score", str(bench), *other, without=WITHOUT)
    assert refused.returncode == 3 and "pip install 'heldout[hf]'" in refused.stderr
