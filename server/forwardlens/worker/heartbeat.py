# pyright: basic, reportAttributeAccessIssue=false, reportOptionalMemberAccess=false
"""Telling where the user's code is while it is being loaded, which may take long or for ever."""

from __future__ import annotations

import os
import sys
import threading

from .channel import Channel
from .failures import user_place

INTERVAL_S = 3.0


class Heartbeat:
    """While inside, the stage's message comes again and again with the line that runs."""

    def __init__(self, channel: Channel, stage: str, message: str, is_user) -> None:
        self._channel, self._stage, self._message, self._is_user = channel, stage, message, is_user
        self._over = threading.Event()

    def __enter__(self) -> Heartbeat:
        self._channel.progress(self._stage, self._message)
        self._thread = threading.get_ident()
        threading.Thread(target=self._beat, name="forwardlens-heartbeat", daemon=True).start()
        return self

    def __exit__(self, kind, error, trace) -> None:
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(INTERVAL_S):
            frame = sys._current_frames().get(self._thread)
            file, line = user_place(frame, self._is_user)
            if file is not None:
                self._channel.progress(self._stage, f"{self._message}, at {os.path.basename(file)}:{line}")
