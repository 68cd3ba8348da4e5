/**
 * The frame of every HTML report: one self-contained file. Its content security policy allows only its own script, by
 * hash, and forbids every request, so model output could not act even if an escape were missing.
 */
import { createHash } from 'node:crypto';
import { type Content, type Markup, fragment, trusted } from './markup.js';
import { pageStyle } from './page-style.js';
import type { Cell } from './table.js';

/** The whole script: the reader's choice of light or dark, and prompts that open for printing. */
const pageScript = `(() => {
  const root = document.documentElement;
  const button = document.getElementById('theme');
  const media = matchMedia('(prefers-color-scheme: dark)');
  const isDark = () => (root.dataset.theme ?? (media.matches ? 'dark' : 'light')) === 'dark';
  const label = () => {
    button.textContent = isDark() ? 'Light' : 'Dark';
    button.setAttribute('aria-label', 'Switch to ' + (isDark() ? 'light' : 'dark') + ' colors');
  };
  try {
    const kept = localStorage.getItem('mistletoe-theme');
    if (kept === 'dark' || kept === 'light') root.dataset.theme = kept;
  } catch {}
  label();
  button.hidden = false;
  media.addEventListener('change', label);
  button.addEventListener('click', () => {
    root.dataset.theme = isDark() ? 'light' : 'dark';
    label();
    try {
      localStorage.setItem('mistletoe-theme', root.dataset.theme);
    } catch {}
  });
  addEventListener('beforeprint', () => {
    for (const prompt of document.querySelectorAll('details')) prompt.open = true;
  });
})();`;

const scriptHash = createHash('sha256').update(pageScript).digest('base64');
const policy = [
  "default-src 'none'",
  "style-src 'unsafe-inline'",
  `script-src 'sha256-${scriptHash}'`,
  "base-uri 'none'",
  "form-action 'none'",
].join('; ');

interface Page {
  readonly title: string;
  readonly brand: string;
  readonly opening: Opening;
  readonly chapters: readonly { readonly id: string; readonly name: string; readonly content: Markup }[];
  readonly imprint: string;
}

/** The first screen: what happened in one sentence, one picture, then the numbers. */
export interface Opening {
  readonly tone: 'robust' | 'fragile' | 'collapsed' | 'inconclusive';
  /** One or two words. */
  readonly label: string;
  /** About 20 words. */
  readonly sentence: string;
  readonly warnings?: readonly string[] | undefined;
  readonly picture: Content;
  readonly meaning?: string | undefined;
  readonly figures: readonly FigureGroup[];
  readonly gate?: readonly GateLine[] | undefined;
}

/** Large numbers, of one drafter where there are several. */
export interface FigureGroup {
  readonly name?: string;
  readonly note?: string;
  readonly figures: readonly Figure[];
}

/** A number with its 95 % interval and what it counts. */
export interface Figure extends Cell {
  readonly label: string;
}

export interface GateLine {
  readonly passed: boolean;
  readonly title: string;
  readonly text: string;
}

function drawFigures({ name, note, figures }: FigureGroup): Markup {
  return fragment`<div class="figures" role="group" aria-label="${name ?? 'Results'}">
${name === undefined ? null : fragment`<div><b>${name}</b><span>${note}</span></div>`}
${figures.map(({ value, interval, label }) => fragment`<div><b>${keepTogether(value)}</b>${interval === undefined ? null : fragment`<i>${keepTogether(`95 % interval ${interval}`)}</i>`}<span>${keepTogether(label)}</span></div>`)}
</div>`;
}

export const drawCard = (caption: Content, content: Content): Markup =>
  fragment`<figure class="card"><figcaption>${caption}</figcaption>${content}</figure>`;

/** No line breaks inside "p = 0.031" or "46 %". */
function keepTogether(sentence: string): string {
  return sentence.replace(/(?<=\b[pn]) (?=[=<])|(?<=[=<]) | (?=%)/g, '\u00a0');
}

function drawOpening(opening: Opening): Markup {
  const { tone, label, sentence, warnings = [], picture, meaning, figures, gate = [] } = opening;
  return fragment`<div class="verdict ${tone}" id="verdict">
${warnings.map((warning) => fragment`<p class="warning"><span class="tag fail">warning</span> ${keepTogether(warning)}</p>`)}
<p class="level">${label}</p>
<h1>${keepTogether(sentence)}</h1>
${picture === null ? null : fragment`<figure class="picture">${picture}</figure>`}
${meaning === undefined ? null : fragment`<p class="meaning">${meaning}</p>`}
${figures.map(drawFigures)}
${gate.length === 0 ? null : fragment`<ul class="gate">${gate.map(({ passed, title, text }) => fragment`<li><span class="tag ${passed ? 'pass' : 'fail'}">${title}</span> ${text}</li>`)}</ul>`}
</div>`;
}

export function framePage({ title, brand, opening, chapters, imprint }: Page): string {
  const page = fragment`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>${title}</title>
<style>${trusted(pageStyle)}</style>
</head>
<body>
<a class="skip" href="#verdict">Skip to the verdict</a>
<header class="top">${drawBrand(brand)}<nav aria-label="Parts of the report">${chapters.map(({ id, name }) => fragment`<a href="#${id}">${name}</a>`)}</nav>
<button id="theme" type="button" hidden>Dark</button></header>
<main>
${drawOpening(opening)}
${chapters.map(({ id, content }) => fragment`<section id="${id}">${content}</section>\n`)}
</main>
<footer>${imprint} ·
this file is self-contained: it loads nothing and sends nothing.</footer>
<script>${trusted(pageScript)}</script>
</body>
</html>
`;
  return page.markup;
}

function drawBrand(name: string): Markup {
  return fragment`<span class="brand"><svg viewBox="0 0 32 32" aria-hidden="true" fill="none" stroke="var(--accent)"
stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"><path d="M16 3v9"/>
<path d="M16 12C11 12 5 15 4 24c6 0 11-4 12-12z" fill="var(--accent-wash)"/>
<path d="M16 12c5 0 11 3 12 12-6 0-11-4-12-12z" fill="var(--accent-wash)"/>
<g fill="var(--card)"><circle cx="16" cy="18.5" r="2.7"/><circle cx="12.8" cy="25" r="2.7"/><circle cx="19.2" cy="25" r="2.7"/></g>
</svg>${name}</span>`;
}
