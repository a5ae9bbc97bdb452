"""A Label Studio server: JSON over HTTP with a key, tried again when the connection is cut.

Keys are personal access tokens (a refresh token, exchanged for access tokens that live for minutes) or legacy tokens.
They are sent to this server alone and stand in no message: redirects are not followed, and what a server answers is
quoted without them.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import re
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode, urlsplit

from realm.errors import RealmError

logger = logging.getLogger(__name__)
TIMEOUT = 120.0  # seconds for one answer: a page of long tasks from a busy server takes many
PATIENCE, FIRST_PATIENCE = 300.0, 10.0
"""Seconds that a server may be away, while it is started again; the second of one that has not yet answered, whose
address is probably wrong."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds between tries: doubled from the first to the longest. A server that says how long is waited for so long."""
SERVER_ERRORS = 6
"""Tries of what the server answers with an error of its own, which may be a mistake that no patience mends."""
LONGEST_ANSWER = 200  # characters that a message quotes


class UnknownOutcome(Exception):
    """The connection was cut while something was sent that must not be sent twice: whether it arrived is unknown."""


class NotFound(RealmError):
    """What was asked for does not exist on the server."""


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect may lead to another server, which must not get the key."""

    def redirect_request(self, *args: Any) -> None:
        return None


class Server:
    """A Label Studio server and a key to it.

    Args:
        url: where it is, such as `https://labels.example.org` or `http://localhost:8080`.
        key: a personal access token or a legacy token.
        patience: seconds that it may be away before a request fails.
        wait: how to wait for so many seconds.
    """

    def __init__(
        self, url: str, key: str, *, patience: float = PATIENCE, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self.url, self._key, self._access = _checked_url(url), key.strip(), ""
        if not re.fullmatch(r"[\x21-\x7e]+", self._key):
            raise RealmError("`key`: the key of Label Studio is empty, or holds blanks or other characters no key has.")
        self._is_refresh_token = self._key.count(".") == 2 and self._key.startswith("eyJ")
        self._patience, self._wait, self._has_answered = patience, wait, False
        self._opener = urllib.request.build_opener(_NoRedirects)

    def __repr__(self) -> str:
        return f"Server({self.url!r})"

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at an address."""
        return self.send("GET", path + ("?" + urlencode(query) if query else ""), None)

    def send(self, method: str, path: str, body: Any, *, repeatable: bool = True, authorized: bool = True) -> Any:
        """Send JSON and return the answer; tried again while the server is away.

        Where it is not `repeatable` and the connection is cut, `UnknownOutcome` is raised instead of sending it again.
        """
        waited, pause, errors, renewed = 0.0, FIRST_WAIT, 0, False
        while True:
            seconds = pause
            try:
                content = self._once(method, path, body, self._authorization() if authorized else None)
                self._has_answered = True
                return content
            except urllib.error.HTTPError as error:
                self._has_answered, reason = True, self._quoted(error)
                if error.code == 401 and authorized and self._is_refresh_token and not renewed:
                    self._access, renewed = "", True  # access tokens live for minutes
                    continue
                errors += error.code >= 500
                if (error.code < 500 and error.code != 429) or errors == SERVER_ERRORS:
                    raise self._refusal(error, reason, path.partition("?")[0]) from None
                if error.code >= 500 and not repeatable:
                    raise UnknownOutcome from None
                asked = error.headers.get("Retry-After", "")
                seconds = max(float(asked), FIRST_WAIT) if asked.isdigit() else pause
            except (OSError, http.client.HTTPException) as error:  # refused, cut or timed out
                cause = error.reason if isinstance(error, urllib.error.URLError) else error
                if isinstance(cause, ssl.SSLError):  # no patience makes a certificate valid
                    raise RealmError(f"{self.url}: no safe connection ({cause}).") from None
                if not repeatable:
                    raise UnknownOutcome from None
                reason = getattr(cause, "strerror", None) or "the connection was cut"
            patience = self._patience if self._has_answered else FIRST_PATIENCE
            if waited >= patience:
                raise RealmError(
                    f"{self.url} does not answer ({reason}), tried for {waited:.0f} seconds. Is it running, and is "
                    "`url` right? Nothing is lost: give the same command again when it is back."
                )
            if not waited:
                logger.warning(f"{self.url}: {reason}. Trying again for up to {patience:.0f} seconds.")
            seconds = min(seconds, patience - waited)
            self._wait(seconds)
            waited, pause = waited + seconds, min(2 * pause, LONGEST_WAIT)

    def _authorization(self) -> str:
        if not self._is_refresh_token:
            return f"Token {self._key}"
        if not self._access:
            answer = self.send("POST", "/api/token/refresh/", {"refresh": self._key}, authorized=False)
            if not (isinstance(answer, dict) and isinstance(answer.get("access"), str)):
                raise RealmError(f"{self.url} does not answer as Label Studio does. Is `url` right?")
            self._access = answer["access"]
        return f"Bearer {self._access}"

    def _once(self, method: str, path: str, body: Any, authorization: str | None) -> Any:
        """One try. Raises an `OSError` or `HTTPException` for a cut, and `HTTPError` for an answer that is an error."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        headers |= {} if authorization is None else {"Authorization": authorization}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        with self._opener.open(request, timeout=TIMEOUT) as answer:
            content = answer.read()
        try:
            return json.loads(content) if content else None
        except ValueError:
            raise RealmError(f"{self.url} does not answer as Label Studio does. Is `url` right?") from None

    def _quoted(self, error: urllib.error.HTTPError) -> str:
        """What the server says of an error, without the key and in one line."""
        try:
            text = re.sub(r"<[^>]*>", " ", error.read().decode("utf-8", "replace"))
        except (OSError, http.client.HTTPException):
            text = ""
        for secret in filter(None, (self._key, self._access)):
            text = text.replace(secret, "[key]")
        return f"{error.code} {error.reason}: {' '.join(text.split())[:LONGEST_ANSWER]}"

    def _refusal(self, error: urllib.error.HTTPError, reason: str, path: str) -> RealmError:
        if 300 <= error.code < 400:
            there = urlsplit(error.headers.get("Location", "")).hostname
            return RealmError(f"{self.url} sends us on to {there}. Give the address that answers itself as `url`.")
        if error.code == 401:
            return RealmError(
                f"{self.url} refuses the key ({reason}). It must be a personal access token (Label Studio: Account & "
                "Settings, Personal Access Token) or, where the organisation allows them, a legacy token."
            )
        hint = " Use the key of a member of the project." if error.code == 403 else ""
        return (NotFound if error.code == 404 else RealmError)(f"{self.url}{path}: {reason}.{hint}")


def _checked_url(url: str) -> str:
    """The address of a server, without a slash at its end; one that holds a password or leads nowhere is refused."""
    try:
        parts = urlsplit(url)
        is_address = bool(parts.hostname) and parts.port != 0 and parts.scheme in ("http", "https")
    except ValueError:  # a port that is none
        is_address = False
    if not is_address or parts.query or parts.fragment or "@" in parts.netloc:
        raise RealmError(
            "`url`: not the address of a server, such as https://labels.example.org, without a name or password."
        )
    if os.environ.get("REALM_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise RealmError("network calls are forbidden (`offline`, REALM_OFFLINE): Label Studio cannot be asked.")
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        logger.warning(f"{parts.hostname}: an http address: whoever is on the way can read the key. Use https.")
    return url.rstrip("/")
