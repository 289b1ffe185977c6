/** The editor's colours, for what is drawn rather than styled. */

import { useEffect, useState } from "preact/hooks";

export interface Theme {
  readonly contrast: boolean;
  readonly font: string;
  color(name: string): string;
}

/** The present theme; another one draws everything again. */
export function useTheme(): Theme {
  const [theme, setTheme] = useState(read);
  useEffect(() => {
    // The editor changes the classes and the style of the page when the user changes the theme.
    const observer = new MutationObserver(() => setTheme(read()));
    observer.observe(document.body, { attributes: true, attributeFilter: ["class"] });
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["style"] });
    return () => observer.disconnect();
  }, []);
  return theme;
}

function read(): Theme {
  const style = getComputedStyle(document.body);
  return {
    contrast:
      document.body.classList.contains("vscode-high-contrast") ||
      document.body.classList.contains("vscode-high-contrast-light"),
    font: style.fontFamily,
    color: (name) => style.getPropertyValue(`--${name}`).trim(),
  };
}
