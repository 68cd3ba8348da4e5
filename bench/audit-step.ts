/**
 * One step of the audit's search, split into gradient, candidates and scoring, taking turns with the same step (model
 * shapes, candidates, lengths) in eager PyTorch with a cached prompt, as nanoGCG does it.
 * Options: [CANDIDATES [TURNS]]
 */
import { type AuditPrompt, preparePrompt } from '../src/audit/arms/audit-prompt.js';
import { type Candidate, type RankedTokens, proposeCandidates } from '../src/audit/search/candidates.js';
import { drawRandomSuffix, listAllowedTokens } from '../src/audit/arms/controls.js';
import { createObjective } from '../src/audit/search/objectives.js';
import { readPromptState } from '../src/audit/search/prompt-state.js';
import { Scorer } from '../src/audit/search/scoring.js';
import { compileSearch } from '../src/audit/search/search-programs.js';
import { createRandom } from '../src/core/random.js';
import { bundledDrafterFolder, bundledTarget } from '../src/core/package-files.js';
import { openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/systems.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { compareWithTorch, sizesOf } from './comparison.js';
import { printNote } from './stopwatch.js';

const threads = 2;
const candidates = Number(process.argv[2] ?? 256);
const suffixLength = 20;
const window = 20;
const turns = Number(process.argv[3] ?? 3);

const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const drafter = await loadDrafter(bundledDrafterFolder('eagle'), { target: target.model });
const models = { target: target.model, drafter };
const programs = compileSearch(models, createObjective('total-variation', 1), {
  suffixLength,
  divergence: 'clean-to-suffixed',
  temperature: 0,
  draftLevels: 1, // as on PyTorch's side
});
const allowed = listAllowedTokens(target.tokenizer, target.model.configuration.vocabularySize, {
  allowNonAscii: false,
});
const question =
  'A farmer has 12 cows, 7 sheep and 3 horses. He sells half of the cows and buys 5 more sheep. How many animals does he have now? Explain your steps.';
const background =
  'He keeps the cows in a red barn behind the hill, where they have enough hay for the winter. ';
for (const repeats of [0, 7]) await compareSteps(background.repeat(repeats) + question);
printNote(`Peak memory of Mistletoe's process: ${(process.resourceUsage().maxRSS / 1024).toFixed(0)} MB.`);
await runtime.dispose();

async function compareSteps(text: string): Promise<void> {
  const prompt = await preparePrompt(
    target,
    { id: 'bench', text, turns: [text] },
    { window, shortestAnswer: window, suffixLength, maxNewTokens: 32, temperature: 0, chat: true, seed: 0 },
  );
  const [before, after] = [prompt.beforeIds.length, prompt.afterIds.length];
  const sizes = { ...sizesOf(target.model), candidates, before, suffix: suffixLength, after, window };
  await compareWithTorch({
    title: `${candidates} candidates, prompt ${before}, suffix ${suffixLength}, window ${window}, ${threads} threads`,
    runtime,
    turns,
    parts: await createParts(prompt),
    whole: 'step',
    script: 'audit_step.py',
    settings: { ...sizes, drafter: 'eagle', threads },
  });
}

async function createParts(prompt: AuditPrompt) {
  const state = await readPromptState(models, prompt.beforeIds);
  const scorer = new Scorer(target, models, programs, prompt, state);
  const random = createRandom(0, 'bench');
  const base = await drawRandomSuffix(target, prompt, allowed, suffixLength, random);
  const direction = { kind: 'degrade', projection: { kind: 'direction', weight: 2 } } as const;
  let promising: RankedTokens['promising'];
  let proposed: Candidate[];
  return {
    async gradient() {
      ({ promising } = await scorer.rankTokens(base, direction, { allowed, count: 256 }));
    },
    async candidates() {
      proposed = proposeCandidates(base, promising, { candidates, changes: [1] }, random);
      await scorer.keepRoundTrips(proposed.map(({ suffixIds }) => suffixIds));
    },
    scoring: () => scorer.score(base, proposed),
  };
}
