"""What the client can do and what its user has set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from lsprotocol import types
from pygls.capabilities import get_capability

from forwardlens.config import Level
from forwardlens.runner.request import RunFailedError

SECTION = "forwardlens"
_LEVELS = ("off", "hint", "info", "warning")


@dataclass(frozen=True, slots=True)
class ClientFeatures:
    """What a client can do that changes what the server sends. The defaults are those of a client without any.

    `shows_problems` is no capability of the protocol: our own clients say it in their initialization options.
    """

    progress: bool = False
    configuration: bool = False
    lenses: bool = False
    lens_refresh: bool = False
    hint_refresh: bool = False
    hint_tooltip_resolve: bool = False
    hover_markdown: bool = False
    action_literals: bool = False
    action_resolve: bool = False
    action_disabled: bool = False
    action_preferred: bool = False
    document_changes: bool = False
    change_annotations: bool = False
    related_information: bool = False
    code_description: bool = False
    diagnostic_data: bool = False
    shows_problems: bool = False

    @classmethod
    def of(cls, capabilities: types.ClientCapabilities, options: Mapping[str, object]) -> ClientFeatures:
        def has(name: str) -> bool:
            return bool(cast("Any", get_capability(capabilities, name, None)))

        def lists(name: str, item: str) -> bool:
            return item in (cast("Any", get_capability(capabilities, name, None)) or ())

        action = "text_document.code_action"
        diagnostics = "text_document.publish_diagnostics"
        return cls(
            progress=has("window.work_done_progress"),
            configuration=has("workspace.configuration"),
            lenses=has("text_document.code_lens"),
            lens_refresh=has("workspace.code_lens.refresh_support"),
            hint_refresh=has("workspace.inlay_hint.refresh_support"),
            hint_tooltip_resolve=lists("text_document.inlay_hint.resolve_support.properties", "tooltip"),
            hover_markdown=lists("text_document.hover.content_format", types.MarkupKind.Markdown),
            action_literals=has(f"{action}.code_action_literal_support"),
            action_resolve=lists(f"{action}.resolve_support.properties", "edit") and has(f"{action}.data_support"),
            action_disabled=has(f"{action}.disabled_support"),
            action_preferred=has(f"{action}.is_preferred_support"),
            document_changes=has("workspace.workspace_edit.document_changes"),
            change_annotations=has("workspace.workspace_edit.change_annotation_support"),
            related_information=has(f"{diagnostics}.related_information"),
            code_description=has(f"{diagnostics}.code_description_support"),
            diagnostic_data=has(f"{diagnostics}.data_support"),
            shows_problems=options.get("showsProblems") is True,
        )


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A Python and who named it, as the end of "from …"."""

    path: str
    origin: str


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """The user's `forwardlens.*` settings; None leaves the choice to pyproject.toml or to the run.

    `selected` is no setting: it is the interpreter that the client itself would take, for lack of any other.
    """

    interpreter: str | None = None
    selected: Interpreter | None = None
    entry: str | None = None
    iterations: int | None = None
    threshold: float | None = None
    inlay_hints: bool = True
    heat: bool = True
    rules: Mapping[str, Level] = field(default_factory=dict[str, Level])
    profile_on_save: bool = False
    graph_breaks: bool = False


def parse_settings(value: object) -> ClientSettings:
    """The settings in what a client sent; null and an empty string mean unset.

    Raises `RunFailedError` naming the setting that has a wrong type.
    """
    table = _Table(as_mapping(value))
    return ClientSettings(
        interpreter=table.text("interpreter"),
        selected=_selected(table.values.get("selectedInterpreter")),
        entry=table.text("entry"),
        iterations=table.whole("iterations"),
        threshold=table.share("threshold"),
        inlay_hints=table.flag("inlayHints", default=True),
        heat=table.flag("heat", default=True),
        rules=table.levels("rules"),
        profile_on_save=table.flag("profileOnSave", default=False),
        graph_breaks=table.flag("graphBreaks", default=False),
    )


def _selected(value: object) -> Interpreter | None:
    found = _Table(as_mapping(value))
    path = found.text("path")
    return None if path is None else Interpreter(path, found.text("origin") or "the editor")


def as_mapping(value: object) -> Mapping[str, object]:
    """A JSON object; anything else, such as null, as an empty one."""
    return cast("Mapping[str, object]", value) if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True)
class _Table:
    values: Mapping[str, object]

    def text(self, name: str) -> str | None:
        value = self.values.get(name)
        if value is None or isinstance(value, str):
            return value or None
        raise _wrong(name, "a string", value)

    def whole(self, name: str) -> int | None:
        value = self.values.get(name)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1):
            return value
        raise _wrong(name, "a whole number of at least 1", value)

    def share(self, name: str) -> float | None:
        value = self.values.get(name)
        if value is None:
            return None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
            return float(value)
        raise _wrong(name, "a number between 0 and 1", value)

    def flag(self, name: str, *, default: bool) -> bool:
        value = self.values.get(name)
        if value is None or isinstance(value, bool):
            return default if value is None else value
        raise _wrong(name, "true or false", value)

    def levels(self, name: str) -> dict[str, Level]:
        value = self.values.get(name)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            raise _wrong(name, "an object from rule names to levels", value)
        levels = dict(cast("Mapping[str, object]", value))
        for rule, level in levels.items():
            if level not in _LEVELS:
                raise _wrong(f"{name}.{rule}", f"one of {', '.join(_LEVELS)}", level)
        return cast("dict[str, Level]", levels)


def _wrong(name: str, wanted: str, value: object) -> RunFailedError:
    return RunFailedError("usage", f"The setting {SECTION}.{name} must be {wanted}, not {value!r}.")
