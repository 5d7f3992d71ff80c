"""sanitize and impact as a stranger meets them."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from heldout.cli import main


class Told(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def heldout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Told]:
    """The command in this process: starting one for every call would take the suite minutes."""

    def call(*arguments: str | Path) -> Told:
        monkeypatch.setattr("sys.argv", ["heldout", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", "120")
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        code = ended.value.code
        return Told(code if isinstance(code, int) else 0, captured.out, captured.err)

    return call


def png(seed: int) -> bytes:
    buffer = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (16, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.fixture
def scanned(tmp_path: Path, heldout: Callable[..., Told]) -> Path:
    """test shares pictures 4 and 5 of 6 with train; both have two questions a picture."""
    (tmp_path / "images").mkdir()
    for number in range(10):
        (tmp_path / f"images/{number}.png").write_bytes(png(number))
    for split, numbers in (("test", range(6)), ("train", range(4, 10))):
        lines = [
            json.dumps(
                {
                    "id": f"{split}{n}{k}",
                    "image": f"{n}.png",
                    "question": f"{split} {k}?",
                    "answer": "a" * n + k,
                }
            )
            for n in numbers
            for k in "xy"
        ]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    done = heldout(
        "overlap",
        f"{tmp_path}#split=test",
        "--against",
        f"train={tmp_path}#split=train",
        "--out",
        tmp_path / "run",
        "--workers",
        "1",
        "--no-text",
    )
    assert done.returncode == 0, done.stderr
    return tmp_path


def test_sanitize_tells_what_it_did_and_check_agrees(
    scanned: Path, heldout: Callable[..., Told]
) -> None:
    test, train, out = f"{scanned}#split=test", f"{scanned}#split=train", scanned / "out"
    done = heldout("sanitize", test, "--run", scanned / "run", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "removed: image leaked" in done.stdout
    assert "caution: only 4 images" in done.stdout
    checked = heldout("check", out / "clean/test.jsonl", "--split-of", train, "--json")
    rules = {problem["rule"] for problem in json.loads(checked.stdout)["problems"]}
    assert "shared-images" not in rules
    again = heldout("sanitize", test, "--run", scanned / "run", "--out", scanned / "b", "--json")
    assert json.loads(again.stdout)["clean"]["items"] == 8


def test_resplit_shares_nothing(scanned: Path, heldout: Callable[..., Told]) -> None:
    done = heldout(
        "sanitize",
        f"{scanned}#split=test",
        "--resplit",
        f"{scanned}#split=train",
        "--out",
        scanned / "new",
    )
    assert done.returncode == 0, done.stderr
    assert "two splits share: 0" in done.stdout
    clean = scanned / "new/clean"
    checked = heldout(
        "check", f"{clean}#split=test", "--split-of", f"{clean}#split=train", "--json"
    )
    found = json.loads(checked.stdout)
    assert not {"shared-images", "shared-questions"} & {p["rule"] for p in found["problems"]}


def test_impact_prints_the_table_and_keeps_it(scanned: Path, heldout: Callable[..., Told]) -> None:
    rows = ["id,correct"] + [f"test{n}{k},{int(n > 2)}" for n in range(6) for k in "xy"]
    (scanned / "m.csv").write_text("\n".join([*rows, "nobody,1"]))
    done = heldout("impact", scanned / "m.csv", "--run", scanned / "run")
    assert done.returncode == 0, done.stderr
    summary = next(line.split() for line in done.stdout.splitlines() if line.startswith("m "))
    assert summary[:5] == ["m", "copies", "50.0", "of", "12"]
    assert (
        summary[-3:] == ["+25.0", "too", "few"] and "random" not in done.stdout.partition("all ")[0]
    )
    done = heldout("impact", scanned / "m.csv", "--run", scanned / "run", "--verbose")
    lines = [line.split() for line in done.stdout.splitlines()]
    leaked = next(line for line in lines if line[:1] == ["leaked"])
    assert leaked[1:5] == ["copy", "4", "2", "100.0"]
    assert leaked[-3:] == ["+50.0", "[too", "few]"]
    assert "few clusters leaked (2)" in done.stdout
    assert "unknown item 1" in done.stdout
    kept = json.loads((scanned / "run/impact-m.json").read_text())
    assert kept["impacts"][0]["owed"][0]["value"] == pytest.approx(6 / 12 - 2 / 8)
    printed = heldout("impact", scanned / "m.csv", "--run", scanned / "run", "--json")
    assert json.loads(printed.stdout) == kept


def test_impact_of_another_call_replaces_nothing(
    scanned: Path, heldout: Callable[..., Told]
) -> None:
    rows = ["id,correct,loglik"]
    rows += [f"test{n}{k},{int(n > 2)},{-n}" for n in range(6) for k in "xy"]
    (scanned / "m.csv").write_text("\n".join(rows))
    (scanned / "other").mkdir()
    (scanned / "other/m.csv").write_text("\n".join([rows[0], *rows[-8:]]))
    for more in ([], ["--metric", "loglik"], []):
        done = heldout("impact", scanned / "m.csv", "--run", scanned / "run", *more)
        assert done.returncode == 0, done.stderr
    done = heldout("impact", scanned / "other/m.csv", "--run", scanned / "run")
    assert done.stdout.split()[-1] == str(scanned / "run/impact-m-3.json")
    kept = {path.name: json.loads(path.read_text()) for path in (scanned / "run").glob("impact*")}
    assert sorted(kept) == ["impact-m-2.json", "impact-m-3.json", "impact-m.json"]
    assert kept["impact-m-2.json"]["call"]["metric"] == "loglik"
    assert kept["impact-m-3.json"]["impacts"][0]["items"] == 8
    named = scanned / "new/figures.json"
    heldout("impact", scanned / "m.csv", "--run", scanned / "run", "--out", named)
    assert json.loads(named.read_text()) == kept["impact-m.json"]
    assert len(list((scanned / "run").glob("impact*"))) == 3
    assert heldout("report", scanned / "run").returncode == 0
    page = (scanned / "run/report.html").read_text()
    assert "scores owe to leaks" in page
    assert all(f"<code>{name}</code>" in page for name in kept)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sanitize", "{0}#split=test", "--out", "{0}/out"], "heldout: --run: "),
        (
            [
                "sanitize",
                "{0}#split=test",
                "--run",
                "{0}/run",
                "--out",
                "{0}/out",
                "--policy",
                "hard",
            ],
            "--policy: expected",
        ),
        (
            ["sanitize", "{0}#split=test", "--run", "{0}/images", "--out", "{0}/out"],
            "run folder",
        ),
        (["sanitize", "{0}#split=train", "--run", "{0}/run", "--out", "{0}/out"], "was made for"),
        (["sanitize", "vqa-rad", "--run", "{0}/run", "--out", "{0}/out"], "comes from the hub"),
        (
            ["sanitize", "{0}#split=test", "--resplit", "{0}#split=test", "--out", "{0}/out"],
            "splits are called ",
        ),
        (
            [
                "sanitize",
                "{0}#split=test",
                "--resplit",
                "{0}#split=train",
                "--stratify",
                "organ",
                "--out",
                "{0}/out",
            ],
            "--stratify",
        ),
        (["impact", "{0}/gone.csv", "--run", "{0}/run"], "does not exist"),
        (
            [
                "sanitize",
                "{0}#split=test",
                "--run",
                "{0}/run",
                "--out",
                "{0}/out",
                "--weight",
                "0.3",
            ],
            "--weight 0.3: ",
        ),
        (
            ["sanitize", "{0}#split=test", "--run", "{0}/run", "--out", "{0}/out", "--text"],
            "--text: ",
        ),
        (
            ["overlap", "{0}#split=test", "--against", "{0}/run/nothing.jsonl", "--out", "{0}/out"],
            "nothing.jsonl is empty",
        ),
    ],
)
def test_bad_input_gets_a_sentence(
    scanned: Path, heldout: Callable[..., Told], arguments: list[str], told: str
) -> None:
    (scanned / "run/nothing.jsonl").touch()
    answer = heldout(*(part.format(scanned) for part in arguments))
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert told in " ".join(answer.stderr.split())
    assert "Traceback" not in answer.stderr
    assert not (scanned / "out").exists()
