"""heldout serve: one page over many runs, in a real browser; it reads reports and nothing else."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_run import made_up_run

from accessibility import PACKAGE, violations
from heldout.audit import conclude
from heldout.errors import InputError
from heldout.report import RunsServer, list_runs
from heldout.store import Run

sync_api = pytest.importorskip("playwright.sync_api", reason="the browser's driver is missing")
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two concluded runs, one below another folder, one that was not finished, one that is broken."""
    folder = tmp_path_factory.mktemp("serve") / "runs"
    for name in ("first", "team/second"):
        conclude(made_up_run(folder / name, 12))
    made_up_run(folder / "unfinished", 4)
    (folder / "broken").mkdir()
    (folder / "broken/manifest.json").write_text("{")
    # A clean split, and what a search leaves that was refused: no runs.
    Run.create(folder / "refused", command=["heldout", "overlap"])
    (folder / "clean-b/clean").mkdir(parents=True)
    (folder / "clean-b/manifest.json").write_text('{"sanitize_version": 1}')
    (folder / "first/secret.txt").write_text("secret")
    (folder / "first/figures").mkdir(exist_ok=True)
    (folder / "first/figures/link.svg").symlink_to(folder.parent / "outside.svg")
    (folder.parent / "outside.svg").write_text("<svg/>")
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[RunsServer]:
    with RunsServer([runs]) as started:
        thread = threading.Thread(target=started.run)
        thread.start()
        yield started
        started.stop()
        thread.join()


def ask(server: RunsServer, path: str, method: str = "GET", **headers: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, headers=names)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def test_every_run_is_listed_with_its_status_and_numbers(runs: Path) -> None:
    listed = {run.name: run for run in list_runs([runs])}
    assert set(listed) == {"first", "team/second", "unfinished", "broken"}
    claims = json.loads((runs / "first/claims.json").read_text())["claims"]
    (web,) = [row for row in listed["first"].rows if row.subject == "corpus web"]
    assert web.status in {claim["status"] for claim in claims if claim["cell"]["corpus"] == "web"}
    assert " of 12 items" in web.number
    assert listed["unfinished"].trouble == "not finished" and not listed["unfinished"].has_report
    assert listed["broken"].trouble.startswith("cannot be read")


def test_only_reports_and_their_figures_are_served(server: RunsServer, runs: Path) -> None:
    assert ask(server, "/runs/first/report.html")[0] == 200
    assert ask(server, "/runs/team/second/report.html")[0] == 200
    assert ask(server, "/runs/first/claims.json")[0] == 200
    for path in (
        "/runs/first/secret.txt",
        "/runs/first/tables/matches.parquet",
        "/runs/first/../../outside.svg",
        "/runs/first/%2e%2e/%2e%2e/outside.svg",
        "/runs/first/figures/link.svg",
        "/runs/unfinished/report.html",
        "/runs//etc/passwd",
        "/etc/passwd",
    ):
        status, content = ask(server, path)
        assert (status, b"secret" in content) == (404, False), path


def test_it_takes_no_other_method_host_or_site(server: RunsServer) -> None:
    assert ask(server, "/", "POST")[0] == 501
    assert ask(server, "/", "DELETE")[0] == 501
    assert ask(server, "/", "HEAD") == (200, b"")
    assert ask(server, "/", host="evil.example:80")[0] == 403
    cross = {"sec_fetch_site": "cross-site"}
    assert ask(server, "/runs/first/report.html", **cross)[0] == 403
    assert ask(server, "/", **cross)[0] == 200  # a link on another page may lead here


def test_a_folder_that_is_not_there_or_a_port_that_is_taken_is_a_sentence(
    server: RunsServer, runs: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="no such folder"):
        RunsServer([tmp_path / "none"])
    with pytest.raises(InputError, match=f"port {server.port}: "):
        RunsServer([runs], port=server.port)


def test_a_reader_goes_from_the_page_to_a_report(server: RunsServer, browser: Any) -> None:
    page = browser.new_page(viewport={"width": 390, "height": 800})
    errors: list[str] = []
    page.on("console", lambda line: errors.append(line.text) if line.type == "error" else None)
    page.goto(server.url)
    assert page.locator(".run").count() == 4
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("link", name="team/second").click()
    page.wait_for_selector("#items-bar:not([hidden])")  # the report's own scripts run
    assert page.url.endswith("/runs/team/second/report.html")
    assert errors == []
    page.close()
    if PACKAGE is not None:
        for scheme in ("light", "dark"):
            assert violations(browser, server.url, ".run", scheme) == []


def test_the_command_prints_its_address_and_ends_with_the_interrupt(runs: Path) -> None:
    command = [sys.executable, "-m", "heldout", "serve", str(runs), "--no-browser"]
    root = Path(__file__).parents[2] / "src"
    environment = os.environ | {
        "PYTHONPATH": f"{root}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
    }
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line.startswith("runs: http://127.0.0.1:")
    connection = http.client.HTTPConnection(line.split("//")[1].strip().strip("/"))
    connection.request("GET", "/")
    assert b"still held out" in connection.getresponse().read()
    connection.close()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    process.stdout.close()
