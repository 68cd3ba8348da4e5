/**
 * The page at /mistletoe: one file with its own style and script, which asks nothing of the network but the state of the
 * server it came from. Its policy allows that style and that script by their hashes, and no text to become markup.
 */
import { createHash } from 'node:crypto';
import type { Markup } from '../report/markup.js';
import { fragment, trusted } from '../report/markup.js';
import { readClientScript } from './client-script.js';
import { pageStyle } from './page-style.js';

export interface Page {
  readonly html: string;
  /** For the header of the same name; two of its rules have no force inside the file. */
  readonly policy: string;
}

let kept: Page | undefined;

/** Put together once: it is the same for every reader and holds nothing about any request. */
export function renderPage(): Page {
  kept ??= createPage();
  return kept;
}

function createPage(): Page {
  const script = readClientScript();
  const inside = [
    "default-src 'none'",
    `script-src '${hash(script)}'`,
    `style-src '${hash(pageStyle)}'`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
  return { html: drawPage(inside, script).markup, policy: `${inside}; frame-ancestors 'none'` };
}

const hash = (text: string): string => `sha256-${createHash('sha256').update(text).digest('base64')}`;

function drawPage(policy: string, script: string): Markup {
  return fragment`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>Mistletoe</title>
<link rel="icon" href="data:image/svg+xml,${encodeURIComponent(drawIcon())}">
<style>${trusted(pageStyle)}</style>
</head>
<body>
<a class="skip" href="#requests-part">Skip to the requests</a>
<header class="top">
<span class="brand">${trusted(drawSprig('var(--accent)', 'var(--accent-wash)', 'var(--card)'))}<span id="name">Mistletoe</span></span>
<span id="upstream" class="soft small"></span>
<span class="tools"><span id="connection" class="pill opening" role="status">connecting</span>
<button id="pause" type="button" aria-pressed="false">Pause</button>
<button id="theme" type="button" hidden>Dark</button></span>
</header>
<main>
<noscript><div class="notice trouble"><b>This page needs its script</b><p>It draws what the server tells as JSON. The same numbers are at /mistletoe/api/state and, for Prometheus, among the metrics.</p></div></noscript>
<p id="announcer" class="unseen" aria-live="assertive"></p>
<div id="notice" role="status"></div>
${drawAccess()}
<div id="content" hidden>
${drawCounts()}
${drawFilters()}
${drawCharts()}
${drawEvents()}
${drawRequests()}
</div>
</main>
<footer><span id="version">Mistletoe</span> · no prompts, no answers and no keys are kept or shown here.</footer>
<script>${trusted(script)}</script>
</body>
</html>
`;
}

function drawAccess(): Markup {
  return fragment`<form id="access" class="card" hidden>
<h2>This server wants a key</h2>
<p class="soft">The operator’s key; it is kept until this tab is closed and sent to this server alone.</p>
<p id="refusal" class="wrong" role="alert" hidden>The server did not accept that key.</p>
<label for="key">Key</label> <input id="key" type="password" autocomplete="off" spellcheck="false"> <button type="submit">Open</button>
</form>`;
}

function drawCounts(): Markup {
  const figures = [
    ['requests', 'requests answered'],
    ['running', 'running now'],
    ['alerts', 'alerts'],
    ['withoutTelemetry', 'without telemetry'],
    ['failed', 'failed'],
  ] as const;
  return fragment`<dl class="figures">${figures.map(
    ([name, label]) => fragment`<div><dt>${label}</dt><dd id="count-${name}">–</dd></div>`,
  )}</dl>`;
}

function drawFilters(): Markup {
  const verdicts = ['normal', 'low', 'collapsed', 'learning', 'unreadable'];
  return fragment`<div class="filters" role="group" aria-label="Show only">
<label>Model <select id="filter-model"><option value="">all</option></select></label>
<label>Tenant <select id="filter-tenant"><option value="">all</option></select></label>
<label>Verdict <select id="filter-verdict"><option value="">all</option>${verdicts.map(
    (verdict) => fragment`<option value="${verdict}">${verdict}</option>`,
  )}</select></label>
</div>`;
}

function drawCharts(): Markup {
  return fragment`<section aria-labelledby="lengths-title"><h2 id="lengths-title">Accepted length</h2>
<p class="soft lead">Accepted draft tokens + 1 for each step of the target. At 1 no draft is of any use. The band is 1 % to 99 % of the baseline.</p>
<ul class="key"><li><i class="k-line"></i>mean over a slice of time</li><li><i class="k-band"></i>expected</li><li><i class="k-middle"></i>middle of what is expected</li><li><i class="k-low"></i>below the band</li><li><i class="k-high"></i>above it</li></ul>
<div id="streams" class="grid"></div>
<p id="no-streams" class="card empty" hidden>No stream of requests to show.</p></section>`;
}

function drawEvents(): Markup {
  return fragment`<div class="grid events">
<section class="card" aria-labelledby="alerts-title"><h2 id="alerts-title">Alerts</h2>
<ul id="alerts" tabindex="0" aria-labelledby="alerts-title"></ul><p id="no-alerts" class="empty">None so far.</p></section>
<section class="card" aria-labelledby="actions-title"><h2 id="actions-title">Actions</h2>
<ul id="actions" tabindex="0" aria-labelledby="actions-title"></ul><p id="no-actions" class="empty">None so far.</p></section>
</div>`;
}

function drawRequests(): Markup {
  const columns = [
    ['Time', 'name'],
    ['Tenant', 'name'],
    ['Model', 'name'],
    ['Tokens', 'number'],
    ['Accepted length', 'number'],
    ['Verdict', null],
    ['Upstream', null],
    ['Evidence', null],
    ['Drafts by step', null],
  ] as const;
  return fragment`<section id="requests-part" class="card" tabindex="-1" aria-labelledby="requests-title">
<h2 id="requests-title">Requests <small id="shown" class="soft"></small></h2>
<ul class="key"><li><i class="a"></i>accepted draft token</li><li><i class="r"></i>the target’s own token after a rejected draft</li><li><i class="b"></i>after a draft that was accepted whole</li><li><i class="k-rejected"></i>rejected, in the columns</li></ul>
<div class="scroll" role="region" tabindex="0" aria-labelledby="requests-title"><table id="requests">
<thead id="requests-head"><tr>${columns.map(([name, kind]) => fragment`<th scope="col" class="${kind}">${name}</th>`)}</tr></thead>
</table></div>
<p id="no-requests" class="empty" hidden>No request fits.</p></section>`;
}

/** Two leaves and three berries. */
function drawSprig(line: string, leaf: string, berry: string): string {
  return (
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32" aria-hidden="true" fill="none" stroke="${line}" ` +
    'stroke-width="1.8" stroke-linecap="round" stroke-linejoin="round"><path d="M16 3v9"/>' +
    `<path d="M16 12C11 12 5 15 4 24c6 0 11-4 12-12z" fill="${leaf}"/>` +
    `<path d="M16 12c5 0 11 3 12 12-6 0-11-4-12-12z" fill="${leaf}"/>` +
    `<g fill="${berry}"><circle cx="16" cy="18.5" r="2.7"/><circle cx="12.8" cy="25" r="2.7"/>` +
    '<circle cx="19.2" cy="25" r="2.7"/></g></svg>'
  );
}

const drawIcon = (): string => drawSprig('#17705f', '#dcefe8', '#ffffff');
