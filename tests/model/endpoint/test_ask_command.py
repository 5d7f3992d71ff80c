"""heldout ask against a real server process: right numbers, every fault, and nothing paid for twice."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from asking_process import Scripted
from typer.testing import CliRunner

import heldout
from command_line import ForkedCommand
from heldout.cli.app import app
from heldout.errors import InputError
from heldout.store import Run

ORGANS = ["liver", "heart", "left lung", "spleen"]


@pytest.fixture
def bench(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    """24 questions on 12 pictures; the picture of the last two does not decode."""
    rows = []
    for number in range(24):
        name = f"{number // 2}.png"
        data = picture(number // 2) if number < 22 else b"\x89PNG\r\n\x1a\nnothing more"
        (tmp_path / name).write_bytes(data)
        rows.append(
            {
                "id": f"q{number}",
                "image": name,
                "question": f"Which organ is it? ({number})",
                "options": ORGANS,
                "answer": ORGANS[number % 4],
            }
        )
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def server(bench: Path, tmp_path: Path) -> Iterator[Scripted]:
    answers = tmp_path / "answers.json"
    rows = [json.loads(line) for line in bench.read_text().splitlines()]
    answers.write_text(json.dumps({row["question"]: row["answer"] for row in rows}))
    running = Scripted(answers)
    yield running
    running.process.communicate()


def ask(*arguments: object) -> dict[str, Any]:
    done = CliRunner().invoke(app, ["ask", *map(str, arguments), "--json"])
    assert done.exit_code == 0, done.exception or done.output
    found: dict[str, Any] = json.loads(done.stdout)
    one: dict[str, Any] = found["models"][0]
    return one


def sentence(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["ask", *map(str, arguments)])
    assert isinstance(done.exception, InputError), done.exception or done.output
    return str(done.exception)


def answers(run: Path) -> pl.DataFrame:
    frame = pl.from_arrow(Run.open(run).read_table("answers"))
    assert isinstance(frame, pl.DataFrame)
    return frame


def test_vanilla_and_circular_are_told_together_and_known_replies_cost_nothing(
    bench: Path, server: Scripted, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    base = (bench, "--endpoint", server.url(), "--out", run)
    made = ask(*base, "--variants", "original,no-image", "--price", "2,10")
    assert (made["asked"], made["reused"]) == (22 + 24, 0)
    assert made["prompt_tokens"] == 22 * 150 + 24 * 100
    assert made["cost"] == pytest.approx((made["prompt_tokens"] * 2 + 46 * 7 * 10) / 1e6)
    assert made["summary"]["circular"] is None
    before = server.posted("plain")
    done = CliRunner().invoke(app, ["ask", *map(str, base)])  # original and all rotations
    assert server.posted("plain") - before == 3 * 22
    shown = " ".join(done.output.split())
    assert "left out: 8; " in shown
    assert "released order 100.0 %" in shown and "every rotation 100.0 %" in shown
    assert "same 22 items in 11 groups" in shown
    found = answers(run)
    counts = dict(found.group_by("variant").len().iter_rows())
    assert counts == {
        "original": 22,
        "no-image": 24,
        "rotation-1": 22,
        "rotation-2": 22,
        "rotation-3": 22,
    }
    assert set(found["outcome"]) == {"right"} and set(found["rule"]) == {"letter"}
    assert set(found["template"]) == {"heldout-ask/2 choice"}
    lost = Run.open(run).read_table("dropped").to_pylist()
    assert Counter(row["id"] for row in lost) == {"scripted/q22": 4, "scripted/q23": 4}
    sent = server.counts()["last"][0]
    assert sent["temperature"] == 0 and sent["max_tokens"] == 64 and "logprobs" not in sent


def test_a_server_that_names_another_model_in_every_reply_is_told(
    bench: Path, server: Scripted, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    base = (bench, "--endpoint", server.url("changing"), "--out", run, "--variants", "original")
    made = ask(*base)
    (remark,) = made["remarks"]
    assert "named 3 models" in remark and "version-0 (8)" in remark
    known = Run.open(run).manifest()["models"]["scripted"]
    assert known["named"] == {"answers": {"version-0": 8, "version-1": 7, "version-2": 7}}
    assert known["remarks"] == [remark]
    journals = list((run / "stages/ask").rglob("replies.jsonl"))
    kept = [
        json.loads(line)["model"] for path in journals for line in path.read_text().splitlines()
    ]
    assert Counter(kept) == known["named"]["answers"]
    assert ask(*base)["remarks"] == [remark]  # replies of the journal are counted once
    plain = ask(bench, "--endpoint", server.url(), "--out", tmp_path / "plain")
    assert plain["remarks"] == []
    assert "named" not in Run.open(tmp_path / "plain").manifest()["models"]["scripted"]


def test_every_fault_is_survived_or_named_and_nothing_is_paid_for_twice(
    bench: Path, server: Scripted, tmp_path: Path, quick: None
) -> None:
    run = tmp_path / "run"
    base = (
        bench,
        "--endpoint",
        server.url("faulty"),
        "--out",
        run,
        "--variants",
        "original",
        "--timeout",
        "0.5",
        "--concurrency",
        "4",
    )
    ask(*base)
    found = {row["benchmark_id"]: row for row in answers(run).to_dicts()}
    for number in (0, 1, 2, 10, 11, 12, 13, 14):  # 429, 500 and a cut answer at first; no fault
        assert found[f"q{number}"]["outcome"] == "right", number
    told = {
        name: (found[name]["outcome"], found[name]["rule"]) for name in ("q3", "q4", "q5", "q9")
    }
    assert told == {
        "q3": ("unparsed", "empty"),
        "q4": ("refused", "refused by the server"),
        "q5": ("refused", "refused by the server"),
        "q9": ("unparsed", "cut off at the limit"),
    }
    lost = Run.open(run).read_table("dropped").to_pylist()
    reasons = {row["id"].removeprefix("scripted/"): row["reason"] for row in lost}
    assert reasons.pop("q22") == reasons.pop("q23") == "not an image"
    assert reasons == {
        "q6": "prompt too long",
        "q18": "prompt too long",
        "q7": "the endpoint failed",
        "q19": "the endpoint failed",
        "q8": "the endpoint failed",
        "q20": "the endpoint failed",
    }
    details = {row["id"]: row["detail"] for row in lost}
    assert "0.5 s in 3 attempts" in details["scripted/q7"]
    assert "not JSON" in details["scripted/q8"] and "4096" in details["scripted/q6"]
    assert len(found) + len(reasons) + 2 == 24
    before = server.counts()
    again = ask(*base)
    after = server.counts()
    assert again["asked"] == 0 and after["answered"] == before["answered"] and after["most"] == 1


def test_a_server_that_answers_no_question_is_an_error_with_its_reason(
    bench: Path, server: Scripted, tmp_path: Path
) -> None:
    base = (bench, "--endpoint", server.url("full"), "--out", tmp_path / "run")
    told = sentence(*base, "--variants", "original")
    assert "none of 24 questions" in told or "none of 22 questions" in told
    assert "prompt too long" in told and "4096" in told and "dropped.parquet" in told
    lost = Run.open(tmp_path / "run").read_table("dropped").to_pylist()
    assert Counter(row["reason"] for row in lost)["prompt too long"] == 22


def test_a_server_that_dies_half_way_loses_nothing(
    bench: Path, server: Scripted, tmp_path: Path, quick: None
) -> None:
    def base(how: str) -> tuple[object, ...]:
        return (
            bench,
            "--endpoint",
            server.url(how),
            "--out",
            tmp_path / "run",
            "--concurrency",
            2,
            "--variants",
            "original",
        )

    refused = sentence(*base("mortal-9"))
    assert "did not answer" in refused and "the same command" in refused
    assert answers(tmp_path / "run").height == 9  # what there is can be looked at
    reasons = Counter(
        row["reason"] for row in Run.open(tmp_path / "run").read_table("dropped").to_pylist()
    )
    assert reasons["not asked"] == 22 - 9 + 2 - reasons["not an image"]
    made = ask(*base("plain"))
    assert (made["asked"], made["reused"]) == (22 - 9, 9)
    assert answers(tmp_path / "run").height == 22


def test_questions_that_a_server_always_fails_on_are_lost_alone(
    bench: Path, server: Scripted, tmp_path: Path, quick: None
) -> None:
    """A server that answers others is alive, now or by the replies of an earlier run; where all fails, the
    asking ends early."""

    def base(how: str) -> tuple[object, ...]:
        return (
            bench,
            "--endpoint",
            server.url(how),
            "--out",
            tmp_path / how,
            "--concurrency",
            2,
            "--variants",
            "original",
        )

    for asked in (14, 0):  # a second time all that is asked fails
        assert ask(*base("failing"))["asked"] == asked
        lost = Run.open(tmp_path / "failing").read_table("dropped").to_pylist()
        assert Counter(row["reason"] for row in lost)["the endpoint failed"] == 8
        assert answers(tmp_path / "failing").height == 14
    assert "in a row" in sentence(*base("broken-0"))
    # Requests that are under way when it ends make their attempts.
    assert server.counts()["posted"]["broken-0"] <= 3 * (5 + 4)
    assert "answered before" in sentence(*base("broken-9"))
    assert answers(tmp_path / "broken-9").height == 9
    assert server.counts()["posted"]["broken-9"] <= 9 + 3 * (5 + 4) + 2


def test_a_killed_process_loses_nothing_that_arrived(
    bench: Path, server: Scripted, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    command = [
        "ask",
        str(bench),
        "--endpoint",
        server.url(),
        "--out",
        str(run),
        "--concurrency",
        "1",
    ]
    process = ForkedCommand(*command, "--rate", "50/s")
    while len(list(run.glob("stages/ask/*/replies.jsonl"))) == 0 or server.counts()["answered"] < 7:
        assert process.poll() is None
        time.sleep(0.04)
    process.kill()
    process.wait()
    time.sleep(0.1)
    journal = next(run.glob("stages/ask/*/replies.jsonl"))
    kept = len(journal.read_bytes().splitlines())
    assert server.counts()["answered"] - kept <= 1  # the one on its way
    with journal.open("ab") as file:
        file.write(b'{"key": "cut sh')
    made = ask(*command[1:])
    assert made["reused"] == kept and made["asked"] == 22 * 4 - kept
    assert journal.read_bytes().count(b"cut sh\n") == 1


def test_thought_tags_letters_and_other_settings_are_other_prompts(
    bench: Path, server: Scripted, tmp_path: Path
) -> None:
    base = (
        bench,
        "--endpoint",
        server.url(),
        "--out",
        tmp_path / "run",
        "--variants",
        "original",
        "--limit",
        4,
    )
    ask(*base)  # replies that were kept without them are asked for again, once
    assert answers(tmp_path / "run")["choice_logprobs"].null_count() == 4
    assert ask(*base, "--choice-logprobs")["asked"] == 4
    assert ask(*base, "--choice-logprobs")["reused"] == 4
    first = answers(tmp_path / "run")["choice_logprobs"].to_list()[0]
    assert first[0] == pytest.approx(-0.2986, abs=1e-3)  # "A" and " A" together
    assert first[1] == pytest.approx(-3.0) and first[2:] == [None, None]
    ask(*base, "--chain-of-thought", "--token-field", "max_completion_tokens")
    found = answers(tmp_path / "run")
    assert set(found["rule"]) == {"answer tag: letter"} and found.height == 4
    assert set(found["template"]) == {"heldout-ask/2 choice, chain of thought"}
    assert server.counts()["last"][0]["max_completion_tokens"] == 1024


def test_json_shows_progress_on_standard_error_unless_it_is_to_be_quiet(
    bench: Path, server: Scripted, tmp_path: Path
) -> None:
    """A script that reads standard output is watched by somebody, too."""
    told = []
    for quiet in (["--rate", "8/s"], ["--quiet"]):
        command = [
            "ask",
            bench,
            "--endpoint",
            server.url(),
            "--out",
            tmp_path / f"run{len(quiet)}",
            "--variants",
            "original",
            "--json",
            *quiet,
        ]
        out, err = ForkedCommand(*map(str, command)).communicate()
        assert json.loads(out)["models"][0]["asked"] == 22
        told.append(err)
    assert re.search(r"^asking scripted: \d+/24 questions · [\d.]+ questions/s", told[0], re.M)
    assert told[1] == ""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "which model?"),
        (["--recorded", "f", "--endpoint", "http://x/v1"], "leave out one"),
        (["--recorded", "f", "--variants", "no-image"], "as it is"),
        (["--model", "m", "--variants", "circular"], "there is no variant 'circular'"),
        (["--model", "m", "--price", "cheap"], "expected two numbers"),
        (["--recorded", "nowhere.csv"], "does not exist"),
        (["--endpoint", "{url}", "--model", "gpt"], "does not serve 'gpt'"),
        (["--endpoint", "{url}", "--variants", "twin={twin}"], "Twins are paired by id"),
    ],
)
def test_bad_input_gets_a_sentence(
    bench: Path, server: Scripted, tmp_path: Path, arguments: list[str], expected: str
) -> None:
    twin = tmp_path / "twin.jsonl"
    twin.write_text('{"id": "z", "question": "?", "options": ["a", "b"], "answer": "a"}\n')
    given = [part.format(url=server.url(), twin=twin) for part in arguments]
    assert expected in sentence(bench, "--out", tmp_path / "run", *given)
    assert "--recorded" in given or not (tmp_path / "run").exists()


def test_a_server_that_says_nothing_is_told_and_not_sent_on_to_detectors(
    bench: Path, server: Scripted, tmp_path: Path
) -> None:
    plain, mute = (
        (
            bench,
            "--endpoint",
            f"{server.url(how)}",
            "--limit",
            6,
            "--variants",
            "original",
            "--out",
            tmp_path / how,
            "--quiet",
        )
        for how in ("plain", "mute")
    )
    assert ask(*plain)["remarks"] == []
    made = ask(*mute)
    assert [text.split(" replies")[0] for text in made["remarks"]] == ["6 of 6"]
    known = Run.open(tmp_path / "mute").manifest()["models"]
    assert next(iter(known.values()))["remarks"] == made["remarks"]
    shown = CliRunner().invoke(app, ["ask", *map(str, mute)]).output
    assert made["remarks"][0] in shown and "look at the" in shown
    assert "next: heldout detect" not in shown


def test_attempts_are_what_the_command_says(bench: Path, server: Scripted, tmp_path: Path) -> None:
    told = sentence(
        bench,
        "--endpoint",
        server.url("mortal-0"),
        "--limit",
        1,
        "--out",
        tmp_path / "run",
        "--attempts",
        1,
        "--concurrency",
        1,
        "--quiet",
    )
    assert "in 1 attempt (" in told


def test_from_python_answers_and_accuracy_are_frames_and_a_run_is_made(
    bench: Path, server: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    result = heldout.ask(
        bench, endpoint=server.url(), variants=["original", "rotation-1"], quiet=True
    )
    assert result.run.path.resolve() == work / "heldout-runs/ask-test-1"
    assert result.answers.height == 44 and set(result.answers["variant"]) == {
        "original",
        "rotation-1",
    }
    assert result.accuracy["variant"].to_list() == ["original", "rotation-1"]
    assert result.accuracy["items"].to_list() == [22, 22]
    assert result.run.manifest()["commands"][0][-1].startswith("import heldout; heldout.ask(")
    assert result.models[0].model in result._repr_html_()
    assert "\n" not in repr(result) and len(repr(result)) < 400
    again = heldout.ask(bench, endpoint=server.url(), run=result.run, quiet=True, limit=2)
    assert again.models[0].reused >= 4
    with pytest.raises(InputError, match="^tolerance: "):
        heldout.ask(bench, model="m", tolerance=7)
    with pytest.raises(InputError, match="^limit: "):
        heldout.ask(bench, heldout.AskSettings(model="m"), limit=3)
    with pytest.raises(InputError, match="holds no twins"):
        heldout.ask(bench, endpoint=server.url(), variants="twin", run=result.run, quiet=True)
