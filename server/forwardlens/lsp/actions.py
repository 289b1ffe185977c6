"""Code actions: which there are for a place, and the edits they stand for.

An action that is offered carries only a key. Its edit is made when it is chosen, from the text of that moment: the
measured text says what the fix was made for, and where that has changed there is no edit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lsprotocol import types

from forwardlens.lsp.client import as_mapping
from forwardlens.lsp.commands import PROFILE
from forwardlens.lsp.convert import from_position, overlaps, to_text_edits
from forwardlens.lsp.publish import SOURCE, finding_diagnostic
from forwardlens.lsp.server import ContentModifiedError, ForwardLensServer
from forwardlens.lsp.session import PlacedFinding, View
from forwardlens.model import Edit, Finding, Fix
from forwardlens.report.labels import fix_label, outcome_label
from forwardlens.report.numbers import format_count
from forwardlens.source.paths import path_key, uri_key
from forwardlens.source.text import SourceText

FIX_ALL = "source.fixAll.forwardlens"

_FIX, _ALL, _IGNORE = "fix", "fix-all", "ignore"
_ANNOTATION = "unsafe"
_STALE_REASON = "The code has changed since it was measured; profile it again for a fix that fits."
_PROFILE_AGAIN = "Profile again: this code has changed since it was measured"
_IGNORE_COMMENT = re.compile(r"#\s*forwardlens:\s*ignore\[[^\]]*(?=\])")

EditsByFile = Mapping[str, tuple[Edit, ...]]


@dataclass(frozen=True, slots=True)
class _Change:
    """The edits of an action, and what the user should know before they are made."""

    edits: EditsByFile
    warning: str | None = None


@dataclass(frozen=True, slots=True)
class _Offer:
    """An action and the change behind it; None where the code has changed."""

    action: types.CodeAction
    change: _Change | None


def available_actions(server: ForwardLensServer, view: View, params: types.CodeActionParams) -> list[types.CodeAction]:
    """What can be done about the findings in a range, and about those that the client shows for it.

    Some editors take a cursor for a range of no width, wherever in the line it stands, and name the line's diagnostics.
    """
    uri, only = params.text_document.uri, params.context.only
    first = from_position(view.current, params.range.start, server.encoding)
    last = from_position(view.current, params.range.end, server.encoding)
    # By line: Neovim gives columns back in bytes, whatever was agreed on.
    named = {(it.code, it.range.start.line + 1, it.message) for it in params.context.diagnostics if it.source == SOURCE}
    here = [
        placed
        for placed in view.findings
        if _touches(placed, first, last) or (placed.finding.rule, placed.span.line, placed.finding.message) in named
    ]
    offers: list[_Offer] = []
    if _wanted(types.CodeActionKind.QuickFix, only):
        offers += [offer for placed in here for offer in _quick_fixes(server, uri, view, placed)]
    if _wanted(FIX_ALL, only) and (here or only):
        offers += _fix_all(server, uri, view)
    actions = [action for offer in offers if (action := _as_supported(server, offer)) is not None]
    quick = _wanted(types.CodeActionKind.QuickFix, only)
    if quick and (any(placed.stale for placed in here) or any(offer.change is None for offer in offers)):
        actions.append(_profile_again(view))
    return actions


def _touches(placed: PlacedFinding, first: tuple[int, int], last: tuple[int, int]) -> bool:
    """Whether a finding lies in a range. A stale one is shown nowhere, so any place on its lines will do."""
    if placed.stale:
        return placed.span.line <= last[0] and first[0] <= placed.span.end_line
    return overlaps(placed.span, first, last)


def with_edit(server: ForwardLensServer, action: types.CodeAction) -> types.CodeAction:
    """The action with its edit on the present text. Raises `ContentModifiedError` if there is none any more."""
    change = _change_of(server, as_mapping(action.data))
    if change is None:
        raise ContentModifiedError(_STALE_REASON)
    action.edit = _workspace_edit(server, change)
    return action


def _wanted(kind: str, only: list[Any] | Any | None) -> bool:
    return only is None or any(kind == asked or kind.startswith(f"{asked}.") for asked in map(_text, only))


def _text(kind: types.CodeActionKind | str) -> str:
    return kind.value if isinstance(kind, types.CodeActionKind) else kind


def _as_supported(server: ForwardLensServer, offer: _Offer) -> types.CodeAction | None:
    """The action as far as the client understands it; None if nothing useful is left."""
    features, action = server.features, offer.action
    if not features.action_preferred:
        action.is_preferred = None
    if offer.change is None:
        action.disabled = types.CodeActionDisabled(_STALE_REASON)
        return action if features.action_disabled else None
    if not features.action_resolve:
        action.edit = _workspace_edit(server, offer.change)
        action.data = None
    return action


def _profile_again(view: View) -> types.CodeAction:
    """What leads to a fix again. Editors hide disabled actions and would only say that there are none."""
    asked = {name: value for name, value in asdict(view.run.asked).items() if value is not None}
    command = types.Command(_PROFILE_AGAIN, PROFILE, arguments=[asked])
    return types.CodeAction(_PROFILE_AGAIN, types.CodeActionKind.QuickFix, command=command)


def _quick_fixes(server: ForwardLensServer, uri: str, view: View, placed: PlacedFinding) -> Iterator[_Offer]:
    shown = finding_diagnostic(server.session, view, placed, server.features, server.encoding)
    diagnostics = None if placed.stale else [shown]

    def action(title: str, data: dict[str, Any]) -> types.CodeAction:
        return types.CodeAction(title, types.CodeActionKind.QuickFix, diagnostics, data=data)

    for index, fix in enumerate(placed.finding.fixes):
        if not _is_offered(fix):
            continue
        found = action(fix_label(fix), _key(_FIX, uri, placed, index))
        found.is_preferred = True if fix.applicability == "safe" and fix.proven else None
        yield _Offer(found, _fix_change(server, view, placed, fix))
    ignore = None if placed.stale else _ignore_change(view, placed)
    if ignore is not None:
        yield _Offer(action(f"Ignore {placed.finding.rule} on this line", _key(_IGNORE, uri, placed)), ignore)


def _fix_change(server: ForwardLensServer, view: View, placed: PlacedFinding, fix: Fix) -> _Change | None:
    edits = server.session.fix_edits(view, placed, fix)
    return None if edits is None else _Change(edits, fix.reason if fix.applicability == "unsafe" else None)


def _ignore_change(view: View, placed: PlacedFinding) -> _Change | None:
    """A comment counts on the first and on the last line of a finding."""
    for line in (placed.span.line, placed.span.end_line):
        edit = ignore_edit(view.current, line, placed.finding.rule)
        if edit is not None:
            return _Change({path_key(edit.file): (edit,)})
    return None


def _is_offered(fix: Fix) -> bool:
    """A fix that was tried and did harm is told elsewhere, not offered; one that only explains has no edit."""
    harmful = fix.verified is not None and fix.verified.outcome in ("differs", "raises", "slower")
    return bool(fix.edits) and fix.applicability != "display" and not harmful


def _fix_all(server: ForwardLensServer, uri: str, view: View) -> Iterator[_Offer]:
    edits, count = _all_safe_edits(server, view)
    if count:
        fixes = format_count(count, "proven ForwardLens fix", "proven ForwardLens fixes")
        title = f"Apply {fixes}{_gain_together(view, count)}"
        yield _Offer(types.CodeAction(title, FIX_ALL, data={"kind": _ALL, "uri": uri}), _Change(edits))


def _gain_together(view: View, count: int) -> str:
    """What all fixes at once were measured to give, if these are all of them."""
    together = view.run.result.together
    if together is None or together.verified is None or len(together.fixes) != count:
        return ""
    return f" ({outcome_label(together.verified)})"


def _all_safe_edits(server: ForwardLensServer, view: View) -> tuple[EditsByFile, int]:
    """The proven safe fixes of a file together, the costliest first; one that touches another's text is left out."""
    edits: dict[str, tuple[Edit, ...]] = {}
    count = 0
    for placed in sorted(view.findings, key=lambda placed: -placed.finding.share):
        for fix in placed.finding.fixes:
            found = server.session.fix_edits(view, placed, fix) if _holds_together(view, placed.finding, fix) else None
            if found and not any(_collide(edits.get(key, ()), new) for key, new in found.items()):
                for key, new in found.items():
                    edits[key] = (*edits.get(key, ()), *(edit for edit in new if edit not in edits.get(key, ())))
                count += 1
                break
    return edits, count


