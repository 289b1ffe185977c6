/** The page of a finding's rule, rendered: the server's link leads to a Markdown file, which would open as its text. */

import { commands, type Diagnostic, type Disposable, Uri } from "vscode";

const SHOW_RULE = "forwardlens.showRule";

/** The command behind the links. It takes a rule's name and nothing else, since any link could call it. */
export function registerRulePages(extensionRoot: Uri): Disposable {
  return commands.registerCommand(SHOW_RULE, async (rule: unknown) => {
    if (typeof rule === "string" && /^[a-z-]+$/.test(rule)) {
      await commands.executeCommand("markdown.showPreview", Uri.joinPath(extensionRoot, "docs", "rules", `${rule}.md`));
    }
  });
}

/** The same diagnostic with a link to the command, if its link leads to a file. */
export function withRenderedPage(diagnostic: Diagnostic): Diagnostic {
  const { code } = diagnostic;
  if (typeof code === "object" && code.target.scheme === "file") {
    const query = encodeURIComponent(JSON.stringify([code.value]));
    diagnostic.code = { value: code.value, target: Uri.parse(`command:${SHOW_RULE}?${query}`) };
  }
  return diagnostic;
}
