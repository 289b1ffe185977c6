// A CPU profile of the extension host, taken from inside it and left in the workspace.
const { writeFileSync } = require("node:fs");
const { Session } = require("node:inspector/promises");
const { join } = require("node:path");
const { commands, workspace } = require("vscode");

const INTERVAL_US = 100;

exports.activate = () => {
  const session = new Session();
  const leave = (name, text) => writeFileSync(join(workspace.workspaceFolders[0].uri.fsPath, name), text);
  commands.registerCommand("probe.start", async () => {
    session.connect();
    await session.post("Profiler.enable");
    await session.post("Profiler.setSamplingInterval", { interval: INTERVAL_US });
    await session.post("Profiler.start");
    leave("probe-started", "");
  });
  commands.registerCommand("probe.stop", async () => {
    const { profile } = await session.post("Profiler.stop");
    session.disconnect();
    leave("probe.cpuprofile", JSON.stringify(profile));
  });
};
