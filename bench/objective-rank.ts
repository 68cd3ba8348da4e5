/**
 * Does an objective know which suffix slows decoding down? Random suffixes are decoded for real, and their accepted
 * lengths are compared, by rank, with what each objective says of them: 1 is a perfect guide, 0 is none.
 * Run: npm run bench:objective-rank [-- PROMPTS_PER_SET [SUFFIXES [THREADS [DRAFTER ...]]]]
 */
import { join } from 'node:path';
import { listAllowedTokens } from '../src/audit/allowed-tokens.js';
import type { AuditPrompt } from '../src/audit/audit-prompt.js';
import { joinPrompt, preparePrompt } from '../src/audit/audit-prompt.js';
import { drawRandomSuffix } from '../src/audit/controls.js';
import { createObjective, objectiveNames } from '../src/audit/objectives.js';
import { readPromptState } from '../src/audit/prompt-state.js';
import { Scorer } from '../src/audit/scoring.js';
import { compileSearch } from '../src/audit/search-programs.js';
import { createRandom } from '../src/core/random.js';
import { findDrafterFolder } from '../src/decode/bundled-drafters.js';
import { bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { always, decodeSpeculative } from '../src/decode/speculative.js';
import { openTarget } from '../src/decode/target.js';
import type { Drafter } from '../src/draft/drafter.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompt-set.js';
import { printTable } from './stopwatch.js';

const [perSet = '2', count = '36', threads = '2', ...named] = process.argv.slice(2);
const drafters = named.length > 0 ? named : ['sps', 'eagle3'];
const settings = { window: 20, suffixLength: 20, divergence: 'clean-to-suffixed' } as const;
const maxNewTokens = 96;

const runtime = createOnnxRuntime({ threads: Number(threads) });
const target = await openTarget(bundledTarget, { runtime });
const allowed = listAllowedTokens(target.tokenizer, target.model.configuration.vocabularySize, {
  allowNonAscii: false,
});
const prompts: AuditPrompt[] = [];
for (const set of ['mt-bench', 'humaneval', 'gsm8k']) {
  const all = await loadPrompts(set, { folder: join(packageRoot, '../shared/data') });
  for (const prompt of all.slice(0, Number(perSet)))
    prompts.push(await preparePrompt(target, prompt, { ...settings, maxNewTokens, chat: true }));
}

const rows = [
  ['drafter', ...objectiveNames, 'accepted length of random suffixes', 'lowest, mean over prompts'],
];
for (const id of drafters) {
  const drafter = await loadDrafter(findDrafterFolder(id), {
    target: target.model,
    tokenizer: target.tokenizer,
  });
  target.model.setTaps(drafter.taps);
  const correlations = objectiveNames.map((): number[] => []);
  const lengths: number[][] = [];
  for (const prompt of prompts) {
    const random = createRandom(1, 'objective-rank', prompt.id);
    const suffixes: (readonly number[])[] = [];
    while (suffixes.length < Number(count))
      suffixes.push(await drawRandomSuffix(target, prompt, allowed, settings.suffixLength, random));
    const measured: number[] = [];
    for (const suffixIds of suffixes) measured.push(await decode(drafter, joinPrompt(prompt, suffixIds)));
    lengths.push(measured);
    for (const [index, scores] of (await scoreAll(drafter, prompt, suffixes)).entries())
      correlations[index]!.push(-correlateRanks(scores, measured));
  }
  const all = lengths.flat();
  rows.push([
    id,
    ...correlations.map((values) => mean(values).toFixed(2)),
    mean(all).toFixed(2),
    mean(lengths.map((measured) => Math.min(...measured))).toFixed(2),
  ]);
}
await runtime.dispose();
console.log(
  `${prompts.length} prompts, ${count} random suffixes each; rank correlation, mean over prompts\n`,
);
printTable(rows);

async function decode(drafter: Drafter, promptIds: readonly number[]): Promise<number> {
  const { acceptance } = await decodeSpeculative(target.model, drafter, {
    promptIds,
    maxNewTokens,
    sampling: { temperature: 0 },
    seed: 0,
    stopIds: target.stopIds,
    policy: always({ kind: 'chain', length: 4 }),
  });
  return acceptance.meanAcceptedLength;
}

/** [objective][suffix] degradation */
async function scoreAll(
  drafter: Drafter,
  prompt: AuditPrompt,
  suffixes: readonly (readonly number[])[],
): Promise<number[][]> {
  const models = { target: target.model, drafter };
  const state = await readPromptState(models, prompt.beforeIds);
  const scores: number[][] = [];
  for (const name of objectiveNames) {
    const programs = await compileSearch(models, createObjective(name, 4), settings);
    const scorer = new Scorer(target, models, programs, prompt, state);
    const candidates = suffixes.map((suffixIds) => ({ suffixIds, first: 0 }));
    scores.push((await scorer.score(suffixes[0]!, candidates)).map(({ degradation }) => degradation));
  }
  return scores;
}

function correlateRanks(left: readonly number[], right: readonly number[]): number {
  const [x, y] = [ranksOf(left), ranksOf(right)];
  const centre = (left.length - 1) / 2;
  let shared = 0;
  let own = 0;
  x.forEach((rank, index) => {
    shared += (rank - centre) * (y[index]! - centre);
    own += (rank - centre) ** 2;
  });
  return shared / own;
}

function ranksOf(values: readonly number[]): number[] {
  const order = values.map((_, index) => index).sort((left, right) => values[left]! - values[right]!);
  const ranks: number[] = [];
  order.forEach((index, rank) => (ranks[index] = rank));
  return ranks;
}

function mean(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0) / values.length;
}
