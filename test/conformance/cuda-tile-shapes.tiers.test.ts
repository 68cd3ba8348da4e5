/**
 * Attention of many rows as tensor cores compute it, on an emulated device: as the interpreter does it, but for what is
 * rounded, for every kind of segment, for rows that fill no tile and columns that fill no chunk.
 */
import { expect, it } from 'vitest';
import { type Dimension, addDimensions, multiplyDimensions, symbol } from '../../src/graph/dimension.js';
import type { HalfType } from '../../src/core/half-floats.js';
import { attention } from '../../src/graph/operations/attention.js';
import { isKept } from '../../src/graph/operations/attention-view.js';
import { add } from '../../src/graph/operations/elementwise.js';
import { input, type SegmentKind } from '../../src/graph/tensor.js';
import { createInterpreter } from '../oracle/interpreter.js';
import type { NamedTensors } from '../../src/runtime/program.js';
import { describeCuda } from '../support/emulated-suite.js';
import { casesOfTier } from '../support/tier.js';
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
  readonly cacheType?: HalfType | undefined;
}

function build({
  segments,
  heads,
  keyValueHeads,
  size,
  lanes: own = 1,
  ownMasks = false,
  cacheType,
}: Sizes): NamedTensors {
  const keyHeads = multiplyDimensions(own, keyValueHeads);
  const shapes: Readonly<Record<string, readonly Dimension[]>> = {
    common: [stem, keyValueHeads, size],
    shared: [past, keyHeads, size],
    own: [batch, position, keyHeads, size],
  };
  const sides = segments.map((kind) => ({
    kind,
    keys: input(`${kind}Keys`, shapes[kind]!, isKept(kind) ? cacheType : 'float32'),
    values: input(`${kind}Values`, shapes[kind]!, isKept(kind) ? cacheType : 'float32'),
  }));
  const seen = sides.map(({ keys }) => keys.shape.at(-3)!).reduce(addDimensions);
  const owners = own !== 1 ? [own, 1] : ownMasks ? [batch] : [];
  const mask = input('mask', [...owners, position, seen]);
  const queries = input('queries', [batch, position, multiplyDimensions(own, heads), size]);
  const mixed = attention(queries, sides, mask, { heads, keyValueHeads, scale: 0.2, cacheType });
  // Lengths that stand in sums and products only would not be known.
  return { mixed, known: add(input('known', [batch, position, own]), 1) };
}

const tolerance = { relative: 2e-3, absolute: 2e-3 };

describeCuda('attention on tensor cores', { productType: 'bfloat16' }, (bench) => {
  const oracle = createInterpreter();

  async function compare(
    outputs: NamedTensors,
    packed: boolean,
    sizes: readonly Record<string, number>[],
    allowed = tolerance,
  ) {
    const expected = await oracle.compile(outputs);
    const program = await bench.runtime.compile(outputs, [], { packed });
    for (const size of sizes) {
      const inputs = drawValues(outputs, size, {}, `tiles ${JSON.stringify(size)}`);
      const before = { ...bench.counts };
      expectClose(await program.run(inputs), await expected.run(inputs), allowed);
      expect(bench.counts.products).toBe(before.products);
    }
    await program.dispose();
  }

  interface Case extends Sizes {
    readonly title: string;
    readonly isQuick?: boolean;
  }
  const cases: readonly Case[] = [
    { title: 'rows of their own', segments: ['own'], heads: 2, keyValueHeads: 2, size: 32 },
    { title: 'a past', segments: ['shared', 'own'], heads: 2, keyValueHeads: 2, size: 64 },
    { title: 'heads in groups', segments: ['shared', 'own'], heads: 6, keyValueHeads: 2, size: 32 },
    {
      ...{ title: 'lanes', segments: ['common', 'shared', 'own'], heads: 2, keyValueHeads: 1, size: 32 },
      lanes,
    },
    {
      ...{ title: 'a past in halves', segments: ['common', 'shared', 'own'], heads: 2, keyValueHeads: 1 },
      ...{ size: 32, lanes, isQuick: true, cacheType: 'bfloat16' },
    },
    { title: 'masks of sequences', segments: ['own'], heads: 2, keyValueHeads: 1, size: 32, ownMasks: true },
    { title: 'the largest heads', segments: ['shared', 'own'], heads: 1, keyValueHeads: 1, size: 128 },
  ];
  it.each(casesOfTier(cases, ({ isQuick = false }) => isQuick))('sees $title', async (sizes) => {
    await compare(build(sizes), true, [
      { batch: 1, position: 5, lanes: 1, stem: 3, past: 1 },
      // More rows than a tile has, in several sequences.
      { batch: 2, position: 17, lanes: 2, stem: 40, past: 35 },
      // More columns than all warps of a block take at once.
      { batch: 1, position: 16, lanes: 1, stem: 33, past: 270 },
      // More rows than are split.
      { batch: 1, position: 70, lanes: 1, stem: 3, past: 5 },
    ]);
  });

  const sequences = [
    { ownMasks: true, size: 32, cacheType: undefined, isQuick: false },
    { ownMasks: true, size: 32, cacheType: 'bfloat16' as const, isQuick: true },
    { ownMasks: false, size: 64, cacheType: undefined, isQuick: false },
  ];
  it.each(casesOfTier(sequences, ({ isQuick }) => isQuick))(
    'sees the same in many sequences, masks of their own: $ownMasks, past in $cacheType',
    async ({ ownMasks, size, cacheType }) => {
      const sides = { segments: ['shared', 'own'] as const, heads: 2, keyValueHeads: 1 };
      const outputs = build({ ...sides, size, ownMasks, cacheType });
      const sizes = [
        { batch: 3, position: 18, past: 33 },
        // More rows and columns than a block takes at once.
        { batch: 2, position: 66, past: 67 },
        { batch: 2, position: 9, past: 2 },
      ];
      // Halves, as products of the graph round them.
      await compare(outputs, false, sizes, { relative: 1e-2, absolute: 1e-2 });
    },
  );
});
