/**
 * A GPU against the CPU: the runtime's conformance cases in float32, greedy answers of the bundled target with its
 * drafters, and the cosine of the audit's gradients, in float32 and bfloat16.
 */
import { createObjective } from '../src/audit/search/objectives.js';
import { cosine } from '../src/audit/search/projection.js';
import { readPromptState } from '../src/audit/search/prompt-state.js';
import { Scorer } from '../src/audit/search/scoring.js';
import { compileSearch } from '../src/audit/search/search-programs.js';
import type { SuffixGradients } from '../src/audit/search/candidates.js';
import { describeCause } from '../src/core/errors.js';
import { createRandom } from '../src/core/random.js';
import { bundledDrafterFolder, bundledTarget } from '../src/core/package-files.js';
import { decodePlain } from '../src/decode/generate.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/generate.js';
import { resolvePolicy } from '../src/draft/tree/policy.js';
import { loadDrafter } from '../src/draft/systems.js';
import { loadModel } from '../src/model/causal-model.js';
import { createCudaRuntime } from '../src/runtime/cuda/cuda-runtime.js';
import { CudaDevice } from '../src/runtime/cuda/driver/cuda-device.js';
import type { FloatType } from '../src/runtime/cuda/driver/device.js';
import { findDevices } from '../src/runtime/cuda/driver/find-devices.js';
import { createInterpreter } from '../test/oracle/interpreter.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import type { NamedValues, Program, Runtime } from '../src/runtime/program.js';
import { drawValues, runtimeCases } from '../test/conformance/runtime-cases.js';
import { makeRandomPrompt } from './gpu-models.js';
import { printNote, printTable } from './stopwatch.js';

const openGpu = (productType: FloatType): Runtime => createCudaRuntime(CudaDevice.open(), { productType });

/** The largest difference over its tolerance: up to 1 is allowed. */
function compareOutputs(found: NamedValues, wanted: NamedValues, relative: number, absolute: number): number {
  let worst = 0;
  for (const [name, { data }] of Object.entries(wanted)) {
    const own = found[name]!.data;
    if (own.length !== data.length) return Infinity;
    data.forEach((value, at) => {
      if (Object.is(value, own[at])) return;
      const ratio = Math.abs(value - own[at]!) / (absolute + relative * Math.abs(value));
      worst = Math.max(worst, Number.isNaN(ratio) ? Infinity : ratio);
    });
  }
  return worst;
}

async function checkCases(): Promise<void> {
  const [gpu, oracle] = [openGpu('float32'), createInterpreter()];
  let wrong = 0;
  for (const { name, operation, output, sizes, draws, weights } of runtimeCases) {
    try {
      const expected = await oracle.compile({ output }, weights);
      const programs: Program[] = [await gpu.compile({ output }, weights)];
      if (operation === 'attention') programs.push(await gpu.compile({ output }, weights, { packed: true }));
      for (const size of sizes) {
        const inputs = drawValues({ output }, size, draws, name);
        for (const program of programs) {
          const ratio = compareOutputs(await program.run(inputs), await expected.run(inputs), 1e-4, 1e-5);
          if (ratio <= 1) continue;
          wrong += 1;
          printNote(`WRONG ${name} ${JSON.stringify(size)}: ${ratio} times the tolerance`);
        }
      }
      for (const program of programs) await program.dispose();
    } catch (cause) {
      wrong += 1;
      printNote(`WRONG ${name}: ${describeCause(cause)}`);
    }
  }
  printNote(`${runtimeCases.length} conformance cases in float32, ${wrong} wrong.`);
  await gpu.dispose();
}

const openers: Readonly<Record<string, () => Runtime>> = {
  'the CPU': () => createOnnxRuntime({ threads: 8 }),
  'float32 on the GPU': () => openGpu('float32'),
  'bfloat16 on the GPU': () => openGpu('bfloat16'),
};

const policies = [
  { kind: 'chain', length: 3 },
  { kind: 'dynamic', total: 12, depth: 2, topK: 3 },
] as const;

async function compareAnswers(): Promise<void> {
  const promptIds = [1, 536, 300, 412, 900, 77, 1000, 12, 99, 345];
  const request = { promptIds, maxNewTokens: 64, sampling: { temperature: 0 }, seed: 0, stopIds: [] };
  const table = [['', 'tokens', 'first answer', 'chains', 'dynamic trees']];
  let known: string | undefined;
  for (const [name, open] of Object.entries(openers)) {
    const runtime = open();
    const start = performance.now();
    const model = await loadModel(bundledTarget, { runtime });
    const plain = await decodePlain(model, request);
    const seconds = ((performance.now() - start) / 1000).toFixed(1);
    const answer = plain.tokenIds.join();
    known ??= answer;
    const results: string[][] = [[], []];
    for (const name of ['eagle3', 'sps'] as const) {
      const drafter = await loadDrafter(bundledDrafterFolder(name), { target: model });
      for (const [index, draft] of policies.entries()) {
        const policy = always(resolvePolicy(draft, drafter));
        const drafted = await decodeSpeculative(model, drafter, { ...request, policy });
        const verdict = drafted.tokenIds.join() === answer ? 'same' : 'different';
        results[index]!.push(`${verdict} in ${drafted.targetPasses} passes`);
      }
    }
    const verdict = answer === known ? "the CPU's" : 'others';
    table.push([name, verdict, `${seconds} s`, ...results.map((texts) => texts.join(', '))]);
    await runtime.dispose();
  }
  printTable(table);
}

async function compareGradients(): Promise<void> {
  const suffixes = Array.from({ length: 4 }, (_, index) => {
    const random = createRandom(index, 'suffix');
    return Array.from({ length: 20 }, () => 100 + random.nextInteger(900));
  });
  const found = new Map<string, SuffixGradients[]>();
  for (const [name, open] of Object.entries(openers)) {
    const runtime = open();
    const model = await loadModel(bundledTarget, { runtime });
    const drafter = await loadDrafter(bundledDrafterFolder('eagle3'), { target: model });
    const models = { target: model, drafter };
    const lengths = { prompt: 40, tail: 6, window: 20 };
    const prompt = await makeRandomPrompt(model, lengths, createRandom(1, 'prompt'));
    const programs = compileSearch(models, createObjective('margin', 3), {
      ...{ suffixLength: 20, divergence: 'clean-to-suffixed', temperature: 0, draftLevels: 3 },
    });
    const target = { model } as unknown as ConstructorParameters<typeof Scorer>[0];
    const state = await readPromptState(models, prompt.beforeIds);
    const scorer = new Scorer(target, models, programs, prompt, state);
    const gradients: SuffixGradients[] = [];
    for (const suffix of suffixes) gradients.push(await scorer.differentiate(suffix));
    found.set(name, gradients);
    await programs.dispose();
    await runtime.dispose();
  }
  const [cpu, ...others] = [...found.keys()];
  const table = [['against the CPU', 'gradient of', 'smallest cosine']];
  for (const name of others)
    for (const part of ['degradationGradient', 'divergenceGradient'] as const) {
      const cosines = found.get(name)!.map((own, at) => cosine(own[part], found.get(cpu!)![at]![part]));
      table.push([name, part.replace('Gradient', ''), Math.min(...cosines).toFixed(6)]);
    }
  printTable(table);
}

export async function checkAgreement(): Promise<void> {
  if (findDevices().devices.length === 0) {
    printNote('There is no GPU: agreement was not checked.');
    return;
  }
  await checkCases();
  await compareAnswers();
  await compareGradients();
}
