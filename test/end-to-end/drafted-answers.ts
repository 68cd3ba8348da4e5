/** `mistletoe generate` with a drafter, as JSON, and which numbers of it must fit together. */
import { expect } from 'vitest';
import { bundledCache } from '../support/model-folders.js';
import { createRunner } from '../support/run-command.js';

export const generate = createRunner('generate', bundledCache);

export interface DraftedAnswer {
  readonly tokenIds: number[];
  readonly text: string;
  readonly decodeMs: number;
  readonly drafter: string;
  readonly draftPolicy: string;
  readonly verification: { readonly rule: string; readonly lossless: boolean };
  readonly drafterFailed: boolean;
  readonly steps: number;
  readonly acceptedLengths: number[];
  readonly meanAcceptedLength: number;
  readonly acceptanceByDepth: number[];
  readonly acceptedTokens: number;
  readonly proposedTokens: number;
  readonly targetPasses: number;
  readonly drafterPasses: number;
  readonly draftMs: number;
  readonly verifyMs: number;
  readonly overheadMs: number;
}

export async function generateJson(argv: readonly string[]): Promise<DraftedAnswer[]> {
  const { code, out } = await generate([...argv, '--format', 'json']);
  expect(code).toBe(0);
  return out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as DraftedAnswer);
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** The bundled drafter gives the text of plain decoding, and numbers that fit together. */
export async function expectPlainText(name: string, drafter: string): Promise<void> {
  const code = ['--prompt', 'Write a Python function that reverses a string.', '-n', '30'];
  const [plain] = await generateJson(code);
  const [result] = await generateJson([...code, '--drafter', name, '--draft', 'chain:4']);
  expect(result!.tokenIds).toEqual(plain!.tokenIds);
  expect(result!.text).toBe(plain!.text);
  expect(result).toMatchObject({
    drafter,
    draftPolicy: 'chain:4',
    verification: { rule: 'greedy', lossless: true },
    drafterFailed: false,
  });
  const { steps, acceptedLengths, acceptedTokens, proposedTokens, acceptanceByDepth } = result!;
  expect(acceptedLengths).toHaveLength(steps);
  expect(acceptedTokens).toBeGreaterThan(0);
  expect(sum(acceptedLengths)).toBe(acceptedTokens + steps);
  // The first token comes from the prompt; the last path may run past the end.
  expect(sum(acceptedLengths)).toBeGreaterThanOrEqual(result!.tokenIds.length - 1);
  expect(sum(acceptedLengths.slice(0, -1))).toBeLessThan(result!.tokenIds.length);
  expect(result!.meanAcceptedLength).toBeCloseTo(1 + acceptedTokens / steps, 10);
  expect(sum(acceptanceByDepth) * steps).toBeCloseTo(acceptedTokens, 8);
  expect(proposedTokens).toBe(4 * steps);
  expect(result!.targetPasses).toBe(steps);
  expect(result!.drafterPasses).toBeGreaterThanOrEqual(steps);
  const { draftMs, verifyMs, overheadMs, decodeMs } = result!;
  expect(Math.min(draftMs, verifyMs, overheadMs)).toBeGreaterThan(0);
  expect(draftMs + verifyMs + overheadMs).toBeCloseTo(decodeMs, 6);
}
