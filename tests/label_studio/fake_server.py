"""A small server that answers like Label Studio 1.23: what REALM asks of it, and faults at chosen requests.

Answers were copied from the real server (tests/label_studio/test_real_server.py holds the two together).
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REFRESH_TOKEN = "eyJhbGciOiJIUzI1NiJ9.planted-refresh-7f3a.signature"
LEGACY_TOKEN = "planted-legacy-7f3a-0123456789abcdef0123"
CONFIG = {
    "sentiment": {
        "type": "Choices",
        "to_name": ["text"],
        "inputs": [{"type": "Text", "valueType": None, "value": "text"}],
        "labels": ["negative", "positive"],
    }
}
Fault = str | tuple[int, dict[str, str]]
"""`cut`: the connection ends before anything is done; `cut after`: after it was done; or a status and headers."""


class FakeLabelStudio:
    """One project in memory. `faults` maps how many requests of a method came before to what happens instead."""

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {
            "id": 3,
            "title": "Reviews",
            "label_config": "<View/>",
            "parsed_label_config": CONFIG,
            "model_version": "",
            "show_collab_predictions": False,
        }
        self.users = {1: "ann@example.org", 2: "bob@example.org", 3: "cy@example.org"}
        self.tasks: dict[int, dict[str, Any]] = {}
        self.faults: dict[tuple[str, int], Fault] = {}
        self.requests: list[tuple[str, str]] = []
        self.counts: Counter[str] = Counter()
        self.access_tokens: set[str] = set()
        self.expire_after = 10**9
        self.uses = 0
        self.most_page = 10**9
        self.accepts_legacy = True
        self.on_request: Callable[[str, str], None] = lambda method, path: None
        self.numbers = iter(range(1000, 10**9))
        self.lock = threading.Lock()

    def add_task(self, number: int, text: str, labels: dict[int, str], **data: Any) -> None:
        annotations = [annotation(next(self.numbers), user, label) for user, label in labels.items()]
        own = {"id": number, "data": {"text": text, **data}, "annotations": annotations, "predictions": []}
        self.tasks[number] = {**own, "drafts": []}

    def predictions(self) -> list[tuple[int, str, str]]:
        """(task, model version, label) of every prediction."""
        return sorted(
            (number, each["model_version"], each["result"][0]["value"]["choices"][0])
            for number, task in self.tasks.items()
            for each in task["predictions"]
        )

    # ---------------------------------------------------------------- answers

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any, key: str) -> tuple[int, Any]:
        if path == "/api/token/refresh/":
            if body != {"refresh": REFRESH_TOKEN}:
                return 401, {"detail": "Token is invalid"}
            self.access_tokens = {f"access-planted-7f3a-{next(self.numbers)}"}
            self.uses = 0
            return 200, {"access": next(iter(self.access_tokens))}
        self.uses += 1
        legacy = self.accepts_legacy and key == f"Token {LEGACY_TOKEN}"
        if self.uses > self.expire_after or not (legacy or key.removeprefix("Bearer ") in self.access_tokens):
            return 401, {"detail": f"Invalid token. {key}"}
        if path == "/api/projects/":
            return 200, {"results": [self.settings]}
        if path == "/api/tasks":
            return self.page(query)
        if found := re.fullmatch(r"/api/tasks/(\d+)/", path):
            if int(found[1]) not in self.tasks:
                return 404, {"detail": "Not found."}
            self.tasks[int(found[1])]["data"] = body["data"]
            return 200, {}
        if found := re.fullmatch(r"/api/predictions/(\d+)/", path):
            return self.delete_prediction(int(found[1]))
        if not path.startswith("/api/projects/3/"):
            return 404, {"detail": "No Project matches the given query."}
        rest = path.removeprefix("/api/projects/3/")
        if rest == "":
            self.settings.update(body or {})
            return 200, self.settings
        if rest == "annotators/":
            return 200, [{"id": number, "email": email} for number, email in self.users.items()]
        if rest == "import/predictions":
            for each in body:
                added = {**each, "id": next(self.numbers), "cluster": None}
                self.tasks[each["task"]]["predictions"].append(added)
            return 201, {"created": len(body)}
        if rest == "model-versions/" and method == "DELETE":
            for task in self.tasks.values():
                kept = [each for each in task["predictions"] if each["model_version"] != body["model_version"]]
                task["predictions"] = kept
            return 200, {"deleted_predictions": 1}
        return 404, {"detail": "Not found."}

    def page(self, query: dict[str, list[str]]) -> tuple[int, Any]:
        if query["project"] != ["3"]:
            return 404, {"detail": "No Project matches the given query."}
        [item] = json.loads(query["query"][0])["filters"]["items"]
        assert (item["filter"], item["operator"], query["fields"]) == ("filter:tasks:id", "greater", ["all"])
        left = [self.tasks[number] for number in sorted(self.tasks) if number > item["value"]]
        size = min(int(query["page_size"][0]), self.most_page)
        return 200, {"tasks": left[:size], "total": len(left)}

    def delete_prediction(self, number: int) -> tuple[int, Any]:
        for task in self.tasks.values():
            for each in task["predictions"]:
                if each["id"] == number:
                    task["predictions"].remove(each)
                    return 204, None
        return 404, {"detail": "Not found."}


def annotation(number: int, user: int, label: str, **more: Any) -> dict[str, Any]:
    result = {"from_name": "sentiment", "to_name": "text", "type": "choices", "value": {"choices": [label]}}
    return {
        "id": number,
        "completed_by": user,
        "result": [result],
        "was_cancelled": False,
        "ground_truth": False,
        "created_at": f"2026-11-02T10:00:{number % 60:02d}.000290Z",
        "updated_at": f"2026-11-02T10:00:{number % 60:02d}.000315Z",
        "lead_time": 2.5 + number % 7,
        **more,
    }


@contextmanager
def serving(fake: FakeLabelStudio, port: int = 0) -> Iterator[str]:
    """The address of the server while it runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            self.close_connection = True
            super().handle_one_request()

        def serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            content = self.rfile.read(length)
            body = json.loads(content) if content else None
            with fake.lock:
                fake.requests.append((self.command, self.path))
                fault = fake.faults.pop((self.command, fake.counts[self.command]), None)
                fake.counts[self.command] += 1
                fake.on_request(self.command, parts.path)
                if fault == "cut":
                    return self.cut()
                if isinstance(fault, tuple):
                    return self.say(fault[0], {"detail": f"planned {self.headers.get('Authorization')}"}, fault[1])
                status, answer = fake.answer(
                    self.command, parts.path, parse_qs(parts.query), body, self.headers.get("Authorization", "")
                )
            if fault == "cut after":
                return self.cut()
            self.say(status, answer, {}, short=fault == "short")

        def cut(self) -> None:
            self.connection.shutdown(socket.SHUT_RDWR)

        def say(self, status: int, answer: Any, headers: dict[str, str], short: bool = False) -> None:
            content = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            for name, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(content)),
                **headers,
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if short else content)

        do_GET = do_POST = do_PATCH = do_DELETE = serve

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
