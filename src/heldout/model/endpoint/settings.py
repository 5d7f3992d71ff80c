"""ModelServer, ModelEndpoint: how a model behind a server is reached, once, for every verb that asks one."""

from __future__ import annotations

import os
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from heldout.errors import InputError
from heldout.model.endpoint.chat import ChatEndpoint
from heldout.model.endpoint.connection import Backoff, Connection, Pace, TokenPace, checked_address
from heldout.settings import Settings


class ModelServer(Settings):
    """A model behind an OpenAI-compatible server; an address alone is one, too."""

    url: str
    """Address of the server, up to and including /v1."""
    model: str | None = None
    """Name of the model; default: the only one that the server offers."""
    api_key_env: str | None = None
    """Environment variable that holds the API key."""
    concurrency: Annotated[int, Field(ge=1, le=256)] = 4
    """Requests under way at a time."""
    timeout: Annotated[float, Field(gt=0)] = 120.0
    """Seconds that one whole request may take."""
    requests_per_second: Annotated[float, Field(gt=0)] | None = None
    """Most requests per second; default: no limit."""
    attempts: Annotated[int, Field(ge=1, le=100)] | None = None
    """Attempts at a request that fails or is answered with "wait", before the server counts as gone; default: 6."""
    token_field: Annotated[str, Field(min_length=1)] = "max_tokens"
    """What the server calls the limit of a reply: max_tokens, max_completion_tokens."""
    price_in: Annotated[float, Field(ge=0)] = 0.0
    """Price of a million prompt tokens."""
    price_out: Annotated[float, Field(ge=0)] = 0.0
    """Price of a million reply tokens."""

    @model_validator(mode="before")
    @classmethod
    def _address_alone(cls, value: Any) -> Any:
        if isinstance(value, ModelServer) and not isinstance(value, cls):
            return value.model_dump(exclude_unset=True)  # roles differ in their defaults
        return {"url": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _holds_no_secret(self) -> Self:
        """Settings are written into the run, so an address must not hold a secret. The whole entry is
        validated, because then error messages repeat no value."""
        try:
            checked_address(self.url, "api_key_env")
        except InputError as error:
            raise ValueError(str(error)) from None
        if self.api_key_env is not None and not self.api_key_env.isidentifier():
            raise ValueError(
                "api_key_env: expected the name of an environment variable that holds the key"
            )
        return self

    def connect(self, role: str = "") -> Connection:
        """A connection to the server.

        Args:
            role: Whose settings error messages name.
        """
        return Connection(
            self.url,
            api_key=read_key(self.api_key_env, role),
            timeout=self.timeout,
            backoff=Backoff() if self.attempts is None else Backoff(self.attempts),
            pace=Pace(self.requests_per_second),
            role=role,
        )


class ProbedServer(ModelServer):
    """A server that is only probed: the user waits for the answer, and can ask again."""

    timeout: Annotated[float, Field(gt=0)] = 60.0
    """Seconds that one whole request may take."""
    attempts: Annotated[int, Field(ge=1, le=100)] | None = 2
    """Attempts at a request that fails, before the server counts as gone."""


class ModelEndpoint(ModelServer):
    """A server whose replies are as long as its own settings allow."""

    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    """Requests under way at a time."""
    max_tokens: Annotated[int, Field(ge=16)] = 4096
    """Longest reply in tokens."""
    tokens_per_minute: Annotated[int, Field(ge=1)] | None = None
    """Token budget per minute, prompts and replies together; default: no limit."""


def read_key(variable: str | None, role: str = "") -> str | None:
    """The API key that an environment variable holds.

    Args:
        variable: Name of the variable; None: there is no key.
        role: Whose settings error messages name.
    """
    if variable is None:
        return None
    value = os.environ.get(variable, "").strip()
    if not value:
        name = f"{role}.api_key_env" if role else "api_key_env"
        raise InputError(f"{name}: the environment variable {variable} is not set")
    return value


def open_endpoint(settings: ModelEndpoint, seed: int | None, role: str = "") -> ChatEndpoint:
    """Ask the server what it serves; an unreachable one is an error before anything is written.

    Args:
        settings: How the server is reached.
        seed: Sent with every request where the server takes one; None: not sent.
        role: Whose settings error messages name.
    """
    return ChatEndpoint.open(
        settings.connect(role),
        settings.model,
        max_tokens=settings.max_tokens,
        concurrency=settings.concurrency,
        token_field=settings.token_field,
        seed=seed,
        tokens=TokenPace(settings.tokens_per_minute),
    )
