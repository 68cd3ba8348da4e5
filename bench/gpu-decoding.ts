/**
 * Decoding on a GPU with models of the size that people serve: random weights in a 7B and a 13B shape, one sequence, one
 * pass over 1 to 64 rows behind contexts of 64 and 512, what each kind of launch of a pass over 1, 4 and 64 rows takes,
 * and how long loading takes. Weights are bfloat16, sums float32.
 * Run: npm run bench:gpu [-- SHAPE]
 */
import { CausalModel } from '../src/model/causal-model.js';
import { parseConfiguration } from '../src/model/configuration.js';
import { decoderRecipes } from '../src/model/weights.js';
import { createCudaRuntime } from '../src/runtime/cuda/cuda-runtime.js';
import { CudaDevice } from '../src/runtime/cuda/driver/cuda-device.js';
import type { MemoryWeights, WeightValues } from '../src/runtime/weights.js';
import { tabulate, WatchedDevice } from './launch-times.js';
import { median, printTable } from './stopwatch.js';

const shapes = {
  '7B': { hidden_size: 4096, intermediate_size: 11_008, num_hidden_layers: 32, num_attention_heads: 32 },
  '13B': { hidden_size: 5120, intermediate_size: 13_824, num_hidden_layers: 40, num_attention_heads: 40 },
} as const;
type ShapeName = keyof typeof shapes;

const contexts = [64, 512];
const rowCounts = [1, 4, 16, 64];
const rounds = 31;
/** Rows of passes whose launches are looked at one by one. */
const watchedRows = [1, 4, 64];
const launchRounds = 10;
const scope = 'target.';

const chosen = (process.argv[2]?.split(',') ?? Object.keys(shapes)) as ShapeName[];
for (const name of chosen) await measureShape(name);

async function measureShape(name: ShapeName): Promise<void> {
  const configuration = parseConfiguration(
    {
      ...{ architectures: ['LlamaForCausalLM'], model_type: 'llama', hidden_act: 'silu', ...shapes[name] },
      ...{ vocab_size: 32_000, max_position_embeddings: 4096, rms_norm_eps: 1e-5, rope_theta: 10_000 },
      tie_word_embeddings: false,
    },
    `the ${name} shape`,
  );
  const device = CudaDevice.open();
  console.log(`\n${device.name}, Node ${process.version}, ${name} shape, random weights, bfloat16`);
  const watched = new WatchedDevice(device);
  const runtime = createCudaRuntime(watched.device, { productType: 'bfloat16' });
  const start = performance.now();
  const weights = drawWeights(
    new Map(decoderRecipes(configuration, scope).map((recipe) => [recipe.name, recipe.shape])),
  );
  const model = new CausalModel({ name, configuration, scope, weights, runtime });
  await model.prepare();
  await device.synchronize();
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const gib = (bytes: number): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`;
  console.log(`loaded from memory in ${seconds} s, ${gib(device.totalBytes - device.freeBytes())} taken\n`);

  const cache = model.createCache();
  const pass = (rows: number) =>
    model.forward({
      ...{ tokens: new Int32Array(rows).fill(7), cache, want: ['argmax'] },
      select: Int32Array.of(rows - 1),
    });
  const details: { readonly title: string; readonly table: string[][] }[] = [];
  const table = [['context', ...rowCounts.map((rows) => `${rows} rows, median (best)`)]];
  for (const context of contexts) {
    while (cache.length < context) cache.appendAll((await pass(64)).rows, 64);
    const cells: string[] = [];
    for (const rows of rowCounts) {
      const times: number[] = [];
      // The first pass of a shape launches, later ones replay.
      const launches = await watched.watch(() => pass(rows));
      for (let round = -3; round < rounds; round++) {
        const begun = performance.now();
        await pass(rows);
        if (round >= 0) times.push(performance.now() - begun);
      }
      cells.push(`${median(times).toFixed(2)} (${Math.min(...times).toFixed(2)}) ms`);
      if (!watchedRows.includes(rows)) continue;
      // Now, since what it read may lie elsewhere once the context has grown.
      const title = `${rows} rows behind ${context}, median ${cells.at(-1)!}`;
      details.push({ title, table: await tabulate(watched, launches, launchRounds) });
    }
    table.push([String(context), ...cells]);
  }
  printTable(table);
  for (const { title, table } of details) {
    console.log(`\n${title}`);
    printTable(table);
  }
  await runtime.dispose();
}

/** Each weight is a piece of one list of random numbers: 13 billion different ones would take minutes to draw. */
function drawWeights(sizes: ReadonlyMap<string, readonly number[]>): MemoryWeights {
  const count = (shape: readonly number[]): number => shape.reduce((product, size) => product * size, 1);
  const noise = new Float32Array(Math.max(...[...sizes.values()].map(count)));
  const period = 2 ** 22;
  for (let at = 0; at < period; at++) noise[at] = (Math.random() - 0.5) / 32;
  for (let at = period; at < noise.length; at += period)
    noise.set(noise.subarray(0, Math.min(period, noise.length - at)), at);
  const tensors = new Map<string, WeightValues>(
    [...sizes].map(([name, shape]) => [name, { shape, data: noise.subarray(0, count(shape)) }]),
  );
  return { kind: 'memory', tensors };
}
