/** The states of the target that a drafter reads, and those of several drafters in one buffer. */
import type { ForwardOutput, ForwardResult } from '../../model/forward.js';
import { pickRows, type Runtime } from '../../runtime/program.js';
import type { RowBuffer } from '../../runtime/row-buffer.js';
import type { Drafter } from '../drafter.js';

export type StateReader = Pick<Drafter, 'reads' | 'taps'>;

/** Asked of a pass. */
export function outputsFor({ reads }: StateReader): readonly ForwardOutput[] {
  if (reads === 'both') return ['features', 'taps'];
  return reads === 'tokens' ? [] : [reads];
}

/** What a drafter reads of a pass; it belongs to the caller. Of features and taps, each row has the features first. */
export function statesOf(
  runtime: Runtime,
  { reads, taps }: StateReader,
  { features, taps: tapped }: Pick<ForwardResult, 'features' | 'taps'>,
): RowBuffer | undefined {
  if (reads === 'tokens') return undefined;
  if (reads !== 'both') return reads === 'features' ? features : tapped;
  const { rowCount, width } = features!;
  const count = taps.length;
  const joined = runtime.allocate(rowCount * (1 + count), width);
  const rows = Array.from({ length: rowCount }, (_, row) => row);
  joined.copyRows(
    features!,
    rows,
    rows.map((row) => row * (1 + count)),
  );
  const cells = Array.from({ length: rowCount * count }, (_, cell) => cell);
  const places = cells.map((cell) => cell + 1 + Math.floor(cell / count));
  joined.copyRows(tapped!.withWidth(width), cells, places);
  features!.free();
  tapped!.free();
  return joined.withWidth(width * (1 + count));
}

/** A member's states of those that all members read; it belongs to the caller. */
export function pickStates(
  runtime: Runtime,
  states: RowBuffer, // [row, width]
  all: StateReader,
  own: StateReader,
): RowBuffer {
  const layers = (reader: StateReader): readonly (number | 'features')[] => [
    ...(reader.reads === 'features' || reader.reads === 'both' ? ['features' as const] : []),
    ...(reader.reads === 'features' ? [] : reader.taps),
  ];
  const [held, wanted] = [layers(all), layers(own)];
  const width = states.width / held.length;
  const picks = Array.from({ length: states.rowCount * wanted.length }, (_, at) => {
    const row = Math.floor(at / wanted.length);
    return row * held.length + held.indexOf(wanted[at % wanted.length]!);
  });
  return pickRows(runtime, states.withWidth(width), picks).withWidth(width * wanted.length);
}
