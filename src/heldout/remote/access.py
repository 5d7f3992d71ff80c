"""What every process of a run needs to reach remote files: where to keep copies, and credentials.

It lies in one environment variable, as credentials of object stores do: worker processes inherit it, the
Ray engine sends it along, and no path, table or manifest holds any of it.
"""

from __future__ import annotations

import functools
import json
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from heldout.errors import InputError
from heldout.store import without_credentials

VARIABLE = "HELDOUT_REMOTE"
WEB = ("https", "http")
SCHEMES = ("s3", "gs", "az", "abfs", *WEB, "hf")
_ADDRESS = re.compile(rf"({'|'.join(SCHEMES)}):/(?=/|[^/])(/?)", re.IGNORECASE)
_PATTERN = re.compile(r"[{*\[].*")
_SECRET_NAMES = re.compile(
    r"SECRET|TOKEN|PASSWORD|CREDENTIAL|ACCESS_KEY|ACCOUNT_KEY|CONNECTION_STRING|SAS"
)


@dataclass(frozen=True)
class Credentials:
    """The credentials of one address and of those below it; "…*" matches all that begin with it."""

    address: str
    login: str = ""  # user:password
    query: str = ""

    def fits(self, address: str) -> bool:
        if self.address.endswith("*"):
            return address.startswith(self.address[:-1])
        return address == self.address or address.startswith(f"{self.address}/")


@dataclass(frozen=True)
class Access:
    """``cache`` is a folder for whole copies of at most ``cache_bytes``; None: nothing is copied."""

    cache: str | None = None
    cache_bytes: int = 0
    secrets: tuple[Credentials, ...] = ()

    def secret(self, address: str) -> Credentials:
        """The credentials that the user gave for an address; empty ones if none."""
        fitting = [secret for secret in self.secrets if secret.fits(address)]
        return max(fitting, key=lambda secret: len(secret.address), default=Credentials(""))


def access() -> Access:
    return _read(os.environ.get(VARIABLE, ""))


@functools.lru_cache(maxsize=4)
def _read(text: str) -> Access:
    if not text:
        return Access()
    record = json.loads(text)
    secrets = tuple(Credentials(**secret) for secret in record.pop("secrets"))
    return Access(**record, secrets=secrets)


def _write(new: Access) -> None:
    os.environ[VARIABLE] = json.dumps(asdict(new))


def use_cache(folder: str | Path | None, gigabytes: float) -> None:
    """Keep whole copies of remote files in ``folder``, in this process and in workers started from now on."""
    path = str(Path(folder).absolute()) if folder is not None else None
    if path is not None:
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
            if not os.access(path, os.W_OK | os.X_OK):
                raise PermissionError(13, "it may not be written to")
        except OSError as error:
            reason = "it is a file" if Path(path).is_file() else error.strerror
            raise InputError(f"cache: {path} cannot be the cache folder: {reason}") from error
    _write(Access(path, int(gigabytes * 1e9), access().secrets))


def is_remote(location: str) -> bool:
    """True for an address rather than a path; ``hf://owner/name`` is a name, read by the extra hub."""
    match = _ADDRESS.match(location)
    if match is None or not match[2]:
        return False
    return match[1].lower() != "hf" or location.startswith("hf://datasets/")


def known_schemes(location: str) -> str:
    """For an address of an unknown kind: which are known, as the end of a sentence; "" for a path."""
    kind = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", location)
    if kind is None or location.lower().startswith("hf://"):
        return ""
    return f"; addresses begin with {', '.join(f'{scheme}://' for scheme in SCHEMES)}"


def without_secrets(location: str) -> str:
    """An address without its credentials, which this process and its workers remember from now on.

    Args:
        location: As the user wrote it: ``https://user:password@host/x.tar?signature=…``.
    """
    parts = urlsplit(location)
    scheme = parts.scheme.lower()
    login, _, host = parts.netloc.rpartition("@")
    if scheme == "abfs" and login:  # abfs://container@account.dfs.core.windows.net/
        login, host = "", parts.netloc
    if login and scheme not in WEB:
        raise InputError(
            f"{scheme}://{host}{parts.path}: credentials do not belong in this address; put them where "
            f"the store's own tools look for them (environment or configuration file)"
        )
    if not host:
        place = {"hf": "datasets/owner/name"}.get(
            scheme, "host/path" if scheme in WEB else "bucket/key"
        )
        raise InputError(f"{scheme}://: expected {scheme}://{place}")
    if scheme not in (*WEB, "az", "abfs"):
        return f"{scheme}{location[len(scheme) :].rstrip('/')}"  # "?" is part of a name
    path = unquote(parts.path) if scheme in WEB else parts.path
    clean = f"{scheme}://{host}{path}".rstrip("/")
    if login or parts.query:
        known = access()
        secret = Credentials(_PATTERN.sub("*", clean, count=1), login, parts.query)
        others = tuple(other for other in known.secrets if other.address != secret.address)
        _write(Access(known.cache, known.cache_bytes, (*others, secret)))
    return clean


def harmless(text: str) -> str:
    """A message of a library without credentials: those in addresses, and the values of secrets."""
    text = re.sub(r"(\w+://[^\s?'\"]+)\?[^\s'\")]+", r"\1?…", without_credentials(text))
    known = [value for secret in access().secrets for value in (secret.login, secret.query)]
    known += [value for name, value in os.environ.items() if _SECRET_NAMES.search(name)]
    for value in sorted(known, key=len, reverse=True):
        if len(value) > 5:
            text = text.replace(value, "***")
    return " ".join(text.split())[:500]
