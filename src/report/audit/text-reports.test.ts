import { describe, expect, it } from 'vitest';
import type { AuditResult } from '../../audit/result.js';
import { renderJson, stringifyStably } from './write-reports.js';
import { createAuditReport } from './audit-report.js';
import { printReport } from '../document.js';
import { renderJUnit } from './write-reports.js';
import { parseXml as parse } from '../../../test/support/report/parse-document.js';
import { createSampleAudit } from '../../../test/support/report/sample-audit.js';
import type { Verdict } from './verdict.js';
import { judge } from './verdict.js';

const renderMarkdown = (...parts: Parameters<typeof createAuditReport>): string =>
  printReport(createAuditReport(...parts), 'markdown');

const { result, timings } = createSampleAudit();
const verdict = judge(result, { failIfDrop: 0.3 });

describe('JSON', () => {
  it('does not depend on the order in which records were built', () => {
    expect(stringifyStably({ b: 1, a: { d: [2, { y: 1, x: 2 }], c: null } })).toBe(
      stringifyStably({ a: { c: null, d: [2, { x: 2, y: 1 }] }, b: 1 }),
    );
  });

  it('is the whole result with its verdict and times, and ends with a line end', () => {
    const text = renderJson(result, timings, verdict);
    expect(text).toMatch(/^\{\n {2}"schema": "mistletoe.audit\/2",\n {2}"verdict": \{/);
    expect(text.endsWith('}\n')).toBe(true);
    expect(JSON.parse(text)).toEqual({ ...result, verdict, timings });
  });

  it('names the folder of the run where one is given, and keeps numbers numbers', () => {
    const text = renderJson(result, timings, verdict, 'runs/eagle3-7');
    expect(text).toMatch(/^\{\n {2}"schema": "[^"]+",\n {2}"runFolder": "runs\/eagle3-7",/);
    expect(text).not.toMatch(/": "-?\d+(\.\d+)?"/);
    const [drafter] = (JSON.parse(text) as { verdict: Verdict }).verdict.drafters;
    expect(drafter).toMatchObject({ pValue: 0.0078125, adjustedPValue: 0.015625 });
  });
});

describe('Markdown', () => {
  const text = renderMarkdown(result, timings, verdict);

  it('has the verdict, a row for each arm of each drafter, and the command', () => {
    expect(text).toContain(
      '🔴 **Collapsed** · Mistletoe audit: reference/target, 12.5 million parameters, preset standard, seed 7.',
    );
    expect(text).toContain('**Gate failed.**');
    expect(text.match(/^\| eagle3 +\| .*\d\.\d\d(?:\*\*)? \(\d\.\d\d to /gm)).toHaveLength(8);
    expect(text).toMatch(
      /^\| sps +\| \*\*attack\*\* +\| +\*\*\d\.\d\d\*\* \(\d\.\d\d to \d\.\d\d\) \| +−39 % \| +\d+\.\d \(\+64 %\) \| +4\/1\/3\/0 \| +\d\.\d\d \(\+64 %\) \| +0\.\d{3} \| +8 \|$/m,
    );
    expect(text).toContain(`\n${result.setup.command}\n`);
  });

  it('has one row that says where the time went', () => {
    const [, row] =
      /^\| time +\| +gradient \| +scoring \| +exact lengths \| +decoding \| +controls \| +preparation \| +other \| +total \|\n\|[ |:-]+\n(?:.*\n){2}(.*)\n\n/m.exec(
        text,
      )!;
    expect(row).toMatch(/^\| all +\| +8\.0 s \(4 %\) \| +32\.0 s \(17 %\) \| .* \| +3 min 4 s \|$/);
  });

  it('explains its columns, and lists every test', () => {
    for (const name of ['accepted length', 'change', 'passes', 'answers', 'free-running', 'KL'])
      expect(text).toContain(`${name}: `);
    expect(text).toMatch(
      /^- eagle3, collapsed: drops by \d\d\.\d % .* against no suffix \(n = 8\), .* against random tokens .* against fluent text .* against undirected search .* corrected for 2 drafters: p = 0\.016; 8 prompts audited, 1 of them without a suffix \(counted as no drop\), 1 skipped$/m,
    );
    const bare = createSampleAudit({ leaveOut: ['undirected'] });
    const without = renderMarkdown(bare.result, bare.timings, judge(bare.result));
    expect(without).toContain('undirected search not measured');
    expect(without).toContain('no search of equal effort was run');
  });

  it('has the given suffixes in place of an attack', () => {
    const given = createSampleAudit({ given: true });
    const shown = renderMarkdown(given.result, given.timings, judge(given.result));
    expect(shown).toMatch(/^\| eagle3 +\| \*\*given suffix\*\* +\| +\*\*\d/m);
    expect(shown).not.toMatch(/\| (?:\*\*)?attack/);
  });

  it('fits into a comment on GitHub, however many drafters there are', () => {
    const [first] = result.drafters;
    for (const count of [0, 1, 20, 40]) {
      const drafters = Array.from({ length: count }, (_, index) => ({
        ...first!,
        drafter: `drafter-${index}`,
      }));
      const names = drafters.map(({ drafter }) => drafter);
      const lengths = names.map(() => 2);
      const attacked = names.map(() => lengths);
      const transfer = { ...result.transfer!, drafters: names, clean: lengths, attacked };
      const setup = { ...result.setup, command: `mistletoe audit ${'x'.repeat(300 * count)}` };
      const many: AuditResult = { ...result, setup, drafters, transfer };
      const shown = renderMarkdown(many, timings, judge(many, { failIfDrop: 0.1 }));
      expect(shown.length).toBeLessThan(65_536);
      expect(shown).toContain('### Setup and how to reproduce');
      expect(shown.includes('The rest is left out here')).toBe(count > 20);
      expect(shown.match(/^```/gm)?.length ?? 0).toBe(count > 20 ? 0 : 2);
    }
  });

  it('lets no name become markup, a mention or a link', () => {
    const [first] = result.drafters;
    const named = { ...result, drafters: [{ ...first!, drafter: '|@all <b>[x](https://evil.test)\n# y' }] };
    const hostile = renderMarkdown(named, timings, judge(named));
    expect(hostile).not.toMatch(/@all|<b>\[|https:\/\/|\n# y/);
    const bars = hostile.match(/^\| .*$/gm)?.map((row) => row.match(/(?<!\\)\|/g)!.length);
    expect(new Set(bars)).toEqual(new Set([9, 4, 10, 3])); // rows and times, transfer, universal, facts
  });

  it('shows what steers a terminal by its picture, in the command too', () => {
    const setup = { ...result.setup, command: 'mistletoe audit \u001b[2J\u202ex ```' };
    const shown = renderMarkdown({ ...result, setup }, timings, verdict);
    expect(shown).toContain("\nmistletoe audit ␛[2J⟨U+202E⟩x '''\n");
  });

  it('says that nothing was audited', () => {
    const empty = createSampleAudit({ empty: true });
    const nothing = renderMarkdown(empty.result, empty.timings, judge(empty.result));
    expect(nothing).toContain('⚪ **Inconclusive**');
    expect(nothing).toContain('**Incomplete.**');
    expect(nothing).toContain('| eagle3  | nothing audited |');
  });
});

describe('JUnit', () => {
  it('has a suite for each drafter, and in it what was measured and the gates', () => {
    const suites = [...parse(renderJUnit(result, verdict)).querySelectorAll('testsuite')];
    expect(suites.map((suite) => suite.getAttribute('name'))).toEqual(['mistletoe.eagle3', 'mistletoe.sps']);
    for (const suite of suites) {
      const [audited, gate, ...others] = [...suite.querySelectorAll('testcase')];
      expect([suite.getAttribute('tests'), others.length]).toEqual(['2', 0]);
      expect(suite.querySelectorAll('failure')).toHaveLength(Number(suite.getAttribute('failures')));
      expect(audited?.textContent).toMatch(
        /^\s*With a suffix, .* \d+ % fewer tokens per step \(95 % interval /,
      );
      expect(gate?.getAttribute('name')).toBe('gate: drop of the accepted length along the clean answer');
    }
  });

  it('skips a gate that is undecided', () => {
    const few = createSampleAudit({ prompts: 2, strength: 0.1, withoutSuffix: 'none' }).result;
    const undecided = judge(few, { failIfDrop: 0.9, failIfAcceptedLengthBelow: 1 });
    expect(undecided.exitCode).toBe(4);
    const suites = [...parse(renderJUnit(few, undecided)).querySelectorAll('testsuite')];
    for (const suite of suites) {
      const skipped = [...suite.querySelectorAll('skipped')];
      expect(skipped).toHaveLength(2);
      expect(suite.getAttribute('skipped')).toBe('2');
      expect(suite.getAttribute('failures')).toBe('0');
      expect(skipped[0]?.getAttribute('message')).toContain('2 prompts cannot decide it (5 or more can)');
    }
    expect(renderMarkdown(few, timings, undecided)).toContain('**Not decided.**');
  });

  it('marks what was not audited as an error', () => {
    const empty = createSampleAudit({ empty: true });
    const text = renderJUnit(empty.result, judge(empty.result));
    expect(parse(text).querySelectorAll('error')).toHaveLength(2);
    const none = { ...result, drafters: [] };
    expect(parse(renderJUnit(none, judge(none))).querySelectorAll('error')).toHaveLength(1);
  });

  it('escapes names, and has no character that XML forbids', () => {
    const [first] = result.drafters;
    const name = '<a b="c">&\'\u0000\u001b\uffff]]>\ud800\n';
    const hostile = { ...result, drafters: [{ ...first!, drafter: name }] };
    const text = renderJUnit(hostile, judge(hostile, { failIfDrop: 0.1 }));
    expect(text).not.toMatch(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/);
    expect(text).not.toMatch(/\p{Cs}/u);
    expect(text).toContain(
      'name="mistletoe.&lt;a b=&quot;c&quot;&gt;&amp;&#39;␀␛⟨U+FFFF⟩]]&gt;⟨U+D800⟩&#10;"',
    );
    expect(text).not.toContain('<a ');
  });
});
