"""A Hugging Face hub for tests: the real client talks to a server on this machine, which keeps what it is sent."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

TOKEN = "hf_planted_token_that_must_stay_secret"


class FakeHub:
    """What the hub was sent: `created` repositories, the files of `commits`, and every request with its token."""

    def __init__(self) -> None:
        self.account: dict[str, Any] = {"name": "me", "orgs": [{"name": "lab"}]}
        self.created: list[dict[str, Any]] = []
        self.commits: list[dict[str, bytes]] = []
        self.requests: list[str] = []
        self.failing: dict[str, int] = {}
        """The status that requests to a path which holds this text are answered with."""

    @property
    def files(self) -> dict[str, bytes]:
        """Those of the only commit."""
        (commit,) = self.commits
        return commit

    def answer(self, path: str, authorization: str, body: bytes) -> tuple[int, Any]:
        self.requests.append(path)
        for text, status in self.failing.items():
            if text in path:
                return status, {"error": "planted"}
        if authorization != f"Bearer {TOKEN}":
            return 401, {"error": "Invalid username or password."}
        if path == "/api/whoami-v2":
            return 200, self.account
        if path == "/api/repos/create":
            self.created.append(json.loads(body))
            wanted = self.created[-1]
            name = f"{wanted.get('organization') or 'me'}/{wanted['name']}"
            return 200, {"url": f"https://huggingface.co/{name}"}
        if path == "/api/validate-yaml":
            return 200, {"errors": [], "warnings": []}
        if "/preupload/" in path:
            files = [{"path": file["path"], "uploadMode": "regular"} for file in json.loads(body)["files"]]
            return 200, {"files": [{**file, "shouldIgnore": False} for file in files]}
        if "/commit/" in path:
            lines = [json.loads(line) for line in body.splitlines()]
            files = [line["value"] for line in lines if line["key"] == "file"]
            assert {line["key"] for line in lines} == {"header", "file"}
            self.commits.append({file["path"]: base64.b64decode(file["content"]) for file in files})
            return 200, {"success": True, "commitOid": "0" * 40, "commitUrl": "https://huggingface.co/me/x/commit/0"}
        return 404, {"error": f"no such path: {path}"}


@contextmanager
def serving(hub: FakeHub) -> Iterator[str]:
    """The address of a server that answers as this hub."""

    class Handler(BaseHTTPRequestHandler):
        def respond(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            path = self.path.partition("?")[0]
            status, content = hub.answer(path, self.headers.get("Authorization", ""), body)
            payload = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = respond

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def connected(hub: FakeHub) -> Iterator[pytest.MonkeyPatch]:
    """Let the client of this process talk to this hub, with its token, and with network calls allowed."""
    from huggingface_hub import constants

    with serving(hub) as address, pytest.MonkeyPatch.context() as patch:
        patch.setattr(constants, "ENDPOINT", address)
        patch.setattr(constants, "HF_HUB_OFFLINE", False)
        patch.setenv("HF_TOKEN", TOKEN)
        for name in ("HF_HUB_OFFLINE", "REALM_OFFLINE"):
            patch.setenv(name, "0")
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
            patch.delenv(name, raising=False)
        patch.setenv("NO_PROXY", "127.0.0.1")
        yield patch
