/** Attention on tensor cores among the products of a layer, on an emulated device; cuda-tile-shapes has its shapes. */
import { expect, it } from 'vitest';
import { symbol } from '../../src/graph/dimension.js';
import { gradient } from '../../src/graph/gradient.js';
import { attention, rotate } from '../../src/graph/operations/attention.js';
import { matmul } from '../../src/graph/operations/contraction.js';
import { multiply } from '../../src/graph/operations/elementwise.js';
import { input, weight, type Tensor } from '../../src/graph/tensor.js';
import { sum } from '../../src/graph/operations/reductions.js';
import { reshape } from '../../src/graph/operations/shaping.js';
import { createInterpreter } from '../oracle/interpreter.js';
import { describeCuda } from '../support/emulated-suite.js';
import { drawValues } from './runtime-cases.js';
import { expectClose } from './runtime-comparison.js';

const [batch, position] = [symbol('batch'), symbol('position')];

describeCuda('attention on tensor cores', { productType: 'bfloat16' }, (bench) => {
  const oracle = createInterpreter();

  it('sees nothing of what is masked, were it all that a warp has', async () => {
    const past = [symbol('past'), 1, 32];
    const side = { kind: 'shared' as const, keys: input('keys', past), values: input('values', past) };
    const [queries, mask] = [input('queries', [1, position, 1, 32]), input('mask', [position, past[0]!])];
    const outputs = { mixed: attention(queries, [side], mask, { heads: 1, keyValueHeads: 1, scale: 0.2 }) };
    const program = await bench.runtime.compile(outputs, [], { packed: true });
    const expected = await oracle.compile(outputs);
    const inputs = drawValues(outputs, { position: 6, past: 300 }, {}, 'masked');
    const masked = inputs.mask!.data as Float32Array;
    for (let at = 0; at < masked.length; at++) if (at % 300 !== 7) masked[at] = -Infinity;
    expectClose(await program.run(inputs), await expected.run(inputs), { relative: 2e-3, absolute: 2e-3 });
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
    const program = await bench.runtime.compile(outputs, [weights]);
    const inputs = drawValues(outputs, { batch: 2, position: 21 }, {}, 'layer');
    const before = { ...bench.counts };
    const found = await program.run(inputs);
    // The rounded rows, and attention, which rotates queries and keys.
    expect(bench.counts.kernels - before.kernels).toBe(2);
    expectClose(found, await expected.run(inputs), { relative: 2e-2, absolute: 2e-2 });
    await program.dispose();
  });

  it('is spelled out where gradients need the weights', async () => {
    const loss = reshape(sum(multiply(layer, layer), [0, 1, 2]), []);
    const outputs = { slope: gradient(loss, [x])[0]!, loss };
    const program = await bench.runtime.compile(outputs, [weights]);
    const inputs = drawValues(outputs, { batch: 2, position: 5 }, {}, 'gradient');
    const before = { ...bench.counts };
    await program.run(inputs);
    expect(bench.counts.products - before.products).toBeGreaterThan(8);
    await program.dispose();
  });
});
