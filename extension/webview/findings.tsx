/** What was found, with what trying the fixes showed. Applying one is the editor's: its quick fixes show the change. */

import type { JSX } from "preact";
import { factor, percent } from "../src/numbers.ts";
import type { ReportData, ReportFinding, ReportFix } from "../src/reportData.ts";
import { send } from "./host.ts";
import { Place } from "./table.tsx";

/** What the server calls the note that there are more findings than it lists. */
export const SMALLER_FINDINGS = "smaller-findings";

export function Findings({ report }: { report: ReportData }): JSX.Element {
  if (report.findings.length === 0) {
    return <p class="empty">No findings: no known fault takes a noticeable share of this forward.</p>;
  }
  return (
    <>
      <ol class="findings">
        {report.findings.map((finding, index) => (
          <li key={index}>
            <Finding finding={finding} />
          </li>
        ))}
      </ol>
      {report.errors
        .filter(({ kind }) => kind === SMALLER_FINDINGS)
        .map(({ message }) => (
          <p class="note" key={message}>
            {message}
          </p>
        ))}
    </>
  );
}

function Finding({ finding }: { finding: ReportFinding }): JSX.Element {
  return (
    <button type="button" onClick={() => send({ kind: "open", span: finding })}>
      <span class="head">
        <span class="share">{percent(finding.share)}</span>
        <span class="rule">{finding.rule}</span>
        <Place {...finding} />
      </span>
      <span class="message">{finding.message}</span>
      {finding.fixes.map((fix) => (
        <span class="fix" key={fix.title}>
          <span class="quiet">Fix: </span>
          {fix.title} <span class="quiet">{outcome(fix)}</span>
        </span>
      ))}
    </button>
  );
}

const OUTCOMES: Readonly<Record<string, string>> = {
  equal: "outputs equal",
  "no-gain": "outputs equal, no gain measured",
  slower: "slower",
  differs: "outputs differ",
  raises: "it fails",
};

function outcome({ verified, reason }: ReportFix): string {
  if (verified === null) {
    return reason === null ? "not tried" : `not tried, check first: ${reason}`;
  }
  const words = OUTCOMES[verified.outcome] ?? verified.outcome;
  const speedup = verified.outcome === "equal" ? verified.speedup : null;
  return `tried: ${words}${speedup === null ? "" : `, ${factor(speedup)} faster`}`;
}
