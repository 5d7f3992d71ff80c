"""Scores that somebody else produced: what is taken, and the sentence for what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from heldout.errors import InputError
from heldout.model import read_recorded, save_scores
from heldout.model.scoring import owner
from heldout.store import Run

ITEMS = ["a", "b", "c"]


def _row(identifier: str, **changed: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "benchmark_id": identifier,
        "model": "m",
        "tokens": ["x", "y"],
        "logprobs": [-1.0, -2.0],
        "mu": [-3.0, -3.5],
        "sigma": [1.0, 1.5],
        "sum_logprob": -3.0,
        "n_tokens": 2,
        "span_ok": True,
    }
    row.update(changed)
    return {key: value for key, value in row.items() if value is not None}


def _jsonl(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "scores.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_the_three_formats_give_the_same_table(tmp_path: Path) -> None:
    rows = [_row(name) for name in ("c", "a", "b")]  # in any order
    first = read_recorded(_jsonl(tmp_path, rows), ITEMS)
    pl.DataFrame(rows).write_parquet(tmp_path / "scores.parquet")
    cells = [
        {key: json.dumps(v) if isinstance(v, list) else v for key, v in row.items()} for row in rows
    ]
    pl.DataFrame(cells).write_csv(tmp_path / "scores.csv")
    for name in ("scores.parquet", "scores.csv"):
        assert read_recorded(tmp_path / name, ITEMS).table.equals(first.table)
    assert first.table.column("benchmark_id").to_pylist() == ITEMS
    assert first.models == ("m",)


def test_a_sum_alone_is_enough(tmp_path: Path) -> None:
    rows = [{"id": name, "sum_logprob": -2.5, "n_tokens": 3} for name in ITEMS]
    table = read_recorded(_jsonl(tmp_path, rows), ITEMS, model="gpt").table
    assert table.column("model").to_pylist() == ["gpt"] * 3
    assert table.column("logprobs").to_pylist() == [[], [], []]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"benchmark_id": "a"}, "row 2: the item 'a' was already scored for m in row 1"),
        ({"benchmark_id": "zz"}, "1 scored ids are not in this benchmark, 'zz'"),
        ({"benchmark_id": None}, "no item id; expected a column benchmark_id"),
        ({"logprobs": [-1.0, float("nan")]}, "logprobs holds nan; expected a finite number"),
        ({"sum_logprob": float("-inf")}, "minus infinity, a token of probability 0"),
        ({"logprobs": None, "sum_logprob": None, "tokens": None}, "cannot be scored"),
        ({"mu": [-1.0]}, "1 mu for 2 logprobs"),
        ({"sum_logprob": -9.0}, "the logprobs add up to -3"),
        ({"logprobs": [1.0, 0.2], "sum_logprob": None}, "not losses or probabilities"),
        ({"sigma": [1.0, -1.0]}, "negative sigma"),
        ({"n_tokens": 7}, "n_tokens is 7 with 2 logprobs"),
        ({"logprobs": "oops"}, "logprobs is not a JSON list"),
        ({"logprobs": {"a": 1}}, "expected a list, one per token"),
        ({"fingerprint": "deadbeef"}, "scored on revision deadbeef"),
        ({"span_ok": "perhaps"}, "expected true or false"),
        ({"model": None}, "no model is named"),
    ],
)
def test_what_is_wrong_is_said_with_its_row(
    tmp_path: Path, changed: dict[str, Any], told: str
) -> None:
    path = _jsonl(tmp_path, [_row("a"), _row("b", **changed), _row("c")])
    with pytest.raises(InputError) as caught:
        read_recorded(path, ITEMS, fingerprint="cafe1234")
    assert told in str(caught.value)


def test_missing_items_are_an_error_or_dropped_with_a_reason(tmp_path: Path) -> None:
    path = _jsonl(tmp_path, [_row("a")])
    with pytest.raises(InputError, match="2 of 3 items .*'b', 'c'"):
        read_recorded(path, ITEMS)
    dropped = read_recorded(path, ITEMS, allow_missing=True).dropped
    assert [(one.id, one.reason) for one in dropped] == [
        ("m/b", "no recorded score"),
        ("m/c", "no recorded score"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("scores.txt", "x", "not '.txt'"),
        ("scores.jsonl", "{", "scores.jsonl line 1: not JSON"),
        ("scores.jsonl", "[1]\n", "not an object"),
        ("scores.jsonl", "", "holds no scores"),
        ("scores.parquet", "x", "scores.parquet"),
        ("scores.csv", "id,model,sum_logprob\na,m,-1,9\n", "too many fields"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str, content: str, told: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError) as caught:
        read_recorded(tmp_path / name, ITEMS)
    assert told in str(caught.value)
    with pytest.raises(InputError, match="does not exist"):
        read_recorded(tmp_path / "gone.jsonl", ITEMS)


def test_a_second_import_replaces_its_own_models_and_keeps_the_others(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", command=["test"])
    rows = [_row(name, model=model) for model in ("m", "other") for name in ITEMS]
    save_scores(run, read_recorded(_jsonl(tmp_path, rows), ITEMS), identity={"dtype": "float32"})
    better = [_row("a", logprobs=[-0.1, -0.1], sum_logprob=-0.2)]
    again = read_recorded(_jsonl(tmp_path, better), ITEMS, allow_missing=True)
    save_scores(run, again)
    table = run.read_table("scores")
    assert table.column("model").to_pylist() == ["other"] * 3 + ["m"]
    assert run.read_table("dropped").num_rows == 2
    save_scores(run, again)
    assert run.read_table("dropped").num_rows == 2  # not counted twice
    assert run.manifest()["models"]["other"]["dtype"] == "float32"
    assert run.manifest()["models"]["m"]["backend"] == "recorded"


def test_losses_are_not_log_probabilities_in_sums_either(tmp_path: Path) -> None:
    rows = [{"id": name, "sum_logprob": 2.5, "n_tokens": 3, "model": "m"} for name in ITEMS]
    with pytest.raises(InputError, match=r"row 1: sum_logprob .*2\.5"):
        read_recorded(_jsonl(tmp_path, rows), ITEMS)


def test_what_a_file_says_of_its_instrument_is_part_of_the_identity(tmp_path: Path) -> None:
    rows = [
        _row(name, model=model, backend=backend, dtype=dtype)
        for model, backend, dtype in (("A", "vllm", "float16"), ("B", "transformers", "float32"))
        for name in ITEMS
    ]
    recorded = read_recorded(_jsonl(tmp_path, rows), ITEMS)
    assert recorded.instruments["A"] == {"backend": "recorded: vllm", "dtype": "float16"}
    rows[1]["dtype"] = "bfloat16"
    with pytest.raises(InputError, match=r"row 2: dtype .*'bfloat16'.*'float16'"):
        read_recorded(_jsonl(tmp_path, rows), ITEMS)
    plain = read_recorded(_jsonl(tmp_path, [_row(name) for name in ITEMS]), ITEMS)
    assert plain.instruments == {"m": {"backend": "recorded"}}


def test_rows_left_out_of_one_model_are_not_anothers_whose_name_begins_alike() -> None:
    assert owner("org/model/7", {"org", "org/model"}) == "org/model"
    assert owner("org/7", {"org", "org/model"}) == "org"
    assert owner("else/7", {"org"}) == ""


def test_new_scores_withdraw_what_was_said_of_the_old_ones(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", command=["test"])
    recorded = read_recorded(_jsonl(tmp_path, [_row(name) for name in ITEMS]), ITEMS)
    with run.writing():
        save_scores(run, recorded)
        run.write_json("detections.json", {"claims": [{"id": "order/m"}], "findings": []})
        run.write_json("claims.json", {"claims": [{"id": "order/m"}, {"id": "overlap/web"}]})
        save_scores(run, recorded)
    assert not (run.path / "detections.json").exists()
    assert run.read_json("claims.json")["claims"] == [{"id": "overlap/web"}]


def test_columns_are_those_of_every_file_of_predictions(tmp_path: Path) -> None:
    """As for `ask` and `impact`: other names, any case, and what the user says before all."""
    rows = [{"QID": name, "Model_Name": "m", "loglik": -2.5, "n_tokens": 3} for name in ITEMS]
    table = read_recorded(_jsonl(tmp_path, rows), ITEMS).table
    assert table.column("sum_logprob").to_pylist() == [-2.5] * 3
    named = [{**row, "better": -1.5} for row in rows]
    mapping = {"sum_logprob": "better"}
    table = read_recorded(_jsonl(tmp_path, named), ITEMS, mapping=mapping).table
    assert table.column("sum_logprob").to_pylist() == [-1.5] * 3
    with pytest.raises(InputError, match="no column 'worse'"):
        read_recorded(_jsonl(tmp_path, named), ITEMS, mapping={"sum_logprob": "worse"})


def test_a_file_without_a_column_of_models_names_the_model(tmp_path: Path) -> None:
    rows = [{name: value for name, value in _row(one).items() if name != "model"} for one in ITEMS]
    path = _jsonl(tmp_path, rows)
    assert read_recorded(path, ITEMS).models == (path.stem,)
    assert read_recorded(path, ITEMS, model="mine").models == ("mine",)
    path.write_text('{"id": "a", "prediction": "B"}\n')
    with pytest.raises(InputError, match="'logprobs'.*'sum_logprob'"):
        read_recorded(path, ITEMS)
