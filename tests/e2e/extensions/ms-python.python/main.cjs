// The public API of ms-python.python, as far as ForwardLens calls it.
const { commands, EventEmitter, Uri, window, workspace } = require("vscode");

exports.activate = () => {
  const changed = new EventEmitter();
  const selected = (resource) => workspace.getConfiguration("standIn", resource ?? null).get("python", "");
  workspace.onDidChangeConfiguration((event) => {
    if (event.affectsConfiguration("standIn.python")) {
      changed.fire({ id: selected(), path: selected(), resource: undefined });
    }
  });
  commands.registerCommand("python.setInterpreter", async () => {
    const settings = workspace.getConfiguration("standIn");
    const picked = await window.showQuickPick(settings.get("others", []), { title: "Select Interpreter" });
    if (picked !== undefined) {
      await settings.update("python", picked);
    }
  });
  return {
    ready: Promise.resolve(),
    environments: {
      known: [],
      getActiveEnvironmentPath: (resource) => ({ id: selected(resource), path: selected(resource) }),
      resolveEnvironment: async (environment) => {
        const path = typeof environment === "string" ? environment : environment.path;
        return path === "" ? undefined : { id: path, path, executable: { uri: Uri.file(path) } };
      },
      onDidChangeActiveEnvironmentPath: changed.event,
    },
  };
};
