# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""What a worker process remembers between requests: which user code it has loaded."""

from __future__ import annotations

import os
import sys

import torch

from . import entries
from .case import Case
from .channel import Channel
from .failures import Failure
from .graphs import Graphs
from .heartbeat import Heartbeat
from .loop import Loop
from .measure import choose_device, measure, measure_in_loop
from .memory import bounded
from .modules import forget_user_modules
from .observers import Observers
from .overlay import Overlay
from .replay import difference
from .targets import Target
from .usercode import UserCode, missing_packages
from .verify import verify

SEED = 0


class Session:
    """`doing` completes "... while" in messages about the user's exceptions."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._path = list(sys.path)
        self._overlay = Overlay({})
        self._loaded = UserCode([], [])
        self._device_lost = False
        self.doing = "starting"
        self.is_user = UserCode([], [])

    def _user_code(self, request: dict) -> UserCode:
        roots = [request["workspace"]]
        entry = request["entry"].partition("::")[0]
        place = entry if entry.endswith(".py") else entry.rpartition(":")[0]
        path = os.path.join(request["workspace"], place)
        if os.path.isfile(path):
            roots.append(os.path.dirname(os.path.abspath(path)))
        return UserCode(roots, request.get("include", []))

    def handle(self, request: dict) -> dict:
        self.is_user = self._user_code(request)
        with bounded(request.get("memory_limit")):
            return self._profile(request) if request["op"] == "profile" else self._verify(request)

    def _profile(self, request: dict) -> dict:
        unknown = missing_packages(request.get("include", []))
        if unknown:
            raise Failure("usage", f"--include {unknown[0]}: {sys.executable} has no package of that name")
        overlay, graphs = Overlay(request.get("overlays", {})), Graphs(self.is_user)
        with Observers(self.is_user) as observers:
            with Heartbeat(self._channel, "load", f"Loading {request['entry']}", self.is_user):
                case = self._load(request, overlay)
            observers.put_aside()
            with graphs.watch():
                recording = self._measure(case, request, overlay)
        account = self._account(graphs, case, request, repeatable="in_place" not in recording)
        # Code that was compiled leaves no costs, but its breaks stand in its text.
        broken = sorted({row[0] for row in account["breaks"] if self.is_user(row[0])}) if account else []
        texts = {**{path: overlay.text(path) for path in broken}, **recording["texts"]}
        return {**recording, "texts": texts, "graphs": account, "notes": observers.notes}

    def _measure(self, case: Case, request: dict, overlay: Overlay) -> dict:
        reason = difference(case, request.get("time_limit"))
        if reason is None:
            with case.ambient.entered():
                return measure(case, request, self.is_user, overlay, self._channel)
        return self._measure_in_program(case, reason, request, overlay)

    def _account(self, graphs: Graphs, case: Case, request: dict, *, repeatable: bool) -> dict | None:
        """Last of all: to trace the forward anew, Dynamo forgets what it has compiled."""
        if not request.get("graph_breaks"):
            return graphs.account()
        self._channel.progress("graphs", "Asking Dynamo where it breaks the graph")
        failed = "it cannot be repeated"
        if repeatable:
            placed = case.to(choose_device(case, request["device"])) if request.get("device") else case
            with case.ambient.entered():
                failed = graphs.explain(placed)
        return {"graphs": 0, "breaks": [], **(graphs.account() or {}), "asked": True, "failed": failed}

    def _measure_in_program(self, case: Case, reason: str, request: dict, overlay: Overlay) -> dict:
        """Measure the program's own calls, for a case that cannot be repeated because of `reason`."""
        target = case.wanted or Target()
        if target.is_traced and case.module is None:
            raise Failure("entry", f"{case.described} cannot be repeated: {reason}; choose a module that calls it")
        passes = measure_in_loop(case, request, self.is_user, overlay, self._channel)
        loop = Loop(case, target, passes)
        self._begin(request, overlay)
        entries.run(request["entry"], request, overlay, loop)
        try:
            return {**loop.result(), "in_place": reason}
        except Failure as failure:
            raise Failure("entry", f"{case.described} cannot be repeated: {reason}; and {failure.message}") from None

    def _verify(self, request: dict) -> dict:
        if self._device_lost:
            raise Failure(
                "device",
                "values that the program does not take have stopped the device for this process; try the rest again",
            )
        before = self._load(request, Overlay(request["before"]))
        device = choose_device(before, request.get("device"))
        placed = lambda case: case.to(device) if request.get("device") else case  # noqa: E731

        def load_after() -> Case:
            after = self._load(request, Overlay(request["after"]))
            if before.original is None:
                after.with_fresh_inputs().run()  # as the other did: a forward may count its calls
            return placed(after)

        with before.ambient.entered():
            if before.original is None:
                # What a forward imports when it first runs must come from the text before the edit.
                before.with_fresh_inputs().run()
            result = verify(placed(before), load_after, device, graph_may_vanish=request["graph_may_vanish"])
        self._device_lost = result.pop("device_lost", False)
        return result

    def _load(self, request: dict, overlay: Overlay) -> Case:
        """The entry's case from fresh modules."""
        self._begin(request, overlay)
        case = entries.load(request["entry"], request, overlay)
        self.doing = f"running {case.described}"
        return case

    def _begin(self, request: dict, overlay: Overlay) -> None:
        """As if this were the first time that the user's code is run in this process.

        The overlay stays in place until the next time: a forward may import when it runs.
        """
        self.doing = f"loading {request['entry']}"
        for known in (self._loaded, self.is_user):
            forget_user_modules(known)
        self._loaded = self.is_user
        sys.path[:] = self._path
        sys.argv = [request["entry"], *request.get("arguments", [])]
        os.chdir(request["folder"])
        self._overlay.remove()
        self._overlay = overlay
        overlay.install()
        torch.manual_seed(SEED)
