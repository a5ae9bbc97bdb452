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
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from realm.errors import RealmError

logger = logging.getLogger(__name__)

TIMEOUT = 120.0
"""Seconds for one answer: a page of long tasks from a busy server takes many."""
PATIENCE = 300.0
"""Seconds that a server may be away, while it is started again, before we give up."""
FIRST_PATIENCE = 10.0
"""The same of one that has not answered yet: the address is probably wrong."""
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""Seconds between tries: doubled from the first to the longest."""
SERVER_ERRORS = 6
"""Tries of what the server answers with an error of its own, which may be a mistake that no patience mends."""
LONGEST_ANSWER = 200
"""Characters of a server's answer that a message quotes."""
REFRESH = "/api/token/refresh/"
CUT = (OSError, http.client.HTTPException)
"""What a connection that is refused or cut raises (a timeout among them)."""


class Interrupted(Exception):
    """The connection was cut while something was sent that must not be sent twice: whether it arrived is unknown."""


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
        return self._ask("GET", path + ("?" + urllib.parse.urlencode(query) if query else ""), None, repeatable=True)

    def send(self, method: str, path: str, body: Any, *, repeatable: bool = True) -> Any:
        """Send JSON and return the answer.

        Where it is not `repeatable` and the connection is cut, `Interrupted` is raised instead of sending it again.
        """
        return self._ask(method, path, body, repeatable=repeatable)

    # ---------------------------------------------------------------- asking until there is an answer

    def _ask(self, method: str, path: str, body: Any, *, repeatable: bool, authorized: bool = True) -> Any:
        away = _Outage(self.url, self._patience if self._has_answered else FIRST_PATIENCE, self._wait)
        renewed = False
        while True:
            authorization = self._authorization() if authorized else None
            try:
                answer = self._once(method, path, body, authorization)
            except _Refused as refused:
                self._has_answered = True
                if refused.status == 401 and authorized and self._is_refresh_token and not renewed:
                    self._access, renewed = "", True  # access tokens live for minutes
                elif refused.status == 429:
                    away.wait(refused.reason, refused.retry_after)
                elif refused.status >= 500 and repeatable:
                    away.server_error(f"{method} {_place(path)}: {refused.reason}")
                elif refused.status >= 500:
                    raise Interrupted from None
                else:
                    self._fail(refused, path)
            except CUT as error:
                if not repeatable:
                    raise Interrupted from None
                away.wait(_reason(error))
            else:
                self._has_answered = True
                return answer

    def _authorization(self) -> str:
        if not self._is_refresh_token:
            return f"Token {self._key}"
        if not self._access:
            answer = self._ask("POST", REFRESH, {"refresh": self._key}, repeatable=True, authorized=False)
            if not (isinstance(answer, dict) and isinstance(answer.get("access"), str)):
                raise RealmError(f"{self.url} does not answer as Label Studio does. Is `url` right?")
            self._access = answer["access"]
        return f"Bearer {self._access}"

    def _once(self, method: str, path: str, body: Any, authorization: str | None) -> Any:
        """One request. Raises `_Refused` for an answer that is an error, and what is in CUT."""
        headers = {"Accept": "application/json"}
        if authorization is not None:
            headers["Authorization"] = authorization
        data = None
        if body is not None:
            data, headers["Content-Type"] = json.dumps(body).encode(), "application/json"
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with self._opener.open(request, timeout=TIMEOUT) as answer:
                content, kind = answer.read(), answer.headers.get_content_type()
        except urllib.error.HTTPError as error:
            raise _Refused(error.code, self._quoted(error), dict(error.headers.items())) from None
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

    # ---------------------------------------------------------------- what is said when it fails

    def _quoted(self, error: urllib.error.HTTPError) -> str:
        """What the server says of an error, without the key and in one line."""
        try:
            text = error.read().decode("utf-8", "replace")
        except CUT:
            text = ""
        try:
            answer = json.loads(text)
            text = str(answer.get("detail") or answer) if isinstance(answer, dict) else str(answer)
        except ValueError:
            text = re.sub(r"<[^>]*>", " ", text)
        for secret in filter(None, (self._key, self._access)):
            text = text.replace(secret, "[key]")
        return f"{error.code} {error.reason}: {' '.join(text.split())[:LONGEST_ANSWER]}".rstrip(": ")

    def _fail(self, refused: _Refused, path: str) -> NoReturn:
        if 300 <= refused.status < 400:
            place = urllib.parse.urlsplit(refused.location)
            there = f"{place.scheme}://{place.hostname}" if place.hostname else refused.location
            raise RealmError(f"{self.url} sends us on to {there}. Give the address that answers itself as `url`.")
        if refused.status == 401:
            raise RealmError(
                f"{self.url} refuses the key ({refused.reason}). It must be a personal access token (Label Studio: "
                "Account & Settings, Personal Access Token) or, where the organisation allows them, a legacy token."
            )
        if refused.status == 403:
            raise RealmError(f"{self.url}: this key's owner has no right to {_place(path)} ({refused.reason}).")
        if refused.status == 404:
            raise NotThere(f"{self.url}{_place(path)}: there is no such thing ({refused.reason}).")
        raise RealmError(f"{self.url}{_place(path)}: {refused.reason}.")


