"""A real Label Studio server on this machine: started, killed, started again; people who sign up and label."""

from __future__ import annotations

import http.cookiejar
import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("LABEL_STUDIO", ROOT / ".venv-label-studio" / "bin" / "label-studio"))
PATIENCE = 600.0
"""Seconds for the server to start: a minute on a machine that has nothing else to do."""
PASSWORD = "a-password-of-the-tests"


class RealServer:
    """The server in a folder of its own, with its data in SQLite."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = int(free.getsockname()[1])
        self.url = f"http://localhost:{self.port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers."""
        words = [str(PROGRAM), "start", "--no-browser", "--port", str(self.port), "--data-dir", str(self.folder)]
        words += ["--username", "boss@example.org", "--password", PASSWORD]
        quiet = {
            "COLLECT_ANALYTICS": "false",
            "SENTRY_DSN": "",
            "FRONTEND_SENTRY_DSN": "",
            "LATEST_VERSION_CHECK": "false",
        }
        surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                words, cwd=self.folder, stdout=log, stderr=log, env={**surroundings, **quiet}, start_new_session=True
            )
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=10) as answer:
                    if answer.status == 200:
                        return
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(
                        f"Label Studio did not start:\n{(self.folder / 'log').read_text()[-2000:]}"
                    ) from None
                time.sleep(0.5)

    def kill(self) -> None:
        """End it at once, whatever it is doing."""
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


class Person:
    """Somebody in front of a browser: logs in or signs up, and is known by cookies."""

    def __init__(self, server: RealServer) -> None:
        self._server, self._jar = server, http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self._jar))

    def _csrf(self) -> str:
        return next((cookie.value or "" for cookie in self._jar if cookie.name == "csrftoken"), "")

    def _fill_in(self, path: str, **fields: str) -> None:
        address = self._server.url + path
        self._opener.open(address, timeout=120).read()
        content = urllib.parse.urlencode({**fields, "csrfmiddlewaretoken": self._csrf()}).encode()
        self._opener.open(urllib.request.Request(address, content, {"Referer": address}), timeout=120).read()

    def log_in(self, email: str) -> Person:
        self._fill_in("/user/login/", email=email, password=PASSWORD, persist_session="on")
        return self

    def sign_up(self, email: str, invitation: str) -> Person:
        self._fill_in(invitation, email=email, password=PASSWORD, allow_newsletters="false")
        return self

    def api(self, method: str, path: str, body: Any = None) -> Any:
        """Ask the API as the web page does; an answer that is an error fails the test with its text."""
        content = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "X-CSRFToken": self._csrf(), "Referer": self._server.url}
        request = urllib.request.Request(self._server.url + path, content, headers, method=method)
        try:
            text = self._opener.open(request, timeout=120).read().decode()
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{method} {path}: {error.code} {error.read().decode()[:500]}") from None
        return json.loads(text) if text else None
