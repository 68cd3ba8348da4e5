/** A drafter on the way from the weights before to those after. */
import { existsSync, mkdirSync, renameSync } from 'node:fs';
import { dirname } from 'node:path';
import type { Drafter } from '../../src/draft/drafter.js';
import { readParameters } from '../../src/train/loop/parameters.js';
import { saveDrafter } from '../../src/train/loop/saved-drafter.js';

export interface Blend {
  readonly from: string;
  readonly made: string;
  readonly to: string;
  /** Of the way. */
  readonly share: number;
}

export async function writeBlend(
  { from, made, to, share }: Blend,
  load: (folder: string) => Promise<Drafter>,
): Promise<void> {
  const [before, after] = [await readParameters(await load(from)), await readParameters(await load(made))];
  const values = new Map(
    [...after].map(([name, { data }]) => {
      const start = before.get(name)!.data;
      return [name, data.map((value, index) => start[index]! + share * (value - start[index]!))] as const;
    }),
  );
  const own = `${to}.${process.pid}`;
  mkdirSync(dirname(to), { recursive: true });
  await saveDrafter({ from: made, to: own, values });
  try {
    renameSync(own, to);
  } catch (cause) {
    // Another process may have been faster, and has made the same.
    if (!existsSync(to)) throw cause;
  }
}
