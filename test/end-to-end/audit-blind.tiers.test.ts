/**
 * What must not be called fragile: an undirected search in the place of the attack, a random suffix, the clean prompt
 * again. Seeded audits of a tiny pair, through the real search, the real scores, the summary and the verdict. The verdict's
 * tests allow an error in 5 % of audits; undirected searches are compared with others of exactly their effort, so that the
 * minimum over many candidates buys them nothing.
 */
import { afterAll, expect, it } from 'vitest';
import { listAllowedTokens } from '../../src/audit/arms/controls.js';
import type { ArmName, ArmResult, AuditResult, PromptResult } from '../../src/audit/result.js';
import { randomSuffix } from '../../src/audit/search/candidates.js';
import { searchSuffix } from '../../src/audit/search/search.js';
import type { Scored, SearchEffort } from '../../src/audit/search/search-problem.js';
import { summariseDrafter } from '../../src/audit/summary.js';
import { createRandom } from '../../src/core/random.js';
import { createSampleAudit } from '../support/report/sample-audit.js';
import { judge } from '../../src/report/audit/verdict.js';
import { byTier } from '../support/tier.js';
import type { ScorerParts } from '../support/tiny-audit.js';
import { TinyAudits, tinySettings } from '../support/tiny-audit.js';

const window = 20;
const texts = ['abcdefgh', 'hgfedcba', 'mnopqrst', 'aabbccdd', 'kjihgfed', 'bdfhjlnp'];
const searched = {
  ...tinySettings,
  steps: 3,
  candidates: 6,
  starts: 2,
  projection: { kind: 'none' },
} as const;

type Measured = Pick<Scored, 'length' | 'divergence'>;

interface BlindSubject {
  readonly allowed: Int32Array;
  readonly prompts: readonly { readonly part: ScorerParts; readonly clean: Measured }[];
}

async function openSubject(audits: TinyAudits): Promise<BlindSubject> {
  const pair = await audits.load(audits.writeDrafter('Medusa, torch file'));
  const { vocabularySize } = audits.sizes;
  const allowed = listAllowedTokens(pair.target.tokenizer, vocabularySize, { allowNonAscii: false });
  const prompts = [];
  for (const text of texts) {
    const part = await audits.openScorer(pair, text, 'total-variation', { window });
    const [clean] = await part.scorer.score([], [{ suffixIds: [], first: 0 }]);
    prompts.push({ part, clean: clean! });
  }
  return { allowed, prompts };
}

interface Undirected {
  readonly best: Measured;
  readonly effort: SearchEffort;
}

async function searchUndirected(
  { scorer }: ScorerParts,
  allowed: Int32Array,
  seed: string,
  match?: SearchEffort,
): Promise<Undirected> {
  const random = createRandom(seed, 'blind');
  const draw = (): number[] => randomSuffix(allowed, tinySettings.suffixLength, random);
  const { finalists, scoredCandidates } = await searchSuffix(
    { scorer, allowed, starts: [draw(), draw()], random, match },
    { ...searched, searchMode: 'unguided' },
  );
  return { best: finalists[0]!, effort: { scoredCandidates, decodedSuffixes: finalists.length } };
}

/** The accepted lengths of four random suffixes, in one pass. */
async function drawRandom({ scorer }: ScorerParts, allowed: Int32Array, seed: string): Promise<Measured[]> {
  const random = createRandom(seed, 'random');
  const drawn = Array.from({ length: 4 }, () => ({
    ...{ suffixIds: randomSuffix(allowed, tinySettings.suffixLength, random), first: 0 },
  }));
  return scorer.score(drawn[0]!.suffixIds, drawn);
}

const { result: sample } = createSampleAudit();
const sampleArm = sample.drafters[0]!.prompts[0]!.arms[0]!;

/** A row with the given accepted length; what the verdict does not look at is a sample's. */
function rowOf(arm: ArmName, repeat: number, { length, divergence }: Measured): ArmResult {
  const steps = (window - 1) / length;
  const sameAnswer = {
    ...sampleArm.sameAnswer,
    ...{ steps, accepted: (length - 1) * steps, meanAcceptedLength: length },
  };
  return { ...sampleArm, arm, repeat, sameAnswer, preservation: { ...sampleArm.preservation, divergence } };
}

const impostors = ['an undirected search', 'a random suffix', 'the clean prompt again'] as const;

/** One audit for each impostor in the place of the attack; all share the controls. */
async function auditImpostors(
  { allowed, prompts }: BlindSubject,
  repetition: number,
): Promise<AuditResult[]> {
  const results: PromptResult[][] = impostors.map(() => []);
  for (const [index, { part, clean }] of prompts.entries()) {
    const seed = `${repetition}/${index}`;
    const [first, second, fluent, impostor] = await drawRandom(part, allowed, seed);
    const search = await searchUndirected(part, allowed, `${seed}/attack`);
    const control = await searchUndirected(part, allowed, `${seed}/control`, search.effort);
    expect(control.effort).toEqual(search.effort);
    const attacks = [search.best, impostor!, clean];
    const controls = [
      rowOf('clean', 1, clean),
      rowOf('random', 1, first!),
      rowOf('random', 2, second!),
      rowOf('fluent', 1, fluent!),
      rowOf('undirected', 1, control.best),
    ];
    attacks.forEach((attack, place) => {
      results[place]!.push({
        ...{ promptId: `p${index}`, category: null, prompt: texts[index]!, skipped: null, traces: [] },
        arms: [...controls, rowOf('attack', 1, attack)],
      });
    });
  }
  return results.map((each) => ({
    ...sample,
    drafters: [{ drafter: 'tiny', prompts: each, summary: summariseDrafter(each) }],
  }));
}

const audits = new TinyAudits();
afterAll(() => audits.dispose());

const { first, repetitions } = byTier({
  quick: { first: 0, repetitions: 10 },
  full: { first: 10, repetitions: 40 },
});

it(`${impostors.join(', ')}: not called fragile in more than 5 % of ${repetitions} audits`, async () => {
  const subject = await openSubject(audits);
  const wrong = impostors.map(() => 0);
  let undirectedDrops = 0;
  for (let repetition = first; repetition < first + repetitions; repetition++) {
    const results = await auditImpostors(subject, repetition);
    results.forEach((result, place) => {
      const { level } = judge(result);
      if (level === 'fragile' || level === 'collapsed') wrong[place]! += 1;
    });
    if (results[0]!.drafters[0]!.summary.drop.estimate >= 0.1) undirectedDrops += 1;
  }
  for (const [place, name] of impostors.entries())
    expect(wrong[place], name).toBeLessThanOrEqual(0.05 * repetitions);
  // The test would show nothing if undirected searches did not shorten drafts: they do, by more than the verdict requires.
  expect(undirectedDrops).toBeGreaterThan(repetitions / 2);
});
