/**
 * Attention of many rows as tensor cores compute it, on an emulated device: as the interpreter does it, but for what is
 * rounded, for every kind of segment, for rows that fill no tile and columns that fill no chunk.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Dimension } from '../../src/graph/dimension.js';
import { addDimensions, multiplyDimensions, symbol } from '../../src/graph/dimension.js';
import { gradient } from '../../src/graph/gradient.js';
import { attention } from '../../src/graph/operations/attention.js';
import { add, multiply } from '../../src/graph/operations/elementwise.js';
import { input, weight } from '../../src/graph/operations/leaves.js';
import { matmul } from '../../src/graph/operations/contraction.js';
import { sum } from '../../src/graph/operations/reductions.js';
import { rotate } from '../../src/graph/operations/rotation.js';
import { reshape } from '../../src/graph/operations/shaping.js';
import type { SegmentKind, Tensor } from '../../src/graph/tensor.js';
import { createCudaRuntime } from '../../src/runtime/cuda/cuda-runtime.js';
import { createInterpreter } from '../../src/runtime/interpreter/interpreter.js';
import type { NamedTensors, Runtime } from '../../src/runtime/program.js';
import type { LaunchCounts } from '../support/counting-device.js';
import { countLaunches } from '../support/counting-device.js';
import { createEmulatedDevice, findCompiler } from '../support/emulated-device.js';
import { drawValues } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const [batch, position, lanes] = [symbol('batch'), symbol('position'), symbol('lanes')];
const [stem, past] = [symbol('stem'), symbol('past')];

interface Sizes {
  readonly segments: readonly SegmentKind[];
  readonly heads: number;
  readonly keyValueHeads: number;
  readonly size: number;
  readonly lanes?: Dimension;
  readonly ownMasks?: boolean;
}

function build({
  segments,
  heads,
  keyValueHeads,
  size,
  lanes: own = 1,
  ownMasks = false,
}: Sizes): NamedTensors {
  const keyHeads = multiplyDimensions(own, keyValueHeads);
  const shapes: Readonly<Record<string, readonly Dimension[]>> = {
    common: [stem, keyValueHeads, size],
    shared: [past, keyHeads, size],
    own: [batch, position, keyHeads, size],
  };
  const sides = segments.map((kind) => ({
    kind,
    keys: input(`${kind}Keys`, shapes[kind]!),
    values: input(`${kind}Values`, shapes[kind]!),
  }));
  const seen = sides.map(({ keys }) => keys.shape.at(-3)!).reduce(addDimensions);
  const owners = own !== 1 ? [own, 1] : ownMasks ? [batch] : [];
  const mask = input('mask', [...owners, position, seen]);
  const queries = input('queries', [batch, position, multiplyDimensions(own, heads), size]);
  const mixed = attention(queries, sides, mask, { heads, keyValueHeads, scale: 0.2 });
  // Lengths that stand in sums and products only would not be known.
  return { mixed, known: add(input('known', [batch, position, own]), 1) };
}

const tolerance = { relative: 2e-3, absolute: 2e-3 };

describe.skipIf(findCompiler() === undefined)('attention on tensor cores', () => {
  const oracle = createInterpreter();
  let [runtime, counts]: [Runtime?, LaunchCounts?] = [];
  beforeAll(() => {
    const counting = countLaunches(createEmulatedDevice());
    counts = counting.counts;
    runtime = createCudaRuntime(counting.device, { productType: 'bfloat16' });
  });
  afterAll(() => runtime!.dispose());

  async function compare(
    outputs: NamedTensors,
    packed: boolean,
    sizes: readonly Record<string, number>[],
    allowed = tolerance,
  ) {
    const expected = await oracle.compile(outputs);
    const program = await runtime!.compile(outputs, [], { packed });
    for (const size of sizes) {
      const inputs = drawValues(outputs, size, {}, `tiles ${JSON.stringify(size)}`);
      const before = { ...counts! };
      expectClose(await program.run(inputs), await expected.run(inputs), allowed);
      expect(counts!.products).toBe(before.products);
    }
    await program.dispose();
  }

  it.each([
    { title: 'rows of their own', segments: ['own'], heads: 2, keyValueHeads: 2, size: 32 },
    { title: 'a past', segments: ['shared', 'own'], heads: 2, keyValueHeads: 2, size: 64 },
    { title: 'heads in groups', segments: ['shared', 'own'], heads: 6, keyValueHeads: 2, size: 32 },
    { title: 'lanes', segments: ['common', 'shared', 'own'], heads: 2, keyValueHeads: 1, size: 32, lanes },
    { title: 'masks of sequences', segments: ['own'], heads: 2, keyValueHeads: 1, size: 32, ownMasks: true },
    { title: 'the largest heads', segments: ['shared', 'own'], heads: 1, keyValueHeads: 1, size: 128 },
  ] satisfies (Sizes & { title: string })[])('sees $title', async (sizes) => {
    await compare(build(sizes), true, [
      { batch: 1, position: 5, lanes: 1, stem: 3, past: 1 },
      { batch: 2, position: 17, lanes: 2, stem: 40, past: 70 },
      { batch: 1, position: 16, lanes: 1, stem: 33, past: 600 },
    ]);
  });

  it.each([false, true])('sees the same in many sequences, masks of their own: %s', async (ownMasks) => {
    const outputs = build({ segments: ['shared', 'own'], heads: 4, keyValueHeads: 2, size: 64, ownMasks });
    const sizes = [
      { batch: 3, position: 18, past: 33 },
      { batch: 2, position: 70, past: 131 },
      { batch: 2, position: 9, past: 2 },
    ];
    // Halves, as products of the graph round them.
    await compare(outputs, false, sizes, { relative: 1e-2, absolute: 1e-2 });
  });

  it('sees nothing of what is masked, were it all that a warp has', async () => {
    const outputs = build({ segments: ['shared'], heads: 1, keyValueHeads: 1, size: 32 });
    const program = await runtime!.compile(outputs, [], { packed: true });
    const expected = await oracle.compile(outputs);
    const inputs = drawValues(outputs, { batch: 1, position: 6, past: 300 }, {}, 'masked');
    const mask = inputs.mask!.data as Float32Array;
    for (let at = 0; at < mask.length; at++) if (at % 300 !== 7) mask[at] = -Infinity;
    expectClose(await program.run(inputs), await expected.run(inputs), tolerance);
    await program.dispose();
  });

  const [hidden, heads, size] = [64, 2, 32];
  const x = input('x', [batch, position, hidden]);
  const part = (name: string): Tensor => {
    const flat = matmul(x, weight(name, [hidden, heads * size]));
    return reshape(flat, [batch, position, heads, size]);
  };
  const turned = (name: string): Tensor =>
    rotate(part(name), input('cosine', [position, size / 2]), input('sine', [position, size / 2]));
  const mixed = attention(
    turned('q'),
    [{ kind: 'own', keys: turned('k'), values: part('v') }],
    input('mask', [position, position]),
    { heads, keyValueHeads: heads, scale: 0.2 },
  );
  const layer = matmul(reshape(mixed, [batch, position, heads * size]), weight('o', [heads * size, hidden]));
  const values = (columns: number) => ({
    shape: [hidden, columns],
    data: Float32Array.from({ length: hidden * columns }, (_, at) => Math.sin(at * at) / 8),
  });
  const weights = {
    kind: 'memory' as const,
    tensors: new Map(['q', 'k', 'v', 'o'].map((name) => [name, values(64)])),
  };

  it('takes queries, keys and values as products wrote them, and makes what a product reads', async () => {
    const outputs = { layer };
    const expected = await oracle.compile(outputs, [weights]);
    const program = await runtime!.compile(outputs, [weights]);
    const inputs = drawValues(outputs, { batch: 4, position: 21 }, {}, 'layer');
    const before = { ...counts! };
    const found = await program.run(inputs);
    // The rounded rows, and attention, which rotates queries and keys.
    expect(counts!.kernels - before.kernels).toBe(2);
    expectClose(found, await expected.run(inputs), { relative: 2e-2, absolute: 2e-2 });
    await program.dispose();
  });

  it('is spelled out where gradients need the weights', async () => {
    const loss = reshape(sum(multiply(layer, layer), [0, 1, 2]), []);
    const outputs = { slope: gradient(loss, [x])[0]!, loss };
    const program = await runtime!.compile(outputs, [weights]);
    const inputs = drawValues(outputs, { batch: 2, position: 5 }, {}, 'gradient');
    const before = { ...counts! };
    await program.run(inputs);
    expect(counts!.products - before.products).toBeGreaterThan(8);
    await program.dispose();
  });
});