def _holds_together(view: View, finding: Finding, fix: Fix) -> bool:
    """Whether a fix is proven and safe, and was found to hold with the others once they were tried together."""
    together = view.run.result.together
    if together is None:
        return fix.applicability == "safe" and fix.proven
    return any(owner is finding and held is fix for owner, held in together.fixes)


def _collide(taken: tuple[Edit, ...], new: tuple[Edit, ...]) -> bool:
    """Whether edits touch the same text. The same insertion twice, such as an import, is one insertion."""
    return any(a != b and a.start <= b.end and b.start <= a.end for a in taken for b in new)


def ignore_edit(source: SourceText, line: int, rule: str) -> Edit | None:
    """An edit that silences a rule on a line; None where the line cannot take a comment."""
    text = source.line(line)
    known = _IGNORE_COMMENT.search(text)
    if known is not None:
        at = (line, known.end())
        return Edit(source.path, at, at, f", {rule}")
    if not _takes_comment(source, line):
        return None
    at = (line, len(text.rstrip()))
    return Edit(source.path, at, (line, len(text)), f"  # forwardlens: ignore[{rule}]")


def _takes_comment(source: SourceText, line: int) -> bool:
    if source.tree is None or source.line(line).rstrip().endswith("\\"):
        return False
    strings = (
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str | bytes))
    )
    return not any(node.lineno <= line < (node.end_lineno or 0) for node in strings)