class NotThere(RealmError):
    """What was asked for does not exist on the server."""


class _Refused(Exception):
    """An answer that is an error."""

    def __init__(self, status: int, reason: str, headers: Mapping[str, str]) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason
        self.location = str(headers.get("Location") or "")
        seconds = str(headers.get("Retry-After") or "")
        self.retry_after = float(seconds) if seconds.isdigit() else None


class _Outage:
    """One request's tries: how long to wait before the next, and when to give up."""

    def __init__(self, url: str, patience: float, wait: Callable[[float], None]) -> None:
        self._url, self._patience, self._wait = url, patience, wait
        self._waited, self._errors, self._next = 0.0, 0, FIRST_WAIT

    def wait(self, reason: str, seconds: float | None = None) -> None:
        if self._waited >= self._patience:
            raise RealmError(
                f"{self._url} does not answer ({reason}), tried for {self._waited:.0f} seconds. Is it running, and is "
                "`url` right? Nothing is lost: give the same command again when it is back."
            )
        if not self._waited:
            logger.warning(f"{self._url}: {reason}. Trying again for up to {self._patience:.0f} seconds.")
        seconds = min(self._next if seconds is None else max(seconds, FIRST_WAIT), LONGEST_WAIT)
        seconds = min(seconds, self._patience - self._waited)
        self._wait(seconds)
        self._waited += seconds
        self._next = min(2 * self._next, LONGEST_WAIT)

    def server_error(self, reason: str) -> None:
        self._errors += 1
        if self._errors >= SERVER_ERRORS:
            raise RealmError(f"{self._url} answers with an error of its own, {self._errors} times: {reason}.")
        self.wait(reason)


def _reason(error: BaseException) -> str:
    """Why a connection failed, in words without an address."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return "the connection was cut"


def _place(path: str) -> str:
    """An address without what was asked of it."""
    return path.partition("?")[0]


def _checked_url(url: str) -> str:
    """The address of a server, without a slash at its end; one that holds a password or leads nowhere is refused."""
    try:
        parts = urllib.parse.urlsplit(url)
        has_host, password = bool(parts.hostname), parts.username is not None or parts.password is not None
        _ = parts.port
    except ValueError:
        has_host, password = False, False
    if password:
        raise RealmError("`url`: a name or password does not belong in the address; the key is all that is needed.")
    if not has_host or parts.scheme not in ("http", "https") or parts.query or parts.fragment:
        raise RealmError(f"`url={url}`: not the address of a server, such as https://labels.example.org.")
    if os.environ.get("REALM_OFFLINE", "").lower() in ("1", "true", "yes", "on"):
        raise RealmError("network calls are forbidden (`offline`, REALM_OFFLINE): Label Studio cannot be asked.")
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if parts.scheme == "http" and not local:
        logger.warning(f"{parts.hostname}: an http address: whoever is on the way can read the key. Use https.")
    return url.rstrip("/")
