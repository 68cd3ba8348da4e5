/** The examples of docs/library.md, one program in the order in which they stand, run against the transpiled package. */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { transformWithEsbuild } from 'vite';
import { beforeAll, describe, expect, it } from 'vitest';
import { transpileForTests } from '../support/transpiled-sources.js';
import { examples } from './library-page.js';

const { folder: build } = transpileForTests('library');

/** Printed at the end, as one line of JSON. */
const reported = `
console.log('\\n' + JSON.stringify({
  plain: plain.text, reason: plain.finishReason,
  speculative: speculative.text, length: speculative.acceptance.meanAcceptedLength,
  kind: inspection.kind, problems: inspection.problems,
  answers: answers.map(({ text }) => text),
  first: first.text, second: second.text,
  summaries: benchmark.summaries.map(({ system, policy, requests }) => ({ system, policy, requests })),
  status: outcome.status, verified: verified.result,
  differences: comparison.differences, compared: comparison.drafters.length,
  cached: contents.totalBytes, guarded: guarded.status, replayed: replay.requests,
  trained: trained.status, updates: trained.result.updates, made: medusa.system,
  hardened: hardened.status, roles: hardened.result.audits[0].rows.map(({ role }) => role),
}));`;

interface Report {
  readonly plain: string;
  readonly answers: readonly string[];
  readonly cached: number;
  readonly length: number;
}

/** Smaller numbers for audits and hardening, so that they take seconds: everything else runs as it is printed. */
const reductions: readonly (readonly [printed: string, reduced: string])[] = [
  [
    'settings: { steps: 2, candidates: 16, suffixLength: 6, maxNewTokens: 32 }',
    'settings: { steps: 1, candidates: 4, starts: 1, finalists: 1, randomDraws: 1, suffixLength: 6, window: 4, shortestAnswer: 4, maxNewTokens: 8 }',
  ],
  [
    'hardening: { rounds: 1, promptsPerRound: 2, suffixesPerPrompt: 1, searchSteps: 1, stepsPerRound: 2 }',
    'hardening: { rounds: 1, promptsPerRound: 1, suffixesPerPrompt: 1, randomPerPrompt: 1, spread: 1, searchSteps: 1, suffixLengths: [5], stepsPerRound: 1 }',
  ],
  ["  baselines: ['random'], // or []", '  baselines: [],'],
  [
    '    steps: 2,\n    candidates: 16,\n    starts: 1,',
    '    steps: 1,\n    candidates: 4,\n    window: 4,\n    shortestAnswer: 4,\n    starts: 1,',
  ],
  ['    maxNewTokens: 32,\n  },\n});\nconst hardened', '    maxNewTokens: 8,\n  },\n});\nconst hardened'],
];

function reduce(code: string): string {
  return reductions.reduce((text, [printed, reduced]) => {
    if (!text.includes(printed)) throw new Error(`docs/library.md no longer has: ${printed}`);
    return text.replace(printed, reduced);
  }, code);
}

describe('docs/library.md', () => {
  let report: Report;
  beforeAll(async () => {
    const { code } = await transformWithEsbuild(reduce([...examples, reported].join('\n')), 'examples.ts');
    const script = join(build, 'examples.mjs');
    writeFileSync(script, code.replaceAll("'@mistletoe-ai/mistletoe'", "'./src/index.js'"));
    const { status, stdout, stderr } = spawnSync(process.execPath, [script], {
      ...{ cwd: build, encoding: 'utf8', maxBuffer: 1e8 },
      env: { ...process.env, MISTLETOE_CACHE: join(build, 'cache') },
    });
    expect(status, stderr).toBe(0);
    report = JSON.parse(stdout.trimEnd().split('\n').at(-1)!) as Report;
  });

  it('has examples that run and say what the page says', () => {
    expect(examples.length).toBeGreaterThan(9);
    expect(report).toMatchObject({
      ...{ reason: 'length', speculative: report.plain, first: report.plain },
      ...{ kind: 'eagle3', problems: [], second: report.answers[2] },
      summaries: [
        { system: 'plain', policy: 'none', requests: 2 },
        { system: 'eagle3', policy: 'chain:4', requests: 2 },
      ],
      ...{ status: 'complete', verified: 'follows', differences: [], compared: 1 },
      ...{ guarded: 200, replayed: 1, trained: 'complete', updates: 3, made: 'medusa' },
      ...{ hardened: 'complete', roles: ['before', 'hardened'] },
    });
    expect(report.plain.startsWith(report.answers[0]!)).toBe(true);
    expect(report.length).toBeGreaterThan(1);
    expect(report.cached).toBeGreaterThan(0);
  });
});
