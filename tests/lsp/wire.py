"""A server in this process behind real pipes, and the smallest client that can speak to it."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lsprotocol.converters import get_converter

from forwardlens.lsp.engine import Engine
from forwardlens.lsp.server import create_server

from .conformance import Message
from .editor import modern_capabilities

LONGEST_WAIT_S = 60.0


@dataclass
class Wire:
    """Sends messages in order and keeps what comes back. `changed` tells of every arrival."""

    engine: Engine
    settings: dict[str, object] = field(default_factory=dict[str, object])
    capabilities: Mapping[str, Any] = field(default_factory=lambda: get_converter().unstructure(modern_capabilities()))
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    log: list[Message] = field(default_factory=list[Message])
    sent: int = 0
    received: int = 0
    answers: dict[int, dict[str, Any]] = field(default_factory=dict[int, dict[str, Any]])
    published: list[tuple[str, list[dict[str, Any]]]] = field(default_factory=list[tuple[str, list[dict[str, Any]]]])
    steps: list[str] = field(default_factory=list[str])
    heat: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    changed: threading.Condition = field(default_factory=threading.Condition)
    _number: int = 0
    _closed: bool = False
    _asked: dict[int, str] = field(default_factory=dict[int, str])

    def start(self, folders: Mapping[str, str]) -> None:
        """With a server of its own in a thread. `folders` maps URIs to names."""
        to_server, requests = os.pipe()
        answers, from_server = os.pipe()
        server = create_server(self.engine)
        streams = os.fdopen(to_server, "rb"), os.fdopen(from_server, "wb")
        self._server = threading.Thread(target=server.start_io, args=streams, daemon=True)
        self._server.start()
        self.connect(requests, answers, folders)

    def connect(self, requests: int, answers: int, folders: Mapping[str, str]) -> None:
        self._requests, self._answers = requests, answers
        threading.Thread(target=self._read, daemon=True).start()
        workspace = [{"uri": uri, "name": name} for uri, name in folders.items()]
        about = {"processId": None, "rootUri": None, "workspaceFolders": workspace}
        more = {"initializationOptions": dict(self.options)} if self.options else {}
        self.ask("initialize", {**about, **more, "capabilities": self.capabilities})
        self.tell("initialized", {})

    def stop(self) -> None:
        self.ask("shutdown", None)
        self.close()
        self._server.join(LONGEST_WAIT_S)
        assert not self._server.is_alive()

    def close(self) -> None:
        """Leave without a word, which ends the server too. A second time nothing happens."""
        if not self._closed:
            self._closed = True
            os.close(self._requests)

    def tell(self, method: str, params: object) -> None:
        self._note(method, params)
        self._send({"method": method, "params": params})

    def begin(self, method: str, *params: object) -> int:
        """`params` may be left out."""
        self._number += 1
        self._note(method, *params)
        self._asked[self._number] = method
        self._send({"id": self._number, "method": method, **({"params": params[0]} if params else {})})
        return self._number

    def ask(self, method: str, params: object) -> Any:
        """The result; an error of the protocol as `{"error": ...}`."""
        number = self.begin(method, params)
        self.wait(lambda: number in self.answers)
        return self.result(number)

    def result(self, number: int) -> Any:
        answer = self.answers[number]
        return {"error": answer["error"]} if "error" in answer else answer.get("result")

    def wait(self, condition: Callable[[], object]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, LONGEST_WAIT_S), "the server did not get there"

    def diagnostics(self) -> dict[str, list[dict[str, Any]]]:
        """What a client shows: the last of each file."""
        return dict(self.published)

    def _send(self, message: Mapping[str, object]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        view = memoryview(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        while view:
            view = view[os.write(self._requests, view) :]
        self.sent += 1

    def _note(self, method: str, params: object = None) -> None:
        with self.changed:
            self.log.append(Message("sent", method, params, {}))

    def _keep(self, whole: dict[str, Any]) -> None:
        if "method" in whole:
            kind = "request" if "id" in whole else "notification"
            message = Message(kind, whole["method"], whole.get("params"), whole)
        else:
            kind = "error" if "error" in whole else "result"
            message = Message(kind, self._asked.get(whole["id"], ""), whole.get(kind), whole)
        self.log.append(message)

    def _read(self) -> None:
        with os.fdopen(self._answers, "rb") as stream:
            while header := stream.readline():
                size = int(header.split(b":")[1])
                while stream.readline().strip():
                    pass
                message = json.loads(stream.read(size))
                with self.changed:
                    self.received += 1
                    self._keep(message)
                    self._take(message)
                    self.changed.notify_all()

    def _take(self, message: dict[str, Any]) -> None:
        method: str | None = message.get("method")
        params: Any = message.get("params")
        if method is None:
            self.answers[message["id"]] = message
        elif "id" in message:
            result = [self.settings for _ in params["items"]] if method == "workspace/configuration" else None
            self._send({"id": message["id"], "result": result})
        elif method == "textDocument/publishDiagnostics":
            self.published.append((params["uri"], params["diagnostics"]))
        elif method == "$/progress":
            self.steps.append(params["value"].get("message", ""))
        elif method == "forwardlens/profileChanged":
            self.heat[params["uri"]] = params["lines"]
