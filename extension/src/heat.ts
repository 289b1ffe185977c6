/** Colour on costly lines. Only colour: the numbers are inlay hints, which screen readers can read. */

import {
  type Disposable,
  type Range as EditorRange,
  OverviewRulerLane,
  Position,
  Selection,
  type TextEditor,
  type TextEditorDecorationType,
  TextEditorRevealType,
  ThemeColor,
  Uri,
  Range as VsRange,
  window,
  workspace,
} from "vscode";
import { byLevel, type Groups, LEVELS, type Level, type LineHeat, NOTHING, nextLine } from "./levels.ts";

export class HeatView implements Disposable {
  readonly #types = new Map<Level, TextEditorDecorationType>(LEVELS.map((level) => [level, decorationType(level)]));
  readonly #groups = new Map<string, Groups>();
  #shown = true;
  readonly #listeners: readonly Disposable[];

  constructor() {
    this.#listeners = [
      window.onDidChangeVisibleTextEditors((editors) => editors.forEach((editor) => void this.#draw(editor))),
      workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration("forwardlens.heat")) {
          this.#drawAll();
        }
      }),
    ];
  }

  /** Replaces what is known of one file; no lines clear it. */
  show(uri: string, lines: readonly LineHeat[]): void {
    // The server may write the same address differently than the editor does.
    this.#groups.set(Uri.parse(uri).toString(), byLevel(lines));
    this.#drawAll();
  }

  set shown(shown: boolean) {
    this.#shown = shown;
    this.#drawAll();
  }

  /** Puts the cursor on the next costly line of the active file, or on the one before; around the end it starts over. */
  go(step: 1 | -1): void {
    const editor = window.activeTextEditor;
    const groups = editor && this.#groups.get(editor.document.uri.toString());
    const line = groups && nextLine(groups, editor.selection.active.line, step);
    if (line === undefined) {
      void window.showInformationMessage("No line of this file is known to be costly; profile its forward first.");
      return;
    }
    const column = editor?.document.lineAt(line).firstNonWhitespaceCharacterIndex ?? 0;
    const at = new Position(line, column);
    if (editor !== undefined) {
      editor.selection = new Selection(at, at);
      editor.revealRange(new VsRange(at, at), TextEditorRevealType.InCenterIfOutsideViewport);
    }
  }

  clear(): void {
    this.#groups.clear();
    this.#drawAll();
  }

  dispose(): void {
    for (const disposable of [...this.#listeners, ...this.#types.values()]) {
      disposable.dispose();
    }
  }

  #drawAll(): void {
    for (const editor of window.visibleTextEditors) {
      this.#draw(editor);
    }
  }

  #draw(editor: TextEditor): void {
    const { uri } = editor.document;
    const shown = this.#shown && workspace.getConfiguration("forwardlens", uri).get<boolean>("heat", true);
    const groups = (shown && this.#groups.get(uri.toString())) || NOTHING;
    for (const [level, type] of this.#types) {
      editor.setDecorations(type, groups[level].map(toEditorRange));
    }
  }
}

function decorationType(level: Level): TextEditorDecorationType {
  const foreground = new ThemeColor(`forwardlens.heat${level}Foreground`);
  return window.createTextEditorDecorationType({
    isWholeLine: true,
    backgroundColor: new ThemeColor(`forwardlens.heat${level}Background`),
    // High-contrast themes have no tint; the edge is what remains there.
    borderColor: foreground,
    borderStyle: "solid",
    borderWidth: "0 0 0 2px",
    overviewRulerColor: foreground,
    overviewRulerLane: OverviewRulerLane.Right,
  });
}

function toEditorRange({ start, end }: Groups[Level][number]): EditorRange {
  return new VsRange(start.line, start.character, end.line, end.character);
}
