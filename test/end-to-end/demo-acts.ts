/** The first act of `mistletoe demo`, for the tests of both tiers. */
import { expect } from 'vitest';
import type { FakeTerminalOptions } from '../support/fake-terminal.js';
import { bundledCache } from '../support/model-folders.js';
import type { Outcome } from '../support/run-command.js';
import { createRunner } from '../support/run-command.js';

export const demo = createRunner('demo', bundledCache);

export function playFirstAct(options?: FakeTerminalOptions): Promise<Outcome> {
  return demo(['--act', '1'], options);
}

/** The words of each text after the gutter, in the order shown: wrapping may differ, since brackets take room. */
export function textsOf(out: string): string[] {
  const blocks = out.split('\n').map((line) => (line.startsWith('│ ') ? line.slice(2) : '\0'));
  const texts = blocks
    .join('\n')
    .split('\0')
    .map((text) => text.replace(/[⟨⟩]/g, '').trim());
  return texts.filter((text) => text !== '').map((text) => text.replace(/\s+/g, ' '));
}

export function expectFirstAct({ code, out, err }: Outcome): void {
  expect([code, err]).toEqual([0, '']);
  const texts = textsOf(out);
  expect(texts).toHaveLength(2);
  expect(texts[1]).toBe(texts[0]);
  expect(texts[0]!.length).toBeGreaterThan(20);
  expect(out).toContain('Both answers are identical, token for token.');
  expect(out.match(/^ {2}plain +\d+ tokens\/s/gm)).toHaveLength(1);
  expect(out.match(/^ {2}with drafts +\d+ tokens\/s .*\d\.\d\dx$/gm)).toHaveLength(1);
  expect(out).toMatch(/⟨text⟩ {2}drafted, accepted by the target/);
  expect(out).toMatch(/^│ .*⟨[^⟨⟩]+⟩/m);
  expect(Math.max(...out.split('\n').map((line) => line.length))).toBeLessThanOrEqual(80);
}
