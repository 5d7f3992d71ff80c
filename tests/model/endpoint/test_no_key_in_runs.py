"""Commands against a real server that repeats the key everywhere: no run and no message has it."""

from __future__ import annotations

import base64
import gzip
import html
import json
import subprocess
import sys
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from click.testing import Result
from typer.testing import CliRunner

from heldout.cli.app import app
from heldout.errors import InputError
from heldout.model.endpoint import connection as pace
from heldout.scenes import write_benchmark
from heldout.store import Run

KEY = "sk-live/9d+1f\"q\\w'&<z>=_7~Zz0123456789"
ORGANS = ["liver", "heart", "left lung", "spleen"]


def needles() -> dict[str, bytes]:
    """What the key looks like in a file; of base64 what is the same whatever stands around it."""
    found = {
        "plain": KEY,
        "json": json.dumps(KEY)[1:-1],
        "json in json": json.dumps(json.dumps(KEY)[1:-1])[1:-1],
        "address": urllib.parse.quote(KEY, safe=""),
        "page": html.escape(KEY),
        "hex": KEY.encode().hex(),
        "its end": KEY[-12:],  # whoever is careless with the rest
    }
    for before in range(3):
        encoded = base64.b64encode(b"x" * before + KEY.encode()).decode()[4:-4]
        found[f"base64 {before}"] = encoded
        found[f"base64 of addresses {before}"] = encoded.replace("+", "-").replace("/", "_")
    return {name: form.encode() for name, form in found.items()}


def leaks(data: bytes) -> list[str]:
    return [name for name, form in needles().items() if form in data]


def contents(path: Path) -> Iterator[bytes]:
    """The file's bytes, and what it unpacks to."""
    data = path.read_bytes()
    yield data
    if data[:4] == b"PAR1":
        rows = pq.read_table(path).to_pylist()
        yield json.dumps(rows, default=str, ensure_ascii=False).encode()
        yield repr(rows).encode()
        yield "\n".join(_texts(rows)).encode()
    if data[:2] == b"\x1f\x8b":
        yield gzip.decompress(data)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
    elif isinstance(value, dict):
        for part in value.items():
            yield from _texts(list(part))
    elif isinstance(value, list):
        yield "".join(part for part in value if isinstance(part, str))  # tokens, joined again
        for part in value:
            yield from _texts(part)


