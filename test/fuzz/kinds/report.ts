/** Reports of audits whose every free text (names, prompts, answers, suffixes) tries to be more than text. */
import type { AuditResult } from '../../../src/audit/result.js';
import { formatAudit } from '../../../src/cli/audit/audit-text.js';
import { createColors, createOutput } from '../../../src/cli/terminal.js';
import type { Random } from '../../../src/core/random.js';
import { createRandom } from '../../../src/core/random.js';
import { createAuditReport } from '../../../src/report/audit/audit-report.js';
import { printReport, renderReportHtml } from '../../../src/report/document.js';
import { renderJson, renderJUnit, renderSuffixes } from '../../../src/report/audit/write-reports.js';
import { createSampleAudit } from '../../support/report/sample-audit.js';
import { judge } from '../../../src/report/audit/verdict.js';
import { pick } from '../byte-mutations.js';
import type { FuzzKind } from '../kind.js';
import { ensure } from '../kind.js';
import { checkHtml, checkMarkdown, checkText, checkXml, describePage, joinWords } from '../report-checks.js';

const renderHtml = (...parts: Parameters<typeof createAuditReport>): string =>
  renderReportHtml(createAuditReport(...parts));
const renderMarkdown = (...parts: Parameters<typeof createAuditReport>): string =>
  printReport(createAuditReport(...parts), 'markdown');

const hostile: readonly string[] = [
  ...[
    '<script>alert(1)</script>',
    '</script>',
    '<img src=x onerror=alert(1)>',
    '"><svg onload=alert(1)>',
    "' onclick='x",
  ],
  ...[
    '</textarea></style></title>',
    '<!--',
    '-->',
    ']]>',
    '<![CDATA[',
    '&lt;',
    '&#x3c;b&#x3e;',
    '&amp',
    '<a href="javascript:x">',
  ],
  ...[
    '\u001b[2J\u001b[31m',
    '\u0007\u0008',
    '\u009b31m',
    '\u202eevil\u202c',
    '\u2066x\u2069',
    '\ud800',
    '\udc00',
    '\u0000',
    '\ufeff',
  ],
  ...[
    '| a | b |',
    '```',
    '`x`',
    '[x](http://y.z)',
    '![x](y)',
    '@somebody',
    '# title',
    '\n## title\n',
    '\n\n---\n',
    '<details>',
  ],
  ...[
    'x'.repeat(20_000),
    '🙂'.repeat(200),
    '\t\r\n',
    '${process}',
    '{{x}}',
    '%s%n',
    'https://evil.example/',
    '__proto__',
    '',
  ],
];
/** What the program itself writes, from lists of its own. */
const fixedKeys = new Set([
  'schema',
  'arm',
  'kept',
  'origins',
  'objective',
  'projection',
  'finishReason',
  'system',
]);

/** The same hostile text in place of the same text, so that names still refer to each other. */
function poison(value: unknown, random: Random, texts = hostile): unknown {
  const replaced = new Map<string, string>();
  const walk = (each: unknown, name: string): unknown => {
    if (typeof each === 'string') {
      if (fixedKeys.has(name)) return each;
      const known = replaced.get(each) ?? `${random.nextInteger(3) === 0 ? '' : each}${pick(random, texts)}`;
      replaced.set(each, known);
      return known;
    }
    if (Array.isArray(each)) return each.map((item) => walk(item, name));
    if (typeof each !== 'object' || each === null) return each;
    return Object.fromEntries(Object.entries(each).map(([field, item]) => [field, walk(item, field)]));
  };
  return walk(value, '');
}

/** What arrives where a reader looks: text is cleaned on its way out. */
function asShown(text: string): string {
  let shown = '';
  const sink = { isTerminal: true, columns: () => 80, write: (part: string) => void (shown += part) };
  createOutput(sink).write(text);
  return shown;
}

export const report: FuzzKind = {
  name: 'report',
  boundedRuns: 12,
  open() {
    const { result: sample, timings } = createSampleAudit({ prompts: 3 });
    const page = (result: AuditResult): string =>
      renderHtml(result, timings, judge(result, { failIfDrop: 0.3 }));
    // Charts break a text at its line ends, into parts of their own.
    const harmless = poison(sample, createRandom('harmless'), ['two\nlines']) as AuditResult;
    const known = joinWords(describePage(page(sample)), describePage(page(harmless)));
    return (seed) => {
      const random = createRandom(seed, 'report');
      const result = poison(sample, random) as AuditResult;
      const verdict = judge(result, { failIfDrop: 0.3 });
      checkHtml(page(result), known);
      checkMarkdown(renderMarkdown(result, timings, verdict));
      checkXml(renderJUnit(result, verdict));
      const colors = createColors(false);
      checkText(asShown(formatAudit(result, verdict, { report: 'report.html', colors, timings })));
      const json = renderJson(result, timings, verdict);
      ensure(!/\p{Cs}/u.test(json), 'JSON with half of a surrogate pair');
      const back = JSON.parse(json) as AuditResult;
      ensure(
        JSON.stringify(back.setup.target) === JSON.stringify(result.setup.target),
        'JSON that says something else',
      );
      for (const line of renderSuffixes(result).split('\n')) if (line !== '') JSON.parse(line);
    };
  },
};
