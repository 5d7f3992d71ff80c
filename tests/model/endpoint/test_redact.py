"""A key is found in whatever way servers write it, and nothing else is touched."""

from __future__ import annotations

import base64
import html
import json
import random
import re
import urllib.parse
from typing import Any

import pytest

from heldout.model.endpoint._client import STRUCK, Secret

#: with what has to be escaped in addresses, JSON and HTML
KEY = "sk-live/9d+1f\"q\\w'&<z>=_7~Zz"
PLAIN = "sk-proj-0123456789abcdefABCDEF"
MANY = [KEY, PLAIN, "12345678", "sesame-9d1f", "a" * 200]


def ways(key: str) -> dict[str, str]:
    header = f"Bearer {key}"
    return {
        "plain": key,
        "upper case": key.upper(),
        "lower case": key.lower(),
        "header": header,
        "url": f"https://host/?api_key={urllib.parse.quote(key, safe='')}&x=1",
        "query": urllib.parse.urlencode({"key": key}),
        "lower case url": re.sub("%..", lambda escape: escape[0].lower(), urllib.parse.quote(key)),
        "json": json.dumps({"Authorization": header}),
        "json in json": json.dumps({"error": json.dumps({"Authorization": header})}),
        "repr": repr({"Authorization": header}),
        "html": f"<pre>{html.escape(header)}</pre>",
        "hex": header.encode().hex(),
        "numbered": "".join(f"\\u{ord(letter):04x}" for letter in key),
        "percent": "".join(f"%{ord(letter):02x}" for letter in key),
        **{
            f"base64 behind {behind!r}": base64.b64encode(f"{behind}{key}{after}".encode()).decode()
            for behind in ("", "x", "me", "me:", "Bearer ", "Authorization: Bearer ")
            for after in ("", ":", "\r\n", "and more")
        },
        "base64 of an address": base64.urlsafe_b64encode(header.encode()).decode().rstrip("="),
    }


def holds(text: str, key: str) -> bool:
    """Whether somebody who decodes ``text`` as far as it goes finds the key."""
    levels = [text]
    for _ in range(2):
        for level in list(levels):
            levels.append(urllib.parse.unquote(level))
            levels.append(urllib.parse.unquote_plus(level))
            levels.append(html.unescape(level))
            levels.append(level.replace("\\/", "/").replace('\\"', '"').replace("\\\\", "\\"))
    for cut in range(4):
        for decode in (base64.b64decode, base64.urlsafe_b64decode):
            for level in (text[cut:], text[cut:].rstrip("=")):
                even = level[: len(level) // 4 * 4]
                try:
                    levels.append(decode(even).decode("latin-1"))
                except ValueError:
                    continue
    return any(key in level for level in levels)


@pytest.mark.parametrize("key", MANY)
def test_every_way_to_write_a_key_is_struck_out(key: str) -> None:
    secret = Secret(key)
    for name, text in ways(key).items():
        redacted = secret.redact(text)
        assert STRUCK in redacted, name
        assert not holds(redacted, key), name
        assert key not in repr(secret)


def test_a_parsed_answer_is_clean_however_json_spelled_it() -> None:
    secret = Secret(PLAIN)
    letters = "".join(f"\\u{ord(letter):04X}" for letter in PLAIN)
    one = PLAIN.replace("p", "\\u0070", 1)
    texts = [
        json.dumps({"a": [PLAIN, {PLAIN: "x", "n": 3}], "b": f"see {PLAIN}!"}),
        f'{{"a": "{letters}", "b": ["{one}"], "{one}": null}}',
        json.dumps({"a": json.dumps({"b": json.dumps({"c": PLAIN})})}),
    ]
    for text in texts:
        clean = secret.clean(json.loads(text), text)
        assert PLAIN not in json.dumps(clean)
        assert STRUCK in json.dumps(clean)


def test_what_holds_no_key_is_not_touched() -> None:
    value: Any = {"text": "Ärger \\ / \u2581yes", "n": [1, 2.5, None, True], "k/e": "sk-live"}
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert Secret(KEY).clean(json.loads(text), text) == value
    assert Secret(None).redact("anything") == "anything"
    noise = random.Random(0).randbytes(200_000)
    picture = base64.b64encode(noise).decode()
    assert Secret("12345678").redact(picture) == picture


@pytest.mark.parametrize(
    ("key", "text", "expected"),
    [
        ("EMPTY", "The cup is EMPTY.", "The cup is ***."),
        ("EMPTY", "UNEMPTYABLE, empty", "UNEMPTYABLE, empty"),
        ("hunter2", "Authorization: Bearer hunter2", "Authorization: ***"),
        ("x", "an x-ray of x", "an x-ray of x"),
        ("x", "Bearer x", "***"),
        ("42", "42 cats; bearer%2042", "42 cats; ***"),
    ],
)
def test_a_short_key_is_struck_out_as_a_word_or_where_it_is_called_one(
    key: str, text: str, expected: str
) -> None:
    assert Secret(key).redact(text) == expected
