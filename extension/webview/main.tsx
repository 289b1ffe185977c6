/** Starts the report's page. */

import { render } from "preact";
import "uplot/dist/uPlot.min.css";
import { App } from "./app.tsx";
import "./style.css";

const root = document.getElementById("root");
if (root !== null) {
  render(<App />, root);
}
