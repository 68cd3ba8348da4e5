/**
 * How many drafted answers equal plain decoding's with weights in float32, 8, and 4 bits, and what a second row costs: a
 * pass over one row rounds differently than a pass over more, so lossless chains would need two rows in every pass.
 * Options: --prompts 50 --tokens 64 --draft chain:4 --draft tree:eagle_25
 */
import { parseArgs } from 'node:util';
import { bundledDrafterFolder, bundledTarget } from '../src/core/package-files.js';
import { decodePlain } from '../src/decode/generate.js';
import { decodeSpeculative } from '../src/decode/generate.js';
import { createPolicy } from '../src/decode/generate.js';
import { encodePrompt, openTarget } from '../src/decode/target.js';
import { loadDrafter } from '../src/draft/systems.js';
import { parseDraftPolicy } from '../src/draft/tree/policy.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';
import { compareSpeed, MistletoeSequence, type Task } from './contenders.js';
import { promptFolder } from './prompt-sets.js';
import { printTable } from './stopwatch.js';

const { values: options } = parseArgs({
  options: {
    prompts: { type: 'string', default: '50' },
    tokens: { type: 'string', default: '64' },
    draft: { type: 'string', multiple: true, default: ['chain:4', 'tree:eagle_25'] },
  },
});

const threads = 2;
const types = [undefined, 'int8', 'int4'] as const;
const names = types.map((type) => type ?? 'float32');
const runtimes = types.map((quantization) => createOnnxRuntime({ threads, quantization }));
const targets = await Promise.all(runtimes.map((runtime) => openTarget(bundledTarget, { runtime })));

const columns = await Promise.all(targets.map((target) => countEqualAnswers(target)));
printTable(
  [
    ['EAGLE-3 with', ...names],
    ...options.draft.map((text, place) => [text, ...columns.map((counts) => counts[place]!)]),
  ],
  `answers equal to plain decoding's, ${options.prompts} prompts of HumanEval, ${options.tokens} tokens`,
);

const passOf = (rows: number, context: number): Task => ({
  name: `${rows} ${rows === 1 ? 'row' : 'rows'}, context ${context}`,
  ...{ context, rows, scores: 'last' },
});
const [, int8, int4] = targets.map(({ model }) => new MistletoeSequence(model));
await compareSpeed(
  `passes of the bundled target, ${threads} threads, in turns`,
  [
    ['int8', int8!],
    ['int4', int4!],
  ],
  [64, 512, 1500].flatMap((context) => [passOf(1, context), passOf(2, context)]),
  [],
);
for (const runtime of runtimes) await runtime.dispose();

/** [policy] */
async function countEqualAnswers(target: Awaited<ReturnType<typeof openTarget>>): Promise<string[]> {
  const { model, stopIds } = target;
  const drafter = await loadDrafter(bundledDrafterFolder('eagle3'), { target: model });
  const prompts = await loadPrompts('humaneval', { folder: promptFolder });
  const taken = prompts.slice(0, Number(options.prompts));
  const equal = options.draft.map(() => 0);
  for (const { text } of taken) {
    const request = {
      ...{ promptIds: await encodePrompt(target, text), maxNewTokens: Number(options.tokens), stopIds },
      ...{ sampling: { temperature: 0 }, seed: 0 },
    };
    const plain = await decodePlain(model, request);
    for (const [place, policy] of options.draft.entries()) {
      const chooser = createPolicy(parseDraftPolicy(policy), drafter);
      const { tokenIds } = await decodeSpeculative(model, drafter, { ...request, policy: chooser });
      if (tokenIds.join() === plain.tokenIds.join()) equal[place] = equal[place]! + 1;
    }
  }
  return equal.map((count) => `${count} of ${taken.length}`);
}
