/**
 * What a GPU computes against the processor: the runtime's conformance cases in float32, attention on tensor cores, the
 * answers of the bundled target with its drafters in float32 and bfloat16, and the audit's gradients in bfloat16 against
 * float32 (cosine, and how many of the best tokens of a position are the same), and answers above temperature 0, drawn by
 * programs and by the host.
 * Run: npm run bench:gpu-agreement [-- PARTS]
 */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createObjective } from '../src/audit/search/objectives.js';
import { cosine } from '../src/audit/search/projection.js';
import { readPromptState } from '../src/audit/search/prompt-state.js';
import { Scorer } from '../src/audit/search/scoring.js';
import { compileSearch } from '../src/audit/search/search-programs.js';
import type { SuffixGradients } from '../src/audit/search/search-problem.js';
import { describeCause } from '../src/core/errors.js';
import { createRandom } from '../src/core/random.js';
import { topIndices } from '../src/core/vector.js';
import { bundledTarget } from '../src/decode/bundled-models.js';
import { decodePlain } from '../src/decode/plain.js';
import { always } from '../src/decode/policies/policy-chooser.js';
import { decodeSpeculative } from '../src/decode/speculative.js';
import { resolvePolicy } from '../src/draft/tree/grow-tree.js';
import { loadDrafter } from '../src/draft/load-drafter.js';
import { parseDraftPolicy } from '../src/draft/tree/policy.js';
import { addDimensions, symbol } from '../src/graph/dimension.js';
import { attention } from '../src/graph/operations/attention.js';
import { add } from '../src/graph/operations/elementwise.js';
import { input } from '../src/graph/operations/leaves.js';
import { loadModel } from '../src/model/causal-model.js';
import { createCudaRuntime } from '../src/runtime/cuda/cuda-runtime.js';
import { CudaDevice } from '../src/runtime/cuda/driver/cuda-device.js';
import type { FloatType } from '../src/runtime/cuda/driver/device.js';
import { findDevices } from '../src/runtime/cuda/driver/find-devices.js';
import { createInterpreter } from '../src/runtime/interpreter/interpreter.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import type { NamedTensors, NamedValues, Program, Runtime } from '../src/runtime/program.js';
import { drawValues, runtimeCases } from '../test/conformance/runtime-cases.js';
import type { DrawingPlace } from './gpu-draws.js';
import { compareDraws } from './gpu-draws.js';
import { makeRandomPrompt } from './gpu-models.js';
import { printTable } from './stopwatch.js';

const openGpu = (productType: FloatType): Runtime => createCudaRuntime(CudaDevice.open(), { productType });

/** The largest difference by what is allowed: 1 is just so. */
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
          console.log(`WRONG ${name} ${JSON.stringify(size)}: ${ratio} times what is allowed`);
        }
      }
      for (const program of programs) await program.dispose();
    } catch (cause) {
      wrong += 1;
      console.log(`WRONG ${name}: ${describeCause(cause)}`);
    }
  }
  console.log(`${runtimeCases.length} cases in float32, ${wrong} wrong`);
  await gpu.dispose();
}

/** With heads of all sizes, in several numbers of rows. */
async function checkTiles(): Promise<void> {
  const [batch, position, past] = [symbol('batch'), symbol('position'), symbol('past')];
  const oracle = createInterpreter();
  const table = [['attention', 'batch', 'rows', 'past', 'largest difference']];
  for (const [heads, keyValueHeads, size] of [
    [2, 2, 128],
    [4, 2, 128],
    [3, 3, 64],
    [6, 2, 32],
  ] as const) {
    const both = (kind: 'shared' | 'own', shape: readonly (typeof batch | number)[]) => ({
      ...{ kind, keys: input(`${kind}Keys`, shape), values: input(`${kind}Values`, shape) },
    });
    const mixed = attention(
      input('queries', [batch, position, heads, size]),
      [both('shared', [past, keyValueHeads, size]), both('own', [batch, position, keyValueHeads, size])],
      input('mask', [position, addDimensions(past, position)]),
      { heads, keyValueHeads, scale: 1 / Math.sqrt(size) },
    );
    const outputs: NamedTensors = { mixed, known: add(input('known', [batch, position]), 1) };
    const gpu = openGpu('bfloat16');
    const expected = await oracle.compile(outputs);
    for (const packed of [true, false]) {
      const program = await gpu.compile(outputs, [], { packed });
      const all = packed
        ? [[1, 5, 33], [1, 64, 200], [1, 17, 400]] // prettier-ignore
        : [[6, 46, 65], [3, 26, 84]]; // prettier-ignore
      for (const [batches, rows, length] of all as [number, number, number][]) {
        const inputs = drawValues(outputs, { batch: batches, position: rows, past: length }, {}, 'tiles');
        // Ten bits behind the point, or the seven of bfloat16.
        const allowed = packed ? 2e-3 : 1e-2;
        const ratio = compareOutputs(await program.run(inputs), await expected.run(inputs), allowed, allowed);
        const verdict = `${ratio <= 1 ? '' : 'WRONG '}${(ratio * allowed).toExponential(1)}`;
        table.push([`${heads}/${keyValueHeads} x ${size}`, ...[batches, rows, length].map(String), verdict]);
      }
      await program.dispose();
    }
    await gpu.dispose();
  }
  printTable(table);
}

