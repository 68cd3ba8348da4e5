/**
 * The engine's step with a target whose state is recurrent: it reads, drafts, keeps and drops as with keys and values,
 * for sequences of one batch and for forks of a prefix.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createRandom } from '../../src/core/random.js';
import { argmax } from '../../src/core/vector.js';
import { Engine } from '../../src/decode/engine.js';
import { decodePlain, decodeSpeculative } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { readPrefix } from '../../src/decode/prompt-reading.js';
import { ngram } from '../../src/draft/ngram/ngram.js';
import type { CausalModel } from '../../src/model/causal-model.js';
import type { ForwardRequest } from '../../src/model/forward.js';
import { runDirectly } from '../../src/model/lanes/lane-program.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../../src/runtime/program.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';
import {
  type Keeping,
  outputSize,
  recompute,
  RecurrentLayer,
  type RecurrentState,
  vocabularySize,
} from '../support/recurrent-layer.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { resolveText } from '../support/tiny-pair.js';

const random = createRandom(6, 'recurrent-target');
const head = Array.from({ length: vocabularySize }, () =>
  Array.from({ length: outputSize }, () => 2 * random.next() - 1),
);

/** [row, outputSize] -> [row] */
function chooseTokens(output: ArrayLike<number>): Int32Array {
  return Int32Array.from({ length: output.length / outputSize }, (_, row) =>
    argmax(
      head.map((weights) =>
        weights.reduce((total, weight, at) => total + weight * output[row * outputSize + at]!, 0),
      ),
    ),
  );
}

/** What the engine asks of a model, for greedy answers. */
async function createTarget(runtime: Runtime, keeping: Keeping): Promise<CausalModel> {
  const layer = await RecurrentLayer.load(runtime, keeping);
  const target = {
    ...{ runtime, name: 'recurrent', prepare: () => Promise.resolve(), createCache: () => layer.open() },
    configuration: { ...tiny, headSize: 4, vocabularySize, contextLength: 100 },
    async forward(request: Omit<ForwardRequest, 'cache'> & { readonly cache: RecurrentState }) {
      const { cache: state, scheduler = runDirectly, select } = request;
      const tokens = request.tokens as Int32Array;
      const parents = request.parents ?? tokens.map((_, row) => row - 1);
      const { rows, output } = await layer.read({ state, tokens, parents }, scheduler);
      const chosen = chooseTokens(output);
      return { rows, argmax: select === undefined ? chosen : select.map((row) => chosen[row]!) };
    },
  };
  // The engine is typed for the one model there is, whose state is keys and values.
  return target as unknown as CausalModel;
}

function answer(promptIds: readonly number[], count: number): readonly number[] {
  const text = [...promptIds];
  while (text.length < promptIds.length + count) text.push(chooseTokens(recompute(text)).at(-1)!);
  return text.slice(promptIds.length);
}

const runtimes: readonly (readonly [string, () => Runtime])[] = [
  ['ONNX Runtime', () => createOnnxRuntime({ threads: 1 })],
  ...(findCompiler() === undefined
    ? []
    : [['CUDA', () => createCudaRuntime(createEmulatedDevice())] as const]),
];
const cases = runtimes.flatMap(([name, createRuntime]) =>
  (['each-node', 'recomputed'] as const).map((keeping) => ({ name, createRuntime, keeping })),
);

describe.each(cases)('a recurrent target on $name with states $keeping', ({ createRuntime, keeping }) => {
  let target: CausalModel;
  beforeAll(async () => {
    target = await createTarget(createRuntime(), keeping);
  });
  afterAll(() => target.runtime.dispose());

  it('answers with drafts, in a batch and after a prefix, as it does by its definition', async () => {
    const drafter = ngram.create('ngram', target);
    const policy = always(resolveText('chain:3', drafter));
    const beginning = [5, 1, 7, 3];
    const prefix = await readPrefix(target, drafter, beginning);
    const engine = new Engine();
    const request = { maxNewTokens: 30, stopIds: [], sampling: { temperature: 0 }, seed: 0, engine };
    const prompts = [
      [2, 9],
      [4, 4, 1],
      [...beginning, 8],
      [...beginning, 2, 6],
    ];
    const expected = prompts.map((promptIds) => answer(promptIds, 30));
    const plain = await decodePlain(target, { ...request, promptIds: prompts[0]! });
    expect(plain.tokenIds).toEqual(expected[0]);
    const answers = await Promise.all(
      prompts.map((promptIds, index) =>
        decodeSpeculative(target, drafter, {
          ...{ ...request, promptIds, policy },
          prefix: index < 2 ? undefined : prefix,
        }),
      ),
    );
    expect(answers.map(({ tokenIds }) => tokenIds)).toEqual(expected);
    const steps = answers.flatMap((own) => own.steps);
    expect(steps.some(({ accepted }) => accepted > 0)).toBe(true);
    expect(steps.some(({ accepted, proposed }) => accepted < proposed)).toBe(true);
    expect(steps.some(({ batch }) => batch?.batchSize === 4)).toBe(true);
    prefix.cache.release();
  });
});
