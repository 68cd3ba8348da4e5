/**
 * Products of few rows in the shapes of a 7B decoder, with different ways to use the device: threads of a block, blocks
 * that a processor has room for, lines of a matrix at once, loads on their way. Each launch reads other weights than the
 * last ones, as in a pass. Best ways first, and the usual one.
 * Run: npm run bench:build && node out/bench/bench/gpu-few-rows.js [ROWS] [THREADS,RESIDENT,LINES,DEPTH ...]
 */
import { matmul } from '../src/graph/operations/contraction.js';
import { add, multiply, silu } from '../src/graph/operations/elementwise.js';
import { input, weight } from '../src/graph/operations/leaves.js';
import { rmsNorm } from '../src/graph/operations/reductions.js';
import type { Tensor, TensorOf } from '../src/graph/tensor.js';
import { CudaDevice } from '../src/runtime/cuda/driver/cuda-device.js';
import type { Address, ElementType } from '../src/runtime/cuda/driver/device.js';
import { planSmallBatch } from '../src/runtime/cuda/kernels/small-batch-kernel.js';
import type {
  SmallBatchPart,
  SmallBatchTuning,
  SmallBatchWork,
} from '../src/runtime/cuda/kernels/small-batch-code.js';
import { defaultTuning } from '../src/runtime/cuda/kernels/small-batch-code.js';
import type { KernelPlan } from '../src/runtime/cuda/kernels/kernel-plan.js';
import { kernelPrelude } from '../src/runtime/cuda/kernels/kernel-plan.js';
import type { KernelOperand } from '../src/runtime/cuda/kernels/kernel-text.js';
import { printTable } from './stopwatch.js';

const [rowsText = '1', ...given] = process.argv.slice(2);
const rows = Number(rowsText);
const launches = 24;
const rounds = 5;
/** Far more than what caches hold. */
const poolBytes = 3 * 2 ** 30;
/** Multiprocessors of an H200. */
const processors = 132;

const tunings: readonly SmallBatchTuning[] =
  given.length > 0
    ? given.map((text) => {
        const [threads, resident, lines, depth] = text.split(',').map(Number) as [number, number, number, number]; // prettier-ignore
        return { threads, blocks: processors * resident, resident, lines, depth };
      })
    : [256, 512].flatMap((threads) =>
        [512, 1024].flatMap((all) =>
          [1, 2].flatMap((lines) =>
            [4, 8].map((loads) => {
              const resident = all / threads;
              return { threads, blocks: processors * resident, resident, lines, depth: loads / lines };
            }),
          ),
        ),
      );

interface Shape {
  readonly name: string;
  readonly work: SmallBatchWork;
  readonly find: (tensor: Tensor) => KernelOperand | undefined;
  readonly weightBytes: number;
}

const operand = (type: ElementType): KernelOperand => ({ key: {}, type });

function describe(
  name: string,
  inner: number,
  isNormed: boolean,
  parts: readonly { readonly columns: number; readonly matrices: number; readonly hasResidual?: boolean }[],
): Shape {
  const places = new Map<Tensor, KernelOperand>();
  const place = (tensor: Tensor, type: ElementType): Tensor => {
    places.set(tensor, operand(type));
    return tensor;
  };
  const x = place(input('x', [rows, inner]), 'float32');
  const norm = rmsNorm(x, place(weight('scale', [inner]), 'float32'), 1e-5) as TensorOf<'rmsNorm'>;
  const made = parts.map(({ columns, matrices, hasResidual }, index): SmallBatchPart => {
    const products = Array.from({ length: matrices }, (_, m) => ({
      tensor: matmul(norm, weight(`w${index}.${m}`, [inner, columns])),
      weights: operand('bfloat16'),
      type: matrices > 1 ? ('bfloat16' as const) : ('float32' as const),
    }));
    const [first, second] = products.map(({ tensor }) => tensor);
    const residual = place(input(`residual${index}`, [rows, columns]), 'float32');
    const whole = second === undefined ? first! : multiply(silu(first!), second);
    const tensor = hasResidual === true ? add(residual, whole) : whole;
    return { products, columns, tensor, result: operand(second === undefined ? 'float32' : 'bfloat16') };
  });
  const left = isNormed ? norm : operand('bfloat16');
  const weightBytes = parts.reduce((sum, { columns, matrices }) => sum + 2 * inner * columns * matrices, 0);
  return {
    name,
    weightBytes,
    work: { leading: [rows], inner, type: 'bfloat16', left, parts: made },
    find: (tensor) => places.get(tensor),
  };
}

