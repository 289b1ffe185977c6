/** The workspace folder of a file: what interpreters, choices and states belong to. */

import { Uri, type WorkspaceFolder, workspace } from "vscode";

/** The innermost one; a file outside all of them stands for the folder it lies in. */
export function folderOf(uri: Uri): { readonly uri: Uri; readonly name: string } {
  const folder: WorkspaceFolder | undefined = workspace.getWorkspaceFolder(uri);
  if (folder !== undefined) {
    return folder;
  }
  const parent = Uri.joinPath(uri, "..");
  return { uri: parent, name: parent.path.split("/").at(-1) ?? "" };
}

export function folderKey(uri: string): string {
  return folderOf(Uri.parse(uri)).uri.toString();
}

/** A name of the folder for a message, where it could be another one. */
export function folderLabel(uri: string): string {
  return (workspace.workspaceFolders?.length ?? 0) > 1 ? ` (${folderOf(Uri.parse(uri)).name})` : "";
}
