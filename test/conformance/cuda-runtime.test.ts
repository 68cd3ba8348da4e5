/**
 * The lowering to CUDA against the interpreter and against ONNX Runtime, on a device that the host's compiler emulates:
 * single operations, buffers' programs, and a whole target with drafters, whose answers are the same.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { decodePlain } from '../../src/decode/plain.js';
import { always } from '../../src/decode/policy-chooser.js';
import { decodeSpeculative } from '../../src/decode/speculative.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createInterpreter } from '../../src/runtime/interpreter/interpreter.js';
import type { Runtime } from '../../src/runtime/program.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';
import { tiny } from '../support/tiny-checkpoints.js';
import { drafterVariants } from '../support/tiny-drafters.js';
import { randomTokens, resolveText, TinyModels } from '../support/tiny-pair.js';
import { drawValues, runtimeCases } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const hasCompiler = findCompiler() !== undefined;
if (!hasCompiler) console.log('No C++ compiler is here: the lowering to CUDA is not tested.');

/** Each kernel is compiled by itself, which takes its time: a few cases of every operation, and all of the intricate ones. */
const casesOfEach = 3;
const intricate: readonly string[] = ['keepLikeliest', 'draw'];
const chosen = runtimeCases.filter(
  ({ operation }, index) =>
    intricate.includes(operation) ||
    runtimeCases.slice(0, index).filter((other) => other.operation === operation).length < casesOfEach,
);

describe.skipIf(!hasCompiler)('CUDA programs', () => {
  const oracle = createInterpreter();
  let cuda: Runtime;
  beforeAll(() => {
    cuda = createCudaRuntime(createEmulatedDevice());
  });
  afterAll(() => cuda.dispose());

  it.each(runtimeCases.filter(({ operation }) => operation === 'attention'))(
    'fuse attention where that pays: $name',
    async ({ name, output, sizes, draws }) => {
      const expected = await oracle.compile({ output });
      const program = await cuda.compile({ output }, [], { packed: true });
      // The last of them has several rows for each block, and some that are not there.
      for (const size of [...sizes, { ...sizes[0]!, position: 11 }]) {
        const inputs = drawValues({ output }, size, draws, name);
        expectClose(await program.run(inputs), await expected.run(inputs), {
          relative: 1e-4,
          absolute: 1e-5,
        });
      }
      await program.dispose();
    },
  );

  it.each(chosen)(
    'compute as the interpreter does: $name',
    async ({ name, output, sizes, draws, weights }) => {
      const outputs = { output };
      const expected = await oracle.compile(outputs, weights);
      const program = await cuda.compile(outputs, weights);
      for (const size of sizes) {
        const inputs = drawValues(outputs, size, draws, name);
        expectClose(await program.run(inputs), await expected.run(inputs), {
          relative: 1e-4,
          absolute: 1e-5,
        });
      }
      await program.dispose();
    },
  );
});

describe.skipIf(!hasCompiler)('a target and its drafters on CUDA', () => {
  const onHost = new TinyModels(tiny);
  let onDevice: TinyModels;
  beforeAll(() => {
    onDevice = new TinyModels(tiny, createCudaRuntime(createEmulatedDevice()));
  });
  afterAll(async () => {
    await onHost.dispose();
    await onDevice.dispose();
  });
  const request = {
    promptIds: randomTokens('cuda', 9, tiny.vocabularySize),
    maxNewTokens: 10,
    stopIds: [],
    sampling: { temperature: 0 },
    seed: 0,
  };

  const oneOfEach = ['draft model', 'Medusa', 'Hydra', 'EAGLE', 'EAGLE-3'].map((system) =>
    drafterVariants.find(({ name }) => name.startsWith(system))!,
  );
  const tree = onHost.writeTree([[0], [1], [2], [0, 0], [0, 1], [1, 0]]);
  it.each(oneOfEach)('answer as on the host: $name', async (variant) => {
    const folder = variant.write(onHost.freshFolder(), tiny);
    const answers = [];
    for (const models of [onHost, onDevice]) {
      const { target, drafter } = await models.load(folder);
      const plain = await decodePlain(target, request);
      answers.push(plain.tokenIds);
      for (const text of ['chain:3', 'dynamic:12,2,3', tree]) {
        const policy = always(resolveText(text, drafter));
        const speculative = await decodeSpeculative(target, drafter, { ...request, policy });
        expect(speculative.tokenIds).toEqual(plain.tokenIds);
        answers.push(speculative.steps.map(({ proposed, accepted }) => [proposed, accepted]));
        // Drawn by programs there, by the host here.
        const drawn = { ...request, sampling: { temperature: 0.9, topK: 20, topP: 0.9 }, seed: 3 };
        answers.push((await decodePlain(target, drawn)).tokenIds);
        const result = await decodeSpeculative(target, drafter, { ...drawn, policy });
        answers.push(
          result.tokenIds,
          result.steps.map(({ proposed, accepted }) => [proposed, accepted]),
        );
      }
    }
    expect(answers.slice(answers.length / 2)).toEqual(answers.slice(0, answers.length / 2));
  });
});