const shapes: readonly Shape[] = [
  describe('norm, queries, keys, values', 4096, true, [
    { columns: 4096, matrices: 1 },
    { columns: 4096, matrices: 1 },
    { columns: 4096, matrices: 1 },
  ]),
  describe('attention output, residual', 4096, false, [{ columns: 4096, matrices: 1, hasResidual: true }]),
  describe('norm, gate', 4096, true, [{ columns: 11_008, matrices: 2 }]),
  describe('down, residual', 11_008, false, [{ columns: 4096, matrices: 1, hasResidual: true }]),
  describe('vocabulary', 4096, false, [{ columns: 32_000, matrices: 1 }]),
];

const device = CudaDevice.open();
console.log(`${device.name}, ${rows} rows, bfloat16`);
const pool = device.allocate(poolBytes);
const piece = Uint16Array.from({ length: 1 << 22 }, () => 0x3c00 + Math.floor(Math.random() * 256));
device.upload(pool, piece);
for (let done = piece.byteLength; done < poolBytes; done *= 2)
  device.copy(pool + BigInt(done), pool, Math.min(done, poolBytes - done));
const small = device.allocate(8 << 20); // for everything else; nobody looks at the results
device.clear(small, 8 << 20);

/** Microseconds of one launch, with what lies between two of them. */
async function timePlan({ plan, shape }: { plan: KernelPlan; shape: Shape }): Promise<number> {
  const module = device.compile(`${kernelPrelude}\n${plan.write('kernel')}`);
  try {
    const kernel = module.kernel('kernel');
    const weights = new Set(
      shape.work.parts.flatMap(({ products }) => products.map((product) => product.weights.key)),
    );
    let next = 0;
    const take = (bytes: number): Address => {
      if (next + bytes > poolBytes) next = 0;
      const address = pool + BigInt(next);
      next += Math.ceil(bytes / 256) * 256;
      return address;
    };
    const each = shape.weightBytes / weights.size;
    if (plan.threads.kind !== 'blocks') throw new Error('A kernel of blocks was expected.');
    const { count, block } = plan.threads;
    const recording = device.record(() => {
      for (let launch = 0; launch < launches; launch++)
        device.launch({
          ...{ kernel, grid: [count as number, 1, 1], block },
          arguments: [
            small,
            ...plan.operands.map(({ key }) => (weights.has(key) ? take(each) : small + 4096n)),
          ],
        });
    });
    device.replay(recording);
    await device.synchronize();
    let best = Infinity;
    for (let round = 0; round < rounds; round++) {
      const start = performance.now();
      device.replay(recording);
      await device.synchronize();
      best = Math.min(best, ((performance.now() - start) * 1000) / launches);
    }
    recording.free();
    return best;
  } finally {
    module.unload();
  }
}

for (const shape of shapes) {
  const measured: { readonly label: string; readonly time: number }[] = [];
  const usual = defaultTuning(rows, shape.work.parts[0]!.products.length);
  for (const tuning of [usual, ...tunings]) {
    const { threads, resident, lines, depth } = tuning;
    const own = `${threads} threads, ${resident} resident, ${lines} lines, ${depth} loads`;
    const label = tuning === usual ? `usual: ${own}` : own;
    try {
      const plan = planSmallBatch(shape.work, shape.find, rows, tuning);
      measured.push({ label, time: await timePlan({ plan, shape }) });
    } catch (cause) {
      console.log(`${label}: ${String(cause).slice(0, 200)}`);
    }
  }
  measured.sort((a, b) => a.time - b.time);
  console.log(`\n${shape.name}, ${(shape.weightBytes / 1e6).toFixed(1)} MB`);
  printTable([
    ['how', 'us', 'TB/s'],
    ...measured
      .filter(({ label }, place) => place < 10 || label.startsWith('usual'))
      .map(({ label, time }) => [label, time.toFixed(2), (shape.weightBytes / time / 1e6).toFixed(2)]),
  ]);
}
device.dispose();
