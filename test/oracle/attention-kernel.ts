import { largest } from '../../src/core/vector.js';
import { roundToHalf } from '../../src/core/half-floats.js';
import { isKept, ownersOfMask } from '../../src/graph/operations/attention-view.js';
import type { SegmentKind, TensorOf } from '../../src/graph/tensor.js';
import type { DenseValue, Index } from './dense-value.js';
import { fill, read } from './dense-value.js';

export function runAttention(
  { attributes }: TensorOf<'attention'>,
  [queries, mask, ...memory]: readonly DenseValue[],
  { shape }: { readonly shape: readonly number[] },
): Float64Array {
  const { segments, heads, keyValueHeads, scale, cacheType } = attributes;
  const size = shape[3]!;
  const known = new Map<string, readonly Sight[]>();
  return fill(shape, ([batch, position, head, at]) => {
    const key = `${batch} ${position} ${head}`;
    const seen = known.get(key) ?? look(batch!, position!, head!);
    known.set(key, seen);
    return seen.reduce((total, { weight, readValue }) => total + weight * readValue(at!), 0);
  });

  /** The columns of the mask that no other segment has. */
  function countCached(): number {
    const others = segments.flatMap((kind, index) =>
      kind === 'cache' || kind === 'diagonal' ? [] : [memory[2 * index]!.shape.at(-3)!],
    );
    return others.reduce((left, length) => left - length, mask!.shape.at(-1)!);
  }

  function look(batch: number, position: number, head: number): readonly Sight[] {
    const keyValueHead = Math.floor((head * keyValueHeads) / heads);
    const lane = Math.floor(head / heads);
    let column = 0;
    const sights = segments.flatMap((kind, index) => {
      const [keys, values] = memory.slice(2 * index) as [DenseValue, DenseValue];
      const length = kind === 'cache' ? countCached() : keys.shape.at(-3)!;
      const rows = kind === 'diagonal' ? [position] : Array.from({ length }, (_, at) => at);
      return rows.map((at) => {
        const row = {
          cache: [0, keyValueHead, at],
          common: [at, keyValueHead % keyValueHeads],
          shared: [at, keyValueHead],
          own: [batch, at, keyValueHead],
          diagonal: [batch, at, keyValueHead],
        }[kind];
        let product = 0;
        for (let pair = 0; pair < size; pair++) {
          product += read(queries!, [batch, position, head, pair]) * readSide(kind, keys, [...row, pair]);
        }
        const owner = { all: [], batch: [batch], lanes: [lane, 0] }[ownersOfMask(mask!)];
        const place = [...owner, position, column];
        const added = kind === 'diagonal' ? 0 : read(mask!, place);
        column += 1;
        const readValue = (place: number): number => readSide(kind, values, [...row, place]);
        return { score: scale * product + added, readValue };
      });
    });
    const top = largest(sights.map(({ score }) => score));
    const powers = sights.map(({ score }) => Math.exp(score - top));
    const total = powers.reduce((left, right) => left + right, 0);
    return sights.map(({ readValue }, index) => ({ readValue, weight: powers[index]! / total }));
  }

  function readSide(kind: SegmentKind, side: DenseValue, index: Index): number {
    const value = read(side, index);
    return isKept(kind) || cacheType === undefined ? value : roundToHalf(value, cacheType);
  }
}

interface Sight {
  readonly weight: number;
  readonly readValue: (place: number) => number;
}
