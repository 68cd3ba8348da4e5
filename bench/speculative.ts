/**
 * Every bundled drafter on every prompt set: mean accepted length, and speed against plain decoding of the same prompts,
 * taking turns. `mistletoe bench` measures the same on models of your own.
 * Options: [PROMPTS_PER_SET [POLICY [DRAFTER,...]]]
 */
import { bundledDrafters, bundledTarget, findDrafter } from '../src/decode/bundled-models.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { openTarget } from '../src/decode/target.js';
import { resolvePolicy } from '../src/draft/tree/grow-tree.js';
import { loadDrafter } from '../src/draft/systems.js';
import { parseDraftPolicy } from '../src/draft/tree/policy.js';
import { type BenchmarkSystem, runBenchmark } from '../src/measure/benchmark.js';
import type { Interval } from '../src/measure/statistics.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { promptFolder, promptSets } from './prompt-sets.js';
import { printNote, printTable } from './stopwatch.js';

const threads = 2;
const maxNewTokens = 96;
const [limit = '12', policyText = 'chain:3', names = bundledDrafters.join()] = process.argv.slice(2);
const policy = parseDraftPolicy(policyText);
if (policy.kind === 'auto') throw new Error('For `auto`, run the case auto-policy.');
const runtime = createOnnxRuntime({ threads });
const target = await openTarget(bundledTarget, { runtime });
const systems: BenchmarkSystem[] = [];
for (const name of names.split(',')) {
  const drafter = await loadDrafter(findDrafter(name), { target: target.model, tokenizer: target.tokenizer });
  const resolved = resolvePolicy(policy, drafter);
  systems.push({ name, policy: policyText, drafter, createPolicy: () => always(resolved) });
}
const sets = await Promise.all(
  promptSets.map(async (name) => ({ name, prompts: await loadPrompts(name, { folder: promptFolder }) })),
);
const { summaries, records } = await runBenchmark({
  target,
  systems,
  promptSets: sets,
  limit: Number(limit),
  maxNewTokens,
  sampling: { temperature: 0 },
  seed: 0,
  warmup: 1,
});
const summaryOf = (system: string, set: string) =>
  summaries.find((summary) => summary.system === system && summary.set === set)?.speculation;
const title = `${policyText}, first ${limit} prompts of each set, ${maxNewTokens} new tokens, greedy`;
printTable(
  [
    ['accepted length', ...promptSets],
    ...systems.map(({ name }) => [
      name,
      ...promptSets.map((set) => showInterval(summaryOf(name, set)?.meanAcceptedLength)),
    ]),
  ],
  title,
);
printTable(
  [
    ['speed against plain', ...promptSets],
    ...systems.map(({ name }) => [
      name,
      ...promptSets.map((set) => showInterval(summaryOf(name, set)?.speedup)),
    ]),
  ],
  title,
);
const answers = records.flatMap(({ speculation }) => speculation?.equalsPlain ?? []);
printNote(`${answers.filter(Boolean).length} of ${answers.length} answers equal plain decoding's.`);
await runtime.dispose();

function showInterval(interval: Interval | undefined): string {
  if (interval === undefined) return '';
  const [estimate, low, high] = [interval.estimate, interval.low, interval.high].map((value) =>
    value.toFixed(2),
  );
  return `${estimate!} [${low!}, ${high!}]`;
}
