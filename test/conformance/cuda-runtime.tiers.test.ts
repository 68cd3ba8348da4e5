/**
 * The lowering to CUDA against the interpreter and against ONNX Runtime, on a device that the host's compiler emulates:
 * single operations, and a whole target with drafters, whose answers are the same.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { decodePlain } from '../../src/decode/generate.js';
import { always } from '../../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/generate.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createInterpreter } from '../oracle/interpreter.js';
import type { CompileOptions, Program } from '../../src/runtime/program.js';
import { createEmulatedDevice } from '../support/emulated-device.js';
import { describeCuda, describeEmulated } from '../support/emulated-suite.js';
import { casesOfTier } from '../support/tier.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';
import type { RuntimeCase, Sizes } from './runtime-cases.js';
import { drawValues, runtimeCases } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const oracle = createInterpreter();
const countEarlier = ({ operation }: RuntimeCase, index: number): number =>
  runtimeCases.slice(0, index).filter((other) => other.operation === operation).length;

function describeCases(
  title: string,
  cases: readonly RuntimeCase[],
  options: CompileOptions,
  moreSizes: (sizes: Sizes) => readonly Sizes[] = () => [],
): void {
  const programs = new Map<RuntimeCase, Program>();
  describeCuda(
    title,
    {},
    () => {
      it.each(cases)('$name', async (each) => {
        const { name, output, sizes, draws, weights } = each;
        const expected = await oracle.compile({ output }, weights);
        const program = programs.get(each)!;
        for (const size of [...sizes, ...moreSizes(sizes[0]!)]) {
          const inputs = drawValues({ output }, size, draws, name);
          expectClose(await program.run(inputs), await expected.run(inputs), {
            ...{ relative: 1e-4, absolute: 1e-5 },
          });
        }
      });
    },
    async (runtime) => {
      for (const each of cases)
        programs.set(each, await runtime.compile({ output: each.output }, each.weights, options));
    },
  );
}

/** One of every operation, whose lengths differ from run to run where there is such a case. */
const oneOfEach = new Set(
  [...new Set(runtimeCases.map(({ operation }) => operation))].map((operation) => {
    const cases = runtimeCases.filter((each) => each.operation === operation);
    return cases.find(({ sizes }) => sizes.length > 1) ?? cases[0]!;
  }),
);
const intricate: readonly string[] = ['keepLikeliest', 'draw', 'expertProduct'];
const chosen = runtimeCases.filter(
  (each, index) => intricate.includes(each.operation) || oneOfEach.has(each) || countEarlier(each, index) < 3,
);
describeCases(
  'CUDA programs compute as the interpreter does',
  casesOfTier(chosen, (each) => oneOfEach.has(each) || each.name.includes('long rows')),
  {},
);

const attentionCases = runtimeCases.filter(({ operation }) => operation === 'attention');
const quickAttention: readonly string[] = ['past and own rows', 'what lanes have in common, groups', 'diagonals and groups']; // prettier-ignore
describeCases(
  'CUDA programs fuse attention',
  casesOfTier(attentionCases, ({ name }) => quickAttention.includes(name.replace('attention: ', ''))),
  { packed: true },
  // Several rows for each block, and some that are not there.
  (sizes) => [{ ...sizes, position: 11 }],
);

describeEmulated('a target and its drafters on CUDA', () => {
  const onHost = new TinyModels(tiny);
  let onDevice: TinyModels;
  beforeAll(() => {
    onDevice = new TinyModels(tiny, createCudaRuntime(createEmulatedDevice()));
  });
  afterAll(async () => {
    await onHost.dispose();
    await onDevice.dispose();
  });
  const greedy = {
    promptIds: randomTokens('cuda', 9, tiny.vocabularySize),
    maxNewTokens: 6,
    stopIds: [],
    sampling: { temperature: 0 },
    seed: 0,
  };
  // Drawn by programs on the device, by the host elsewhere.
  const drawn = { ...greedy, sampling: { temperature: 0.9, topK: 20, topP: 0.9 }, seed: 3 };
  const tree = onHost.writeTree([[0], [1], [2], [0, 0], [0, 1], [1, 0]]);
  const cases = [
    { system: 'draft model', policies: ['chain:3', tree] },
    { system: 'Medusa', policies: ['dynamic:12,2,3'] },
    { system: 'Hydra', policies: [tree] },
    { system: 'EAGLE', policies: ['chain:3', 'dynamic:12,2,3'] },
    { system: 'EAGLE-3', policies: [tree] },
    { system: 'DFlash', policies: ['chain:3', tree] },
    { system: 'DSpark', policies: ['chain:3', tree] },
    { system: 'MTP', policies: ['chain:3', tree] },
    { system: 'EAGLE-3', policies: ['dynamic:12,2,3'] },
  ];

  async function answer(models: TinyModels, folder: string, policies: readonly string[]): Promise<unknown[]> {
    const { target, drafter } = await models.load(folder);
    const answers: unknown[] = [];
    for (const request of [greedy, drawn]) {
      const plain = await decodePlain(target, request);
      answers.push(plain.tokenIds);
      for (const text of policies) {
        const policy = always(resolveText(text, drafter));
        const { tokenIds, steps } = await decodeSpeculative(target, drafter, { ...request, policy });
        if (request === greedy) expect(tokenIds).toEqual(plain.tokenIds);
        answers.push(
          tokenIds,
          steps.map(({ proposed, accepted }) => [proposed, accepted]),
        );
      }
    }
    return answers;
  }

  it.each(casesOfTier(cases, (each) => each === cases.at(-1)))(
    'answer as on the host: $system, $policies',
    async ({ system, policies }) => {
      const variant = drafterVariants.find(({ name }) => name.startsWith(system))!;
      const folder = variant.write(onHost.freshFolder(), tiny);
      expect(await answer(onDevice, folder, policies)).toEqual(await answer(onHost, folder, policies));
    },
  );
});
