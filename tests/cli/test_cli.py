"""The command line as a stranger meets it: output, JSON, exit codes, complaints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from command_line import run_forked, run_inside
from heldout.cli.app import VERBS
from heldout.overlap.images.lanczos import is_compiled

Picture = Callable[..., bytes]


def heldout(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "heldout", *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "120"},
        check=False,
    )


@pytest.fixture
def bench(tmp_path: Path, picture: Picture) -> Path:
    folder = tmp_path / "bench"
    for split, numbers in (("test", range(6)), ("train", range(4, 12))):
        rows = []
        for number in numbers:
            (folder / "images").mkdir(parents=True, exist_ok=True)
            (folder / f"images/{number}.png").write_bytes(picture(number))
            rows.append(
                {
                    "id": f"{split}{number}",
                    "image": f"{number}.png",
                    "question": f"What is {number}?",
                    "answer": "a" * (number + 1),
                }
            )
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_every_verb_has_help_with_an_example() -> None:
    top = heldout("--help")
    assert top.returncode == 0
    for verb in VERBS:
        assert f" {verb.name} " in top.stdout
        told = run_inside(verb.name, "--help")
        assert told.returncode == 0
        names = [verb.name]
        if " Commands " in told.stdout:  # a group: its verbs have the examples
            group = cast(Any, verb.load()).commands
            assert group
            names = [f"{verb.name} {name}" for name in group]
        for name in names:
            page = run_inside(*name.split(), "--help").stdout
            assert f"Example: heldout {name} " in " ".join(page.split()), name
    said = heldout("--version").stdout
    assert said.startswith("heldout 0.")
    assert ("sums of hashes" in said) == is_compiled()


def test_a_verb_loads_what_it_needs_and_the_list_of_verbs_nothing() -> None:
    code = (
        "import sys\nfrom heldout.cli import main\nsys.argv = ['heldout', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'polars', 'scipy', 'pyarrow', 'heldout.overlap'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_misspelt_verb_gets_the_name_that_was_meant() -> None:
    done = run_inside("overlpa")
    assert done.returncode == 2
    assert "'overlap'" in done.stderr


def test_check_prints_a_table_and_exits_by_what_it_found(bench: Path) -> None:
    clean = run_inside("check", f"{bench}#split=test")
    assert clean.returncode == 0, clean.stderr
    assert "6 items on 6 images" in clean.stdout
    leaky = run_inside("check", f"{bench}#split=test", "--split-of", f"{bench}#split=train")
    assert leaky.returncode == 1
    assert "2 of the 6 images (33.3 %)" in " ".join(leaky.stdout.split())


def test_json_is_the_only_thing_on_standard_output(bench: Path, tmp_path: Path) -> None:
    checked = run_inside("check", f"{bench}#split=test", "--json")
    assert json.loads(checked.stdout)["ok"] is True
    scanned = run_forked(
        "overlap",
        f"{bench}#split=test",
        "--against",
        f"train={bench}#split=train",
        "--exact",
        "--out",
        tmp_path / "run",
        "--json",
    )
    assert scanned.returncode == 0, scanned.stderr
    claim = json.loads(scanned.stdout)["claims"][0]
    assert claim["cell"] == {"benchmark": "bench-test", "corpus": "train", "model": None}
    assert claim["sentence"].startswith("2 of 6 images")


def test_overlap_says_which_lines_of_the_benchmark_were_broken(bench: Path, tmp_path: Path) -> None:
    good = (bench / "test.jsonl").read_text().splitlines()
    (bench / "broken.jsonl").write_text("\n".join([good[0], "{'id': 3", *good[1:]]) + "\n")
    done = run_inside(
        "overlap", bench / "broken.jsonl", "--against", bench / "images", "--out", tmp_path / "run"
    )
    assert done.returncode == 0, done.stderr
    printed = " ".join((done.stdout + done.stderr).split())
    assert "“not JSON” (1)" in printed
    assert "broken.jsonl line 2: " in printed


def test_overlap_writes_a_run_that_report_rebuilds_offline(bench: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    done = run_inside("overlap", f"{bench}#split=test", "--against", bench / "images", "--out", run)
    assert done.returncode == 0, done.stderr
    assert "6 of 6 items" in " ".join(done.stdout.split())
    assert str(run / "report.html") in done.stdout
    first = (run / "report.html").read_text()
    (run / "report.html").unlink()
    (run / "findings.json").unlink()
    bench.rename(tmp_path / "moved")  # nothing but the run folder is needed
    again = run_inside("report", run)
    assert again.returncode == 0, again.stderr
    assert (run / "report.html").read_text() == first


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["check", "nowhere.json"], "nowhere.json does not"),
        (["check", "{bench}"], "several tables"),
        (["check", "{bench}#split=dev"], "no split"),
        (["check", "{bench}#split=test", "--map", "answer=gold"], "no column 'gold'"),
        (["check", "{bench}#split=test", "--map", "answer"], "expected FIELD=COLUMN"),
        (["check", "{bench}#split=test", "--reader", "jsonll"], "reader 'jsonll'"),
        (["check", "{bench}#split=test", "--images", "gone"], "--images: "),
        (["check", "{bench}#split=test", "--preset", "slakeen"], "slake-en"),
        (["check", "{bench}#split=test", "--jsn"], "No such option"),
        (["overlap", "{bench}#split=test", "--against", "gone", "--out", "run"], "gone"),
        (
            [
                "overlap",
                "{bench}#split=test",
                "--against",
                "{bench}#split=train",
                "--out",
                "{bench}",
            ],
            "not a run",
        ),
        (
            [
                "overlap",
                "{bench}#split=test",
                "--against",
                "{bench}/images",
                "--out",
                "run",
                "--engine",
                "rai",
            ],
            "local",
        ),
        (["report", "{bench}"], "a run folder"),
    ],
)
def test_bad_input_gets_a_sentence_and_exit_code_2(
    bench: Path,
    tmp_path: Path,
    arguments: list[str],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = run_inside(*(part.format(bench=bench) for part in arguments))
    assert answer.returncode == 2, answer.stdout + answer.stderr
    assert told in answer.stderr
    assert "Traceback" not in answer.stderr
    assert answer.stdout == ""


def test_a_missing_package_names_its_install_command(bench: Path) -> None:
    """Ray is hidden from the process, as on a machine without the extra."""
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "import importlib.util as u; real = u.find_spec\n"
        "u.find_spec = lambda name, *a: None if name == 'ray' else real(name, *a)\n"
        "from heldout.cli import main; main()"
    )
    answer = run_forked(
        "overlap",
        f"{bench}#split=test",
        "--against",
        f"{bench}/images",
        "--out",
        f"{bench}/../run",
        "--engine",
        "ray",
        script=code,
    )
    assert answer.returncode == 3, answer.stderr
    assert "pip install 'heldout[ray]'" in answer.stderr


def test_hostile_names_are_text_everywhere(tmp_path: Path, picture: Picture) -> None:
    folder = tmp_path / "bench"
    folder.mkdir()
    name = "<img src=x onerror=alert(1)>[bold].png"
    (folder / name).write_bytes(picture(1))
    row = {
        "id": "</script><b>",
        "image": name,
        "question": "<script>alert(1)</script>",
        "answer": "[/red]",
    }
    (folder / "test.jsonl").write_text(json.dumps(row) + "\n")
    done = run_inside("overlap", folder, "--against", folder / ".", "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "run/report.html").read_text()
    assert "<script>alert" not in page
    assert "<img src=x" not in page
    assert "&lt;script&gt;" in page
    checked = run_inside("check", folder)
    assert "Traceback" not in checked.stderr
