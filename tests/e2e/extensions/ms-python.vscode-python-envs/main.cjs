// The public API of ms-python.vscode-python-envs, as far as ForwardLens calls it.
const { commands, EventEmitter, Uri, window, workspace } = require("vscode");

exports.activate = () => {
  const changed = new EventEmitter();
  commands.registerCommand("python-envs.set", () => window.showInformationMessage("The environments' picker"));
  return {
    onDidChangeEnvironment: changed.event,
    getEnvironment: async (scope) => {
      const path = workspace.getConfiguration("standIn", scope ?? null).get("environment", "");
      return path === ""
        ? undefined
        : {
            envId: { id: path, managerId: "stand-in" },
            name: path,
            displayName: path,
            version: "3",
            environmentPath: Uri.file(path),
            sysPrefix: path,
            execInfo: { run: { executable: path, args: [] } },
          };
    },
  };
};
