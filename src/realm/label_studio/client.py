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
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from realm.errors import RealmError

logger = logging.getLogger(__name__)

TIMEOUT = 120.0
"""Seconds for one answer: a page of long tasks from a busy server takes many."""
MAX_RETRY_SECONDS = 300.0
"""Seconds that a server may be away, while it is started again, before we give up."""
FIRST_RETRY_SECONDS = 10.0
"""The same of one that has not answered yet: the address is probably wrong."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds between tries: doubled from the first to the longest. A server that says how long is waited for so long."""
SERVER_ERRORS = 6
"""Tries of what the server answers with an error of its own, which may be a mistake that no patience mends."""
LONGEST_ANSWER = 200
"""Characters of a server's answer that a message quotes."""
REFRESH = "/api/token/refresh/"


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
        self, url: str, key: str, *, patience: float = MAX_RETRY_SECONDS, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self.url = _checked_url(url)
        self._key = key.strip()
        if not re.fullmatch(r"[\x21-\x7e]+", self._key):
            raise RealmError("`key`: the key of Label Studio is empty, or holds blanks or other characters no key has.")
        self._is_refresh_token = self._key.count(".") == 2 and self._key.startswith("eyJ")
        self._access, self._has_answered = "", False
        self._patience, self._wait = patience, wait
        self._opener = urllib.request.build_opener(_NoRedirects)

    def __repr__(self) -> str:
        return f"Server({self.url!r})"

    def get(self, path: str, **query: Any) -> Any:
        """The JSON at an address; tried again while the server is away."""
        return self._ask("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""), None)

    def send(self, method: str, path: str, body: Any, *, repeatable: bool = True) -> Any:
        """Send JSON and return the answer.

        Where it is not `repeatable` and the connection is cut, `UnknownOutcome` is raised instead of sending it again.
        """
        return self._ask(method, path, body, repeatable)

    def _ask(self, method: str, path: str, body: Any, repeatable: bool = True, authorized: bool = True) -> Any:
        """One request, tried again until there is an answer."""
        waited, pause, errors, renewed = 0.0, FIRST_WAIT, 0, False
        while True:
            seconds = pause
            authorization = self._authorization() if authorized else None
            try:
                answer = self._once(method, path, body, authorization)
                self._has_answered = True
                return answer
            except urllib.error.HTTPError as error:
                self._has_answered = True
                reason = self._quoted(error)
                if error.code == 401 and authorized and self._is_refresh_token and not renewed:
                    self._access, renewed = "", True  # access tokens live for minutes
                    continue
                if error.code < 500 and error.code != 429:
                    raise self._refusal(error, reason, path) from None
                if error.code >= 500:
                    errors += 1
                    if not repeatable:
                        raise UnknownOutcome from None
                    if errors == SERVER_ERRORS:
                        place = f"{method} {path.partition('?')[0]}"
                        raise RealmError(
                            f"{self.url} answers with an error of its own, {errors} times: {place}: {reason}."
                        ) from None
                asked = error.headers.get("Retry-After", "")
                seconds = max(float(asked), FIRST_WAIT) if asked.isdigit() else pause
            except (OSError, http.client.HTTPException) as error:  # refused, cut or timed out
                if not repeatable:
                    raise UnknownOutcome from None
                reason = _reason(error)
            patience = self._patience if self._has_answered else FIRST_RETRY_SECONDS
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
            answer = self._ask("POST", REFRESH, {"refresh": self._key}, authorized=False)
            if not (isinstance(answer, dict) and isinstance(answer.get("access"), str)):
                raise RealmError(f"{self.url} does not answer as Label Studio does. Is `url` right?")
            self._access = answer["access"]
        return f"Bearer {self._access}"

    def _once(self, method: str, path: str, body: Any, authorization: str | None) -> Any:
        """One try. Raises an `OSError` or `HTTPException` for a cut, and `HTTPError` for an answer that is an error."""
        headers = {"Accept": "application/json", "Content-Type": "application/json"}
        if authorization is not None:
            headers["Authorization"] = authorization
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                content, kind = answer.read(), answer.headers.get_content_type()
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLError):  # no patience makes a certificate valid
                raise RealmError(f"{self.url}: no safe connection ({error.reason}).") from None
            raise
        if not content:
            return None
        if kind != "application/json":
            raise RealmError(f"{self.url} does not answer as Label Studio does, but with {kind}. Is `url` right?")
        try:
            return json.loads(content)
        except ValueError:
            raise http.client.IncompleteRead(content) from None

    def _quoted(self, error: urllib.error.HTTPError) -> str:
        """What the server says of an error, without the key and in one line."""
        try:
            text = error.read().decode("utf-8", "replace")
            answer = json.loads(text)
            text = str(answer.get("detail") or answer) if isinstance(answer, dict) else str(answer)
        except ValueError:
            text = re.sub(r"<[^>]*>", " ", text)
        except (OSError, http.client.HTTPException):
            text = ""
        for secret in filter(None, (self._key, self._access)):
            text = text.replace(secret, "[key]")
        return f"{error.code} {error.reason}: {' '.join(text.split())[:LONGEST_ANSWER]}".rstrip(": ")

    def _refusal(self, error: urllib.error.HTTPError, reason: str, path: str) -> RealmError:
        address = self.url + path.partition("?")[0]
        if 300 <= error.code < 400:
            location = error.headers.get("Location", "")
            place = urllib.parse.urlsplit(location)
            there = f"{place.scheme}://{place.hostname}" if place.hostname else location
            return RealmError(f"{self.url} sends us on to {there}. Give the address that answers itself as `url`.")
        if error.code == 401:
            return RealmError(
                f"{self.url} refuses the key ({reason}). It must be a personal access token (Label Studio: Account & "
                "Settings, Personal Access Token) or, where the organisation allows them, a legacy token."
            )
        if error.code == 403:
            return RealmError(f"{address}: this key's owner has no right to it ({reason}). Use the key of a member.")
        if error.code == 404:
            return NotFound(f"{address}: there is no such thing ({reason}).")
        return RealmError(f"{address}: {reason}.")


def _reason(error: BaseException) -> str:
    """Why a connection failed, in words without an address."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    return (isinstance(cause, OSError) and cause.strerror) or "the connection was cut"


def _checked_url(url: str) -> str:
    """The address of a server, without a slash at its end; one that holds a password or leads nowhere is refused."""
    try:
        parts = urllib.parse.urlsplit(url)
        has_host = bool(parts.hostname) and parts.port != 0  # `port` raises for what is none
    except ValueError:
        has_host = False
    if "@" in url.partition("//")[2].partition("/")[0]:
        raise RealmError("`url`: a name or password does not belong in the address; the key is all that is needed.")
    if not has_host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise RealmError(f"`url={url}`: not the address of a server, such as https://labels.example.org.")
    if os.environ.get("REALM_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise RealmError("network calls are forbidden (`offline`, REALM_OFFLINE): Label Studio cannot be asked.")
    if parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
        logger.warning(f"{parts.hostname}: an http address: whoever is on the way can read the key. Use https.")
    return url.rstrip("/")
