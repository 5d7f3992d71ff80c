"""The text flags of `heldout overlap`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from heldout.cli.from_settings import Shown, with_options
from heldout.cli.options import per_second
from heldout.errors import HeldoutError, InputError
from heldout.model import ChatEndpoint, ModelServer, open_chat
from heldout.overlap import MAX_TOKENS, TextSearch

Text = Annotated[
    bool,
    typer.Option(
        "--text", help="Also look for the questions, options, answers and captions in the corpora."
    ),
]
TextEncoder = Annotated[
    str | None,
    typer.Option(
        "--text-encoder",
        metavar="E",
        help="With --text: also look for paraphrases, by wordllama (small, needs the extra text) or "
        "transformers:NAME, for example transformers:BAAI/bge-m3.",
    ),
]
JudgeUrl = Annotated[
    str | None,
    typer.Option(
        "--judge",
        metavar="URL",
        help="With --text-encoder: a model behind this address (http://host:8000/v1) reads every "
        "paraphrase that counts; what it calls different no longer does.",
    ),
]
JudgeModel = Annotated[
    str | None,
    typer.Option("--judge-model", metavar="NAME", help="Where the judge's server has several."),
]
JudgeKey = Annotated[
    str | None,
    typer.Option("--judge-api-key-env", metavar="VAR", help="Variable that holds the judge's key."),
]
JudgeConcurrency = Annotated[
    int, typer.Option("--judge-concurrency", min=1, max=256, help="Pairs asked at a time.")
]
JudgeRate = Annotated[
    str | None,
    typer.Option("--judge-rate", metavar="N/s", help="Most requests to the judge: 5/s, 100/m."),
]
JudgeTimeout = Annotated[
    float,
    typer.Option(
        "--judge-timeout", metavar="S", min=0.1, help="Seconds for one attempt at a reply."
    ),
]
JudgeTokens = Annotated[
    int,
    typer.Option(
        "--judge-max-new-tokens", min=16, help="Of the judge's reply, its reasons included."
    ),
]
JudgeTokenField = Annotated[
    str,
    typer.Option(
        "--judge-token-field", help="What its server calls the limit: max_completion_tokens …"
    ),
]
JudgeAll = Annotated[
    bool,
    typer.Option("--judge-all", help="The judge also reads candidates that do not count anyway."),
]
JUDGE_TOKENS = MAX_TOKENS


@dataclass(frozen=True)
class JudgeOptions:
    """What was given of a judge; ``open`` asks its server what it serves, before anything is searched."""

    url: str | None
    model: str | None
    key_variable: str | None
    concurrency: int
    rate: str | None
    timeout: float
    tokens: int
    token_field: str
    every: bool

    def open(self, text: bool, encoder: str | None) -> ChatEndpoint | None:
        if self.url is None:
            if self.model or self.key_variable or self.every:
                raise InputError(
                    "who is to judge? --judge-model, -api-key-env and -all need --judge URL"
                )
            return None
        if not text or encoder is None:
            raise InputError(
                "--judge reads paraphrases, and only --text-encoder finds any: add "
                "--text --text-encoder wordllama"
            )
        shown = tuple(Shown(f"judge.{name}") for name in ("url", "model", "api_key_env", "timeout"))
        try:
            server = ModelServer.read(
                {
                    "url": self.url,
                    "model": self.model,
                    "api_key_env": self.key_variable,
                    "concurrency": self.concurrency,
                    "requests_per_second": per_second(self.rate, "--judge-rate"),
                    "timeout": self.timeout,
                    "token_field": self.token_field,
                }
            )
            return open_chat(server, "judge", max_tokens=self.tokens)
        except HeldoutError as error:
            error.args = (with_options(str(error), shown), *error.args[1:])
            raise


def text_search(asked: bool, encoder: str | None) -> TextSearch | None:
    if encoder is not None and not asked:
        raise InputError("--text-encoder finds paraphrases in a text search: add --text")
    return TextSearch(encoder=encoder) if asked else None
