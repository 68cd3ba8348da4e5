/**
 * Resident memory over 1,000 generations in one process, for plain and speculative decoding, one and eight at a time. The
 * last column is the growth from the second tenth, when programs are compiled and pools have grown, to the last.
 * Options: [GENERATIONS [NEW_TOKENS [DRAFTER]]]
 */
import { bundledPrompts, bundledTarget, findDrafter } from '../src/decode/bundled-models.js';
import { Engine } from '../src/decode/engine/engine.js';
import { generateSpeculatively } from '../src/decode/speculative-text.js';
import { generateText, openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/systems.js';
import { type PassScheduler, runDirectly } from '../src/model/lanes/lane-program.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { printTable } from './stopwatch.js';

const [given = '1000', newTokens = '8', drafterName = 'eagle3'] = process.argv.slice(2);
const generations = Number(given);
const maxNewTokens = Number(newTokens);
const every = Math.max(1, Math.floor(generations / 10));
const concurrency = 8;
const runtime = createOnnxRuntime({ threads: 2 });
const target = await openTarget(bundledTarget, { runtime });
const drafter = await loadDrafter(findDrafter(drafterName), { target: target.model });
const prompts = await loadPrompts(bundledPrompts);

type Answer = (index: number, scheduler: PassScheduler) => Promise<unknown>;
const promptOf = (index: number): string => prompts[index % prompts.length]!.text;
const plain: Answer = (index, scheduler) =>
  generateText(target, promptOf(index), { maxNewTokens, seed: index, scheduler });
const speculative: Answer = (index, scheduler) =>
  generateSpeculatively(target, drafter, promptOf(index), {
    ...{ maxNewTokens, seed: index, scheduler },
    policy: 'chain:4',
  });

async function answerAlone(answer: Answer, first: number, count: number): Promise<void> {
  for (let index = first; index < first + count; index++) await answer(index, runDirectly);
}

const engine = new Engine({ concurrency });
async function answerTogether(answer: Answer, first: number, count: number): Promise<void> {
  await Promise.all(
    Array.from({ length: count }, (_, index) => engine.run((scheduler) => answer(first + index, scheduler))),
  );
}

const ways: readonly (readonly [string, typeof answerAlone, Answer])[] = [
  ['plain, alone', answerAlone, plain],
  [`${drafterName}, alone`, answerAlone, speculative],
  [`plain, ${concurrency} at a time`, answerTogether, plain],
  [`${drafterName}, ${concurrency} at a time`, answerTogether, speculative],
];

/** After a collection, where node was started with --expose-gc. */
function residentMegabytes(): number {
  globalThis.gc?.();
  return process.memoryUsage.rss() / 2 ** 20;
}

const table = [
  ['generations', ...Array.from({ length: 10 }, (_, part) => String((part + 1) * every)), 'growth'],
];
for (const [name, run, answer] of ways) {
  const seen: number[] = [];
  for (let part = 0; part < 10; part++) {
    await run(answer, part * every, every);
    seen.push(residentMegabytes());
  }
  table.push([
    name,
    ...seen.map((megabytes) => megabytes.toFixed(0)),
    `${(seen.at(-1)! - seen[1]!).toFixed(1)} MiB`,
  ]);
}
printTable(table, `resident memory in MiB by number of generations of ${maxNewTokens} tokens`);
await runtime.dispose();
