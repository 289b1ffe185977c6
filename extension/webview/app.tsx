/** The page: what was measured, and the views of it. */

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { count, text, time } from "../src/numbers.ts";
import type { ReportData, TimelineData } from "../src/reportData.ts";
import { BeforeAfter } from "./comparison.tsx";
import { Findings, SMALLER_FINDINGS } from "./findings.tsx";
import { onMessage, remember, remembered, send } from "./host.ts";
import { Memory } from "./memory.tsx";
import { Operators } from "./operators.tsx";
import { Timeline } from "./timeline/timeline.tsx";

/** `undefined` until the extension has answered. */
interface State {
  readonly report?: ReportData | null;
  readonly timeline?: TimelineData | null;
}

export function App(): JSX.Element {
  const [{ report, timeline }, setState] = useState<State>({});
  useEffect(() => {
    const stop = onMessage((message) =>
      setState((state) =>
        message.kind === "report" ? { ...state, report: message.report } : { ...state, timeline: message.timeline },
      ),
    );
    send({ kind: "ready" });
    return stop;
  }, []);

  if (report === undefined) {
    return <p class="empty">Loading…</p>;
  }
  if (report === null) {
    return (
      <div class="empty">
        <p>Nothing has been profiled yet. Put the cursor into a class with a forward(), then profile it.</p>
        <button type="button" onClick={() => send({ kind: "profile" })}>
          Profile this forward()
        </button>
      </div>
    );
  }
  return <Report report={report} timeline={timeline === null || timeline?.run === report.run ? timeline : undefined} />;
}

function Report({ report, timeline }: { report: ReportData; timeline: TimelineData | null | undefined }): JSX.Element {
  return (
    <>
      <Header report={report} />
      <Tabs
        tabs={[
          { id: "operators", title: "Operators", view: () => <Operators report={report} /> },
          { id: "timeline", title: "Timeline", view: () => <Timeline report={report} timeline={timeline} /> },
          { id: "memory", title: "Memory", view: () => <Memory report={report} timeline={timeline} /> },
          { id: "comparison", title: "Before and after", view: () => <BeforeAfter comparison={report.comparison} /> },
          {
            id: "findings",
            title: "Findings",
            badge: report.findings.length,
            view: () => <Findings report={report} />,
          },
        ]}
      />
    </>
  );
}

const BOUNDS: Readonly<Record<string, string>> = {
  dispatch: "bound by dispatch: the time goes into Python and into starting operators",
  compute: "bound by compute: the time goes into the operators themselves",
  sync: "bound by waiting: the host waits for the device",
  memory: "bound by memory: the time goes into moving and allocating data",
  mixed: "no single thing bounds it",
};

function Header({ report }: { report: ReportData }): JSX.Element {
  const { entry, target, environment, forward, stale, errors } = report;
  const { median, p10, p90, n } = forward.wall_ms;
  return (
    <header>
      <div class="title">
        <h1>{target ?? entry}</h1>
        <b>{text(time(median))}</b>
        <span class="quiet" title={`10th to 90th percentile of ${count(n, "run")}`}>
          {text(time(p10))} to {text(time(p90))}
        </span>
        <span class="actions">
          <button type="button" class="secondary" onClick={() => send({ kind: "export" })}>
            Export…
          </button>
        </span>
      </div>
      <p class="quiet">
        {BOUNDS[forward.bound] ?? forward.bound} · {count(n, "run")} · torch {environment.torch}, Python{" "}
        {environment.python}, {environment.device}
      </p>
      {stale && (
        <p class="stale" role="status">
          The code was edited since this run: these are the numbers of the code that ran.
          <button type="button" onClick={() => send({ kind: "profile" })}>
            Profile again
          </button>
        </p>
      )}
      {errors
        .filter(({ kind }) => kind !== SMALLER_FINDINGS)
        .map(({ message }) => (
          <p class="stale" key={message}>
            {message}
          </p>
        ))}
    </header>
  );
}

interface Tab {
  readonly id: string;
  readonly title: string;
  readonly badge?: number;
  readonly view: () => ComponentChildren;
}

/** One tab takes part in the order of the Tab key, the arrow keys choose another, as ARIA's practices say. */
function Tabs({ tabs }: { tabs: readonly Tab[] }): JSX.Element {
  const [current, setCurrent] = useState(remembered().tab ?? tabs[0]?.id);
  const list = useRef<HTMLDivElement>(null);
  const position = Math.max(
    0,
    tabs.findIndex(({ id }) => id === current),
  );

  const choose = (index: number) => {
    const tab = tabs[(index + tabs.length) % tabs.length];
    if (tab !== undefined) {
      setCurrent(tab.id);
      remember({ tab: tab.id });
      (list.current?.children[tabs.indexOf(tab)] as HTMLElement | undefined)?.focus();
    }
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const targets: Readonly<Record<string, number>> = {
      ArrowRight: position + 1,
      ArrowLeft: position - 1,
      Home: 0,
      End: tabs.length - 1,
    };
    const target = targets[event.key];
    if (target !== undefined) {
      event.preventDefault();
      choose(target);
    }
  };

  return (
    <>
      <div class="tabs" role="tablist" aria-label="Views of the report" ref={list}>
        {tabs.map(({ id, title, badge }, index) => (
          <button
            type="button"
            role="tab"
            key={id}
            id={`tab-${id}`}
            aria-controls="panel"
            aria-selected={index === position}
            tabIndex={index === position ? 0 : -1}
            onClick={() => choose(index)}
            onKeyDown={onKeyDown}
          >
            {title}
            {badge !== undefined && badge > 0 && <span class="badge">{badge}</span>}
          </button>
        ))}
      </div>
      <div id="panel" role="tabpanel" aria-labelledby={`tab-${tabs[position]?.id}`}>
        {tabs[position]?.view()}
      </div>
    </>
  );
}
