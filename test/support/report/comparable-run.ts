/** Finished audits made by hand, as far as a comparison reads them. */
import type { ArmName } from '../../../src/audit/result.js';
import type { KeptClass } from '../../../src/measure/kept-class.js';
import type { ComparablePrompt, ComparedRun } from '../../../src/report/compare/finished-run.js';

export type Row = readonly [arm: ArmName, accepted: number, steps: number, kept?: KeptClass];

export function prompt(
  promptId: string,
  rows: readonly Row[],
  more: Partial<ComparablePrompt> = {},
): ComparablePrompt {
  return {
    promptId,
    prompt: `text of ${promptId}`,
    skipped: null,
    arms: rows.map(([arm, accepted, steps, kept = 'identical']) => ({
      ...{ arm, withoutSuffix: null, sameAnswer: { accepted, steps }, preservation: { kept } },
    })),
    ...more,
  };
}

export const identity = { name: 'm', parameterCount: 7, sha256: '1'.repeat(64) };

export function run(
  drafters: Readonly<Record<string, readonly ComparablePrompt[]>>,
  setup: Partial<ComparedRun['result']['setup']> = {},
): ComparedRun {
  const ids = Object.keys(drafters);
  return {
    name: 'runs/x',
    result: {
      setup: {
        ...{ version: '0.2.0', node: 'v20', target: identity, preset: 'standard', seed: 0, command: '' },
        drafters: ids.map((id) => ({ ...identity, id, system: 'EAGLE', policy: 'chain:4' })),
        options: { steps: 40 },
        promptCount: 2,
        ...setup,
      },
      drafters: Object.entries(drafters).map(([drafter, prompts]) => ({ drafter, prompts })),
      verdict: {
        level: 'fragile',
        headline: 'Slow.',
        drafters: ids.map((drafter) => ({ drafter, level: `level of ${drafter}` })),
      },
    },
  };
}

/** Clean length 3, attacked length as given, over ten steps. */
export const attacked = (id: string, length: number): ComparablePrompt =>
  prompt(id, [
    ['clean', 20, 10],
    ['attack', (length - 1) * 10, 10],
  ]);
