"""A model behind an OpenAI-compatible server: vLLM, or any server that gives log-probabilities of prompts."""

from heldout.model.endpoint.capabilities import Ability, Capabilities, as_json, probe
from heldout.model.endpoint.connection import (
    Backoff,
    Connection,
    EndpointError,
    Pace,
    TokenPace,
    checked_address,
)
from heldout.model.endpoint.endpoint import Endpoint

__all__ = [
    "Ability",
    "Backoff",
    "Capabilities",
    "Connection",
    "Endpoint",
    "EndpointError",
    "Pace",
    "TokenPace",
    "as_json",
    "checked_address",
    "probe",
]
