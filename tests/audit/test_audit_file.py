"""audit.yaml: every mistake is named with its line, what was meant, and what there is."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from heldout.audit.audit_file import parse_gate, shut
from heldout.audit.cases import open_cases
from heldout.audit.reader import read_audit
from heldout.detect import Cell, DetectSettings, detectors
from heldout.errors import InputError
from heldout.model import parse_variants
from heldout.overlap import OverlapSettings
from heldout.stats import Interval
from heldout.store import empty_table
from heldout.verdict import Claim
from heldout.verdict.overall import BenchmarkVerdict, CellVerdict, LeakRate, Overall

GOOD = """\
benchmarks:
  - name: bench
    source: bench.jsonl
corpora:
  - {name: web, source: web}
models:
  - {name: tested, scores: tested.jsonl}
  - {name: clean, scores: clean.jsonl}
baselines: [clean]
"""
SERVED = GOOD.replace(
    "{name: tested, scores: tested.jsonl}",
    "{name: tested, endpoint: {url: http://h/v1, timeout: 9}}",
)
BOMB = "x: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{new}: &{new} [{','.join([f'*{old}'] * 10)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


def _read(folder: Path, text: str) -> str:
    path = folder / "audit.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_audit(path)
    return str(error.value)


def test_a_good_file_is_read_and_its_folder_found(tmp_path: Path) -> None:
    (tmp_path / "audit.yaml").write_text(GOOD + "permutations: 99\n")
    (tmp_path / "bench.jsonl").write_text("")
    audit = read_audit(tmp_path)
    assert audit.file.baselines == ["clean"]
    assert audit.located("bench.jsonl#split=test") == f"{tmp_path / 'bench.jsonl'}#split=test"
    assert audit.located("vqa_rad") == "vqa_rad"  # a preset, not a path
    assert audit.output == tmp_path / "audit"


@pytest.mark.parametrize(
    ("wrong", "line", "told"),
    [
        (GOOD.replace("corpora:", "corpara:"), 4, "mean 'corpora'?"),
        (GOOD.replace("    source: bench", "    sorce: bench"), 3, "mean 'source'?"),
        (GOOD.replace("scores: tested", "score: tested"), 7, "mean 'scores'?"),
        (GOOD.replace("[clean]", "[claen]"), 9, "mean 'clean'?"),
        (GOOD + "search: {encodr: pixels}\n", 10, "mean 'encoder'?"),
        (GOOD + "search: {encoder: pixels, degrees: hard=2}\n", 10, "two similarities"),
        (GOOD + "search: {degrees: published, encoder: none}\n", 10, "search.degrees: "),
        (GOOD + "search: {alpha: 0.7}\n", 10, "search.alpha: "),
        (GOOD + "search: {encoder: pixl}\n", 10, "encoder 'pixl'"),
        (GOOD + "search: {text_encoder: nobody}\n", 10, "encoder 'nobody'"),
        (GOOD + "permutations: 98\n", 10, "not below 99"),
        (SERVED.replace("timeout: 9", "timeout: -1"), 7, "models[1].endpoint.timeout: "),
        (SERVED.replace("timeout: 9", "timeuot: 9"), 7, "mean 'timeout'?"),
        (SERVED.replace("timeout: 9", "api_key_env: sk-1 2"), 7, "api_key_env: "),
        (GOOD + "search:\n  encoder: pixels\n  exact: true\n", 12, "search.exact: "),
        (GOOD + "search:\n  judge: http://h/v1\n  text: false\n", 11, "search.judge: "),
        (GOOD + "search:\n  judge: {url: http://h/v1, modle: m}\n", 11, "mean 'model'?"),
        (GOOD + "budget: {items: 0}\n", 10, "not below 1"),
        (GOOD + "budget: {items: ten}\n", 10, "whole number"),
        (GOOD + "detectors: [order-tend]\n", 10, "mean 'order-trend'?"),
        (GOOD + "fail_on: [leaks]\n", 10, "leak-rate>SHARE"),
        (GOOD + "seed: 1\nseed: 2\n", 11, "in line 10 already"),
        (
            GOOD.replace("scores: tested.jsonl", "local: t, variants: rotatoin-all"),
            7,
            "rotation-all",
        ),
        (GOOD.replace("scores: tested.jsonl", "local: t, variants: twin=x.jsonl"), 7, "key twins"),
        (GOOD.replace("name: bench", "name: no"), 2, "write it in quotes"),
        (GOOD.replace("name: clean", "name: tested"), 8, "called 'tested'"),
        (GOOD.replace("{name: clean, scores: clean.jsonl}", "{name: clean}"), 8, "it has none"),
        (GOOD + "controls:\n  - {name: p, source: p, domain: in-domain}\n", 10, "search.encoder"),
        (
            GOOD.replace("source: bench.jsonl", "source: bench.jsonl\n    against: [wbe]"),
            4,
            "'web'",
        ),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, wrong: str, line: int, told: str) -> None:
    message = _read(tmp_path, wrong)
    assert f"audit.yaml, line {line}:" in message
    assert told in message


def test_bounds_are_said_in_the_same_words_in_python() -> None:
    with pytest.raises(InputError, match=r"^alpha: .*\b0\.5\b.*\b0\.7$"):
        OverlapSettings.read({"alpha": 0.7})
    with pytest.raises(InputError, match=r"^permutations: .*\b99\b.*\b98$"):
        DetectSettings.read({"permutations": 98})


def test_a_named_detector_s_variants_are_asked_for_beside_the_model_s_own(tmp_path: Path) -> None:
    row = {"id": "1", "question": "q?", "options": ["a", "b"], "answer": "a"}
    (tmp_path / "bench.jsonl").write_text(json.dumps(row) + "\n")
    served = "{name: tested, endpoint: {url: http://h/v1}, variants: original}"
    name, asks = next((name, d.asks) for name, d in detectors().items() if d.asks)
    text = f"benchmarks: [{{name: bench, source: bench.jsonl}}]\nmodels: [{served}]\n"
    for listed in ("", f"detectors: [{name}]\n"):
        (tmp_path / "audit.yaml").write_text(text + listed)
        (case,) = open_cases(read_audit(tmp_path))
        asked = [variant.name for variant in case.recordings[0].variants]
        wanted = {variant.name for variant in parse_variants(asks)} if listed else set()
        assert set(asked) == {"original"} | wanted and len(asked) == len(set(asked))


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    message = _read(tmp_path, GOOD.replace("corpora:", "corpara:") + "sead: 3\n")
    assert "line 4" in message
    assert "line 10" in message
    gate = _read(tmp_path, GOOD.replace("corpora:", "corpara:") + "fail_on: [survive]\n")
    assert "line 4" in gate and "line 10" in gate and "survive" in gate


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty"),
        ("- 1\n", "expected keys"),
        ("a: [1\n", "is not YAML"),
        ("a: !!python/object/apply:os.system ['true']\n", "is not YAML"),
        ("a: 2024-99-99\n", "no key 'a'"),
        ("a: &a {<<: {b: 1}}\n<<: [*a, *a]\nbenchmarks: 3\n", "line 1: keys are not merged"),
        (BOMB, "aliases"),
    ],
)
def test_what_is_no_audit_file_is_refused_with_a_sentence(
    tmp_path: Path, text: str, told: str
) -> None:
    assert told in _read(tmp_path, text)


def test_a_file_that_is_not_there_is_told_how_to_be_made(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--init"):
        read_audit(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("text", "most"), [("survives", None), ("leak-rate>0.01", 0.01), ("leak-rate > 5%", 0.05)]
)
def test_gates_are_parsed(text: str, most: float | None) -> None:
    assert parse_gate(text).most == most


def test_a_share_above_one_is_no_share() -> None:
    with pytest.raises(InputError, match="less than 1"):
        parse_gate("leak-rate>5")


def test_nearness_fires_no_gate_and_a_rate_is_of_one_corpus() -> None:
    def cell(id: str, leaked: int) -> CellVerdict:
        claim = Claim(
            id=id,
            cell=Cell(benchmark="b", corpus="web"),
            sentence="s",
            status="survives",
            why="w",
            findings=[],
        )
        rate = LeakRate(leaked, 100, Interval(0.0, 1.0, 0.95, "none"))
        return CellVerdict(claim.cell, "survives", [claim], rate)

    def fired(one: CellVerdict, gate: str) -> list[str]:
        verdict = BenchmarkVerdict("b", "run", [one], pl.DataFrame(empty_table("leaks")), {})
        return shut(Overall([verdict], [], {}), [parse_gate(gate)])

    assert fired(cell("nearness/web", 0), "survives") == []
    assert fired(cell("overlap/web", 3), "survives") == ["fail-on survives: b × web: overlap/web"]
    assert fired(cell("overlap/web", 3), "leak-rate>0.03") == []
    assert "3 of 100 items leaked (3.00 %)" in fired(cell("overlap/web", 3), "leak-rate>2%")[0]
