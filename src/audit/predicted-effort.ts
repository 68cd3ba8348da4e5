/**
 * The effort of an audit whose models are not on this machine yet, from their sizes and the time of matrix products on
 * its device. Attention, transfers and small operations are not counted.
 */
import { matmul } from '../graph/operations/contraction.js';
import { input, weight } from '../graph/operations/leaves.js';
import type { Runtime } from '../runtime/program.js';
import { float32 } from '../runtime/program.js';
import type { MemoryWeights } from '../runtime/weights.js';
import { armKeys } from './arms/drafter-units.js';
import type { Pace, SearchEffort } from './effort.js';
import { countEffort } from './effort.js';
import type { AuditSettings } from './settings.js';

export interface UnseenAudit {
  readonly settings: AuditSettings;
  readonly prompts: number;
  /** Parameters. */
  readonly target: number;
  /** [drafter] Parameters. */
  readonly drafters: readonly number[];
}

/** Of the default policy. */
const levels = 4;

export async function predictEffort(runtime: Runtime, unseen: UnseenAudit): Promise<SearchEffort> {
  const { settings, prompts, target, drafters } = unseen;
  const keys = armKeys({ settings, suffixes: [] }, '', '');
  const pace = await predictPace(runtime, target);
  const counted = drafters.map((parameters) => ({
    keys: Array.from({ length: prompts }, () => keys).flat(),
    share: 1 + (levels * parameters) / target,
  }));
  return countEffort(settings, pace, counted);
}

/** Larger than the caches of a device, as weights are. */
const sizes = { onnx: 2048, cuda: 8192 } as const;
const products = 8;
const manyRows = 96;
const probes = 5;

/** One product after the other in one program, so that starting it costs little. */
async function predictPace(runtime: Runtime, parameters: number): Promise<Pace> {
  const size = runtime.name === 'cuda' ? sizes.cuda : sizes.onnx;
  const data = new Float32Array(size * size).fill(1 / size);
  const weights: MemoryWeights = { kind: 'memory', tensors: new Map([['w', { shape: [size, size], data }]]) };
  const time = async (rows: number): Promise<number> => {
    let y = input('x', [rows, size]);
    for (let product = 0; product < products; product++) y = matmul(y, weight('w', [size, size]));
    const program = await runtime.compile({ y }, [weights]);
    const inputs = { x: float32(new Float32Array(rows * size).fill(1), [rows, size]) };
    let bestMs = Infinity;
    try {
      for (let run = 0; run < probes; run++) {
        const startMs = performance.now();
        await program.run(inputs);
        bestMs = Math.min(bestMs, performance.now() - startMs);
      }
    } finally {
      await program.dispose();
    }
    return bestMs / products;
  };
  const scale = parameters / size ** 2;
  return { rowMs: ((await time(manyRows)) / manyRows) * scale, tokenMs: (await time(1)) * scale };
}
