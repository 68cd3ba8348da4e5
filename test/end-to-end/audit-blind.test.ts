/**
 * What must not be called fragile: a blind search in the place of the attack, a random suffix, the clean prompt again.
 * One hundred seeded audits of a tiny pair each, through the real search, the real scores, the summary and the verdict.
 * The verdict's tests allow an error in 5 % of audits; blind searches are compared with blind searches of the same
 * effort, so their minimum over many candidates buys them nothing.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { listAllowedTokens } from '../../src/audit/allowed-tokens.js';
import { randomSuffix } from '../../src/audit/candidates.js';
import type { ArmName, ArmResult, AuditResult, PromptResult } from '../../src/audit/result.js';
import type { Scored } from '../../src/audit/scoring.js';
import { searchSuffix } from '../../src/audit/search.js';
import { summariseDrafter } from '../../src/audit/summary.js';
import { createRandom } from '../../src/core/random.js';
import { createSampleAudit } from '../../src/report/testing/sample-audit.js';
import { judge } from '../../src/report/verdict.js';
import type { ScorerParts } from '../support/tiny-audit.js';
import { TinyAudits, tinySettings } from '../support/tiny-audit.js';

const audits = new TinyAudits();
afterAll(() => audits.dispose());
const repetitions = 100;
const texts = ['abcdefgh', 'hgfedcba', 'mnopqrst', 'aabbccdd', 'kjihgfed', 'bdfhjlnp', 'acegikmo', 'ponmlkji'];
const searched = { ...tinySettings, steps: 4, candidates: 6, starts: 2, projection: { kind: 'none' } } as const;

let parts: ScorerParts[];
let allowed: Int32Array;
beforeAll(async () => {
  const pair = await audits.load(audits.writeDrafter('draft model'));
  parts = [];
  for (const text of texts) parts.push(await audits.openScorer(pair, text));
  allowed = listAllowedTokens(pair.target.tokenizer, audits.sizes.vocabularySize, { allowNonAscii: false });
}, 60_000);

type Measured = Pick<Scored, 'length' | 'divergence'>;

async function searchBlindly({ scorer }: ScorerParts, seed: string): Promise<Measured> {
  const random = createRandom(seed, 'blind');
  const draw = (): number[] => randomSuffix(allowed, tinySettings.suffixLength, random);
  const { finalists } = await searchSuffix(
    { scorer, allowed, starts: [draw(), draw()], random },
    { ...searched, drive: 'undirected' },
  );
  return finalists[0]!;
}

async function drawRandom({ scorer }: ScorerParts, seed: string): Promise<Measured> {
  const suffixIds = randomSuffix(allowed, tinySettings.suffixLength, createRandom(seed, 'random'));
  const [score] = await scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
  return score!;
}

/** A row with the given accepted length; what the verdict does not look at is a sample's. */
function rowOf(sample: ArmResult, arm: ArmName, repeat: number, { length, divergence }: Measured): ArmResult {
  const steps = (tinySettings.window - 1) / length;
  const sameAnswer = { ...sample.sameAnswer, steps, accepted: (length - 1) * steps, meanAcceptedLength: length };
  return { ...sample, arm, repeat, sameAnswer, preservation: { ...sample.preservation, divergence } };
}

type Attack = (part: ScorerParts, seed: string) => Promise<Measured>;

async function auditWith(attack: Attack, repetition: number): Promise<AuditResult> {
  const { result } = createSampleAudit();
  const sample = result.drafters[0]!.prompts[0]!.arms[0]!;
  const prompts: PromptResult[] = [];
  for (const [index, part] of parts.entries()) {
    const seed = `${repetition}/${index}`;
    const [clean] = await part.scorer.score([], [{ suffixIds: [], first: 0 }]);
    prompts.push({
      ...{ promptId: `p${index}`, category: null, prompt: texts[index]!, skipped: null, traces: [] },
      arms: [
        rowOf(sample, 'clean', 1, clean!),
        rowOf(sample, 'random', 1, await drawRandom(part, `${seed}/control-1`)),
        rowOf(sample, 'random', 2, await drawRandom(part, `${seed}/control-2`)),
        rowOf(sample, 'fluent', 1, await drawRandom(part, `${seed}/fluent`)),
        rowOf(sample, 'undirected', 1, await searchBlindly(part, `${seed}/control`)),
        rowOf(sample, 'attack', 1, await attack(part, `${seed}/attack`)),
      ],
    });
  }
  return { ...result, drafters: [{ drafter: 'tiny', prompts, summary: summariseDrafter(prompts, repetition) }] };
}

describe('never called fragile, but for the error that the tests allow', () => {
  it.each<[string, Attack]>([
    ['a blind search', searchBlindly],
    ['a random suffix', drawRandom],
    ['the clean prompt again', async ({ scorer }) => (await scorer.score([], [{ suffixIds: [], first: 0 }]))[0]!],
  ])(
    '%s',
    async (_, attack) => {
      let wrong = 0;
      let drops = 0;
      for (let repetition = 0; repetition < repetitions; repetition++) {
        const result = await auditWith(attack, repetition);
        const { level } = judge(result);
        if (level === 'fragile' || level === 'collapsed') wrong += 1;
        drops += Number(result.drafters[0]!.summary.drop.estimate >= 0.1);
      }
      expect(wrong).toBeLessThanOrEqual(0.05 * repetitions);
      // The test would be empty if blind searches did not lower the length at all.
      if (attack === searchBlindly) expect(drops).toBeGreaterThan(repetitions / 2);
    },
    300_000,
  );
});