const openers: Readonly<Record<string, () => Runtime>> = {
  'the CPU': () => createOnnxRuntime({ threads: 8 }),
  'float32 on the GPU': () => openGpu('float32'),
  'bfloat16 on the GPU': () => openGpu('bfloat16'),
};

function policyOf(text: string) {
  const policy = parseDraftPolicy(text);
  if (policy.kind === 'auto') throw new Error(`${text} is no policy of its own.`);
  return policy;
}

async function compareAnswers(): Promise<void> {
  const promptIds = [1, 536, 300, 412, 900, 77, 1000, 12, 99, 345];
  const request = { promptIds, maxNewTokens: 64, sampling: { temperature: 0 }, seed: 0, stopIds: [] };
  const drafters = ['eagle3', 'sps'].map((name) => join(dirname(bundledTarget), name)).filter(existsSync);
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
    for (const folder of drafters) {
      const drafter = await loadDrafter(folder, { target: model });
      for (const [index, text] of ['chain:3', 'dynamic:12,2,3'].entries()) {
        const policy = always(resolvePolicy(policyOf(text), drafter));
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
  const folder = join(dirname(bundledTarget), 'eagle3');
  const suffixes = Array.from({ length: 4 }, (_, index) => {
    const random = createRandom(index, 'suffix');
    return Array.from({ length: 20 }, () => 100 + random.nextInteger(900));
  });
  const found = new Map<string, SuffixGradients[]>();
  for (const [name, open] of Object.entries(openers)) {
    const runtime = open();
    const model = await loadModel(bundledTarget, { runtime });
    const drafter = await loadDrafter(folder, { target: model });
    const models = { target: model, drafter };
    const prompt = await makeRandomPrompt(
      model,
      { prompt: 40, tail: 6, window: 20 },
      createRandom(1, 'prompt'),
    );
    const programs = compileSearch(models, createObjective('margin', 3), {
      ...{ suffixLength: 20, divergence: 'clean-to-suffixed', temperature: 0, draftLevels: 3 },
    });
    const target = { model } as unknown as ConstructorParameters<typeof Scorer>[0];
    const scorer = new Scorer(
      target,
      models,
      programs,
      prompt,
      await readPromptState(models, prompt.beforeIds),
    );
    const gradients: SuffixGradients[] = [];
    for (const suffix of suffixes) gradients.push(await scorer.differentiate(suffix));
    found.set(name, gradients);
    await programs.dispose();
    await runtime.dispose();
  }
  const [cpu, ...others] = [...found.keys()];
  const table = [
    ['against the CPU', 'gradient of', 'cosine, least', 'same of the best 256 tokens', 'of the best 16'],
  ];
  for (const name of others)
    for (const part of ['degradationGradient', 'divergenceGradient'] as const) {
      const pairs = found.get(name)!.map((own, at) => [own[part], found.get(cpu!)![at]![part]] as const);
      const least = Math.min(...pairs.map(([own, wanted]) => cosine(own, wanted)));
      const shares = [256, 16].map((count) => {
        const each = pairs.flatMap(([own, wanted]) => overlaps(own, wanted, count));
        return `${((100 * each.reduce((sum, share) => sum + share, 0)) / each.length).toFixed(1)} %`;
      });
      table.push([name, part.replace('Gradient', ''), least.toFixed(6), ...shares]);
    }
  printTable(table);
}

/** For each position, how many of the tokens with the largest gain are the same. */
function overlaps(own: Float32Array, wanted: Float32Array, count: number): number[] {
  const width = own.length / 20;
  return Array.from({ length: 20 }, (_, position) => {
    const best = (values: Float32Array): Set<number> =>
      new Set(topIndices(values.subarray(position * width, (position + 1) * width), count));
    const known = best(wanted);
    return [...best(own)].filter((token) => known.has(token)).length / count;
  });
}

const drawingPlaces: readonly DrawingPlace[] = [
  { name: 'on the CPU', open: openers['the CPU']!, drawsInPrograms: false },
  {
    ...{ name: 'by programs, float32', open: openers['float32 on the GPU']!, drawsInPrograms: true },
    like: 'on the CPU',
  },
  { name: 'by the host, bfloat16', open: openers['bfloat16 on the GPU']!, drawsInPrograms: false },
  {
    ...{ name: 'by programs, bfloat16', open: openers['bfloat16 on the GPU']!, drawsInPrograms: true },
    like: 'by the host, bfloat16',
  },
];

const parts = {
  ...{ cases: checkCases, tiles: checkTiles, answers: compareAnswers, gradients: compareGradients },
  draws: () => compareDraws(drawingPlaces),
};
const chosen = process.argv[2]?.split(',') ?? Object.keys(parts);

if (findDevices().devices.length === 0) console.log('There is no GPU.');
else
  for (const [name, run] of Object.entries(parts)) {
    if (!chosen.includes(name)) continue;
    const start = performance.now();
    try {
      await run();
    } catch (cause) {
      console.log(`WRONG ${name} failed: ${describeCause(cause)}`);
    }
    console.log(`${name}: ${((performance.now() - start) / 1000).toFixed(1)} s\n`);
  }