def search(folder: Path) -> dict[str, list[str]]:
    """Per file the forms of the key that stand in it."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            names = sorted({name for data in contents(path) for name in leaks(data)})
            if names:
                found[str(path.relative_to(folder))] = names
    return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).parent / "echo_server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    process.communicate()


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """A command in this process, whose environment has the key."""
    monkeypatch.setenv("THE_KEY", KEY)
    monkeypatch.setattr(pace.Backoff.__init__, "__defaults__", (2, 0.01, 0.05))

    def call(*arguments: object) -> Result:
        given = [str(part) for part in arguments]
        monkeypatch.setattr(sys, "argv", ["heldout", *given])  # which a manifest keeps
        return CliRunner().invoke(app, given)

    return call


@pytest.fixture
def command(invoke: Callable[..., Result]) -> Callable[..., str]:
    """All that a command printed; it has none of the key, either."""

    def call(*arguments: object) -> str:
        done = invoke(*arguments)
        assert done.exit_code == 0, done.exception or done.output
        assert leaks(done.output.encode()) == [], done.output
        return done.output

    return call


@pytest.fixture
def here(invoke: Callable[..., Result]) -> Callable[..., str]:
    """The message of the error that ends a command before it begins."""

    def call(*arguments: object) -> str:
        done = invoke(*arguments)
        assert isinstance(done.exception, InputError), done.exception or done.output
        chain, printed = done.exception, done.output
        while chain is not None:  # what a traceback would show
            printed += str(chain)
            chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
        assert leaks(printed.encode()) == []
        return printed

    return call


@pytest.fixture
def bench(tmp_path: Path, picture: Callable[..., bytes]) -> Path:
    rows = []
    for number in range(24):
        name, question = f"{number}.png", f"Which organ is it? ({number})"
        (tmp_path / name).write_bytes(picture(number))
        rows.append(
            {
                "id": f"q{number}",
                "image": name,
                "question": question,
                "options": ORGANS,
                "answer": ORGANS[number % 4],
            }
        )
    path = tmp_path / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def table(run: Path, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(run / f"tables/{name}.parquet").to_pylist()
    return rows


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    """Or the tests below would pass whatever happens."""
    import pyarrow as pa

    for number, text in enumerate(
        [
            KEY,
            json.dumps({"a": KEY}),
            base64.b64encode(f"Authorization: Bearer {KEY}".encode()).decode(),
            urllib.parse.quote(KEY, safe=""),
        ]
    ):
        pq.write_table(pa.table({"raw": [text]}), tmp_path / f"{number}.parquet")
        (tmp_path / f"{number}.txt").write_text(text)
    pq.write_table(pa.table({"tokens": [[KEY[:5], KEY[5:]]]}), tmp_path / "tokens.parquet")
    assert len(search(tmp_path)) == 9


def test_ask(command: Callable[..., str], bench: Path, url: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command(
        "ask",
        bench,
        "--endpoint",
        url,
        "--api-key-env",
        "THE_KEY",
        "--out",
        run,
        "--variants",
        "original,slot-paraphrase",
        "--paraphraser",
        url,
        "--paraphraser-api-key-env",
        "THE_KEY",
        "--concurrency",
        1,
    )
    assert search(run) == {}
    answers = table(run, "answers")
    assert sum("***" in (row["reply"] or "") for row in answers) >= 12
    dropped = table(run, "dropped")
    assert {"refused by the endpoint", "the endpoint failed"} <= {row["reason"] for row in dropped}
    assert any("***" in row["detail"] for row in dropped)
    replies = [path.read_text() for path in run.rglob("replies.jsonl")]
    assert replies and all("***" in text for text in replies)


def test_score(command: Callable[..., str], bench: Path, url: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    command(
        "score",
        bench,
        "--endpoint",
        url,
        "--api-key-env",
        "THE_KEY",
        "--out",
        run,
        "--concurrency",
        1,
    )
    assert search(run) == {}
    assert len(table(run, "scores")) >= 12
    dropped = {row["id"]: row for row in table(run, "dropped") if row["stage"] == "score"}
    assert dropped["echo/q2"]["reason"] == "answer not found in the prompt"
    assert "***" in dropped["echo/q2"]["detail"]  # the pieces of the key, joined


def test_model_inspect(command: Callable[..., str], url: str) -> None:
    assert "***" in command("model", "inspect", url, "--api-key-env", "THE_KEY")


def test_overlap_with_a_judge(command: Callable[..., str], url: str, tmp_path: Path) -> None:
    pytest.importorskip("wordllama")
    ours, theirs = tmp_path / "bench.jsonl", tmp_path / "web.jsonl"
    asked = "Does the radiograph of this patient in the emergency room show an enlarged {}?"
    again = "Is there an enlarged {} on the radiograph of this emergency room patient?"
    organs = ["heart", "kidney", "spleen", "liver", "stomach", "bladder", "thyroid", "pancreas"]
    for path, words in ((ours, asked), (theirs, again)):
        rows = [{"id": organ, "question": words.format(organ), "answer": "yes"} for organ in organs]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = tmp_path / "run"
    command(
        "overlap",
        ours,
        "--against",
        f"web={theirs}",
        "--out",
        run,
        "--workers",
        1,
        "--text",
        "--text-encoder",
        "wordllama",
        "--judge",
        url,
        "--judge-api-key-env",
        "THE_KEY",
    )
    assert search(run) == {}
    judged = [row["evidence"] for row in table(run, "text_matches") if '"judge"' in row["evidence"]]
    assert any("***" in evidence for evidence in judged)
    command("report", run)
    assert search(run) == {}


def test_twin(command: Callable[..., str], url: str, tmp_path: Path) -> None:
    write_benchmark(tmp_path / "scenes", images=8)
    run = tmp_path / "run"
    keys = [
        part
        for who in ("describer", "verifier", "render")
        for part in (f"--{who}-api-key-env", "THE_KEY")
    ]
    command(
        "twin",
        tmp_path / "scenes",
        "--out",
        run,
        "--describer",
        url,
        "--verifier",
        url,
        "--renderer",
        "edit",
        "--render-endpoint",
        url,
        "--render-model",
        "echo",
        "--concurrency",
        1,
        *keys,
    )
    assert search(run) == {}
    assert "***" in "".join(path.read_text() for path in run.rglob("*.jsonl"))
    assert any("***" in row["detail"] for row in table(run, "dropped"))
    assert any("***" in row["verifier_reason"] for row in table(run, "twins"))


@pytest.mark.parametrize("how", ["garbled", "locked"])
def test_a_message_that_ends_a_command_has_no_key(
    here: Callable[..., str], bench: Path, url: str, tmp_path: Path, how: str
) -> None:
    there = url.replace("/v1", f"/{how}/v1")
    here("ask", bench, "--endpoint", there, "--api-key-env", "THE_KEY", "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "address", ["http://me:{}@127.0.0.1:9/v1", "http://127.0.0.1:9/v1?api_key={}"]
)
def test_a_password_in_an_address_is_neither_used_nor_kept(
    here: Callable[..., str], bench: Path, url: str, tmp_path: Path, address: str
) -> None:
    secret = "hush-hush-1234"
    there, run = address.format(secret), tmp_path / "run"
    Run.create(run, command=["heldout", "overlap"])  # there is one to go on with
    for given in (
        ("ask", bench, "--endpoint", there),
        (
            "ask",
            bench,
            "--endpoint",
            url,
            "--api-key-env",
            "THE_KEY",
            "--variants",
            "slot-paraphrase",
            "--paraphraser",
            there,
        ),
        ("score", bench, "--endpoint", there),
        ("twin", bench, "--describer", there),
        (
            "twin",
            bench,
            "--until",
            "render",
            "--renderer",
            "edit",
            "--describer",
            url,
            "--render-endpoint",
            there,
            "--render-model",
            "m",
        ),
        ("model", "inspect", there),
        ("ask", bench, "--endpoint", url, "--api-key-env", f"sk-{secret}"),
    ):
        out = () if given[0] == "model" else ("--out", run)
        assert secret not in here(*given, *out), given
    stored = b"".join(path.read_bytes() for path in run.rglob("*") if path.is_file())
    assert secret.encode() not in stored


def test_an_audit_file_with_a_password_is_refused_before_it_is_copied(
    here: Callable[..., str], bench: Path, tmp_path: Path
) -> None:
    path = tmp_path / "audit.yaml"
    for entry in (
        "url: http://me:hush-hush@host/v1",
        "url: http://host/v1?token=hush-hush",
        "{url: 'http://host/v1', api_key_env: sk-hush-hush}",
    ):
        lines = [
            f"benchmarks: [{{name: b, source: {bench.name}}}]",
            "models:",
            "  - name: served",
            "    endpoint:",
        ]
        if entry.startswith("{"):
            lines[-1] += f" {entry}"
        else:
            lines.append(f"      {entry}")
        path.write_text("\n".join([*lines, "output: out", ""]))
        printed = here("audit", path)
        assert "api_key_env" in printed and "hush" not in printed
        assert not (tmp_path / "out").exists()