def _key(kind: str, uri: str, placed: PlacedFinding, fix: int = 0) -> dict[str, Any]:
    return {"kind": kind, "uri": uri, "fingerprint": placed.fingerprint, "fix": fix}


def _change_of(server: ForwardLensServer, data: Mapping[str, Any]) -> _Change | None:
    """What the key of an action stands for by now."""
    view = server.session.view(uri_key(data.get("uri", "")))
    if view is None:
        return None
    if data.get("kind") == _ALL:
        edits, count = _all_safe_edits(server, view)
        return _Change(edits) if count else None
    placed = next((placed for placed in view.findings if placed.fingerprint == data.get("fingerprint")), None)
    if placed is None or placed.stale:
        return None
    if data.get("kind") == _IGNORE:
        return _ignore_change(view, placed)
    index, fixes = int(data.get("fix", 0)), placed.finding.fixes
    return _fix_change(server, view, placed, fixes[index]) if index < len(fixes) else None


def _workspace_edit(server: ForwardLensServer, change: _Change) -> types.WorkspaceEdit:
    session = server.session
    changes: dict[str, list[types.TextEdit]] = {}
    versions: dict[str, int | None] = {}
    for key, found in change.edits.items():
        view = session.view(key)
        if view is not None:
            uri, document = session.uri_of(key, view.current.path), session.documents.get(key)
            changes[uri] = to_text_edits(view.current, found, server.encoding)
            versions[uri] = document.version if document else None
    if not server.features.document_changes:
        return types.WorkspaceEdit(changes=changes)
    warning = change.warning if server.features.change_annotations else None
    return types.WorkspaceEdit(
        document_changes=[
            types.TextDocumentEdit(
                types.OptionalVersionedTextDocumentIdentifier(uri, versions[uri]),
                [_annotated(text) for text in texts] if warning else list(texts),
            )
            for uri, texts in changes.items()
        ],
        change_annotations={_ANNOTATION: types.ChangeAnnotation(warning, needs_confirmation=True)} if warning else None,
    )


def _annotated(edit: types.TextEdit) -> types.AnnotatedTextEdit:
    """An edit that the editor shows before it makes it."""
    return types.AnnotatedTextEdit(_ANNOTATION, edit.range, edit.new_text)
