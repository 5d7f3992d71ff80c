"""Who gets an answer: only this machine, with the token, from the page itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heldout.review import make_app, open_desks
from heldout.store.judgements import history

PORT, TOKEN = 40123, "secret-token"
HERE = f"http://127.0.0.1:{PORT}"
TOLD = {"x-heldout-token": TOKEN}


@pytest.fixture
def client(run: Path) -> Iterator[Any]:
    testclient = pytest.importorskip("fastapi.testclient")
    desk = open_desks(str(run), rater="ada")[0]
    app = make_app(desk, token=TOKEN, port=PORT)
    with testclient.TestClient(app, base_url=HERE, follow_redirects=False) as client:
        yield client


def test_nothing_is_answered_without_the_token(client: Any) -> None:
    for path in ("/", "/page/review.js", "/api/session", "/api/cards/0", "/picture/0/0", "/x"):
        assert client.get(path).status_code == 403
    assert client.get("/?token=wrong").status_code == 403
    assert client.post("/api/cards/0/judgement", json={"verdict": "unrelated"}).status_code == 403
    assert client.get("/api/session", headers={"x-heldout-token": "wrong"}).status_code == 403
    assert client.get("/api/session?token=secret-token").status_code == 403  # only the first page


def test_the_token_of_the_address_becomes_a_strict_cookie(client: Any) -> None:
    answer = client.get(f"/?token={TOKEN}")
    assert answer.status_code == 303
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert client.get("/").status_code == 200
    assert client.get("/api/session").json()["total"] > 6


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.test"},
        {"host": f"evil.test:{PORT}"},
        {"host": f"127.0.0.1:{PORT + 1}"},
        {"origin": "http://evil.test"},
        {"origin": "null"},
        {"origin": f"http://127.0.0.1:{PORT + 1}"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_other_hosts_and_origins_are_refused_even_with_the_token(
    client: Any, run: Path, headers: dict[str, str]
) -> None:
    assert client.get("/api/session", headers={**TOLD, **headers}).status_code == 403
    said = client.post(
        "/api/cards/0/judgement", headers={**TOLD, **headers}, json={"verdict": "unrelated"}
    )
    assert said.status_code == 403
    assert list(history(run)) == []


def test_the_page_itself_may_speak(client: Any, run: Path) -> None:
    ours = {**TOLD, "origin": HERE, "sec-fetch-site": "same-origin"}
    saved = client.post("/api/cards/0/judgement", headers=ours, json={"verdict": "unrelated"})
    assert saved.status_code == 200
    assert len(list(history(run))) == 1


def test_a_form_of_another_site_is_no_judgement(client: Any, run: Path) -> None:
    plain = {**TOLD, "content-type": "text/plain"}
    path = "/api/cards/0/judgement"
    assert client.post(path, headers=plain, content='{"verdict": "unsure"}').status_code == 415
    huge = {"verdict": "unsure", "note": "x" * 100_000}
    assert client.post(path, headers=TOLD, json=huge).status_code == 413
    assert list(history(run)) == []


def test_every_answer_carries_the_policy(client: Any) -> None:
    for path in ("/", "/page/review.js", "/page/review.css", "/api/cards/0", "/picture/0/0"):
        headers = client.get(path, headers=TOLD).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
    assert "default-src" in client.get("/").headers["content-security-policy"]  # a refusal, too


def test_the_page_names_nothing_outside(client: Any) -> None:
    for name in ("/", "/page/review.js", "/page/stage.js", "/page/words.js", "/page/review.css"):
        text = client.get(name, headers=TOLD).text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text


def test_paths_lead_nowhere_else(client: Any) -> None:
    for path in (
        "/page/..%2fserver.py",
        "/page/%2e%2e/server.py",
        "/picture/0/..%2f..%2fmanifest.json",
        "/picture/-1/0",
        "/picture/0/9",
        "/picture/999/0",
        "/api/cards/-1",
        "/api/cards/999",
        "/api/session?kind=nonsense",
        "/api/cards/0?kind=texts",  # not of this run
        "/docs",
        "/openapi.json",
    ):
        answer = client.get(path, headers=TOLD)
        assert answer.status_code in (404, 422), path


@pytest.mark.parametrize(
    "said",
    [
        {"verdict": "maybe"},
        {"verdict": 5},
        {"verdict": "unsure", "note": 7},
        {"verdict": "unsure", "note": "x" * 5000},
        {"verdict": "unsure", "ratings": {"correctness": 4}},
        {"verdict": "unsure", "ratings": [1]},
        {"verdict": "unsure", "seen": 3},
    ],
)
def test_what_is_no_judgement_is_refused_with_a_reason(
    client: Any, run: Path, said: dict[str, Any]
) -> None:
    answer = client.post("/api/cards/0/judgement", headers=TOLD, json=said)
    assert answer.status_code == 422
    assert answer.json()["message"]
    assert list(history(run)) == []


def test_a_blinded_rater_gets_no_hint_by_any_path(run: Path) -> None:
    testclient = pytest.importorskip("fastapi.testclient")
    desk = open_desks(str(run), rater="bo", blind=True)[0]
    seeing = open_desks(str(run), rater="zelda")[0]
    seeing.judge(0, "exact duplicate", note="zelda was here")
    app = make_app(desk, token=TOKEN, port=PORT)
    with testclient.TestClient(app, base_url=HERE, headers=TOLD) as client:
        paths = ["/api/session", "/api/progress", "/api/agreement"]
        paths += [f"/api/cards/{index}" for index in range(len(desk.cards))]
        told = "".join(client.get(path).text for path in paths)
    for secret in ("zelda", "same image", "similarity", "lossless", "pdq", "correlation"):
        assert secret not in told, secret
    (order,) = desk.session()["orders"]
    assert sorted(order["cards"]) == list(range(len(desk.cards)))
    assert order["cards"] != seeing.session()["orders"][0]["cards"]
