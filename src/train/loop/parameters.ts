import { readExactly, withFile } from '../../checkpoint/binary-file.js';
import { type FloatDType, floatDecoders } from '../../checkpoint/element-decoding.js';
import type { RowBlock } from '../../checkpoint/read-tensor.js';
import { joinRows } from '../../checkpoint/weight-recipe.js';
import type { HalfType } from '../../core/half-floats.js';
import { requireGraph } from '../../draft/reading/checks.js';
import type { Drafter } from '../../draft/drafter.js';
import { countElements } from '../../runtime/weights.js';
import type { DirectPart, WeightLocation, WeightStore } from '../../runtime/weights.js';
import type { ParameterValues } from './adamw.js';

/** By the graph's names; borrowed weights of the target are not included. */
export async function readParameters(
  drafter: Pick<Drafter, 'name' | 'graph' | 'parameterCount'>,
): Promise<ReadonlyMap<string, ParameterValues>> {
  // The drafter's own weights come first, then the target's.
  const [own] = requireGraph(drafter).weights;
  return readStore(own!);
}

export async function readStore(store: WeightStore): Promise<ReadonlyMap<string, ParameterValues>> {
  const values = new Map<string, ParameterValues>();
  if (store.kind === 'file') {
    await withFile(store.path, async (file) => {
      for (const [name, { shape, offsetBytes, sizeBytes, dtype }] of store.tensors) {
        const raw = new Uint8Array(sizeBytes);
        await readExactly(file, offsetBytes, raw);
        values.set(name, { shape, data: decode(raw, dtype) });
      }
    });
  } else if (store.kind === 'memory') {
    for (const [name, { shape, data, dtype }] of store.tensors) {
      // A copy: training writes to it while programs read the original.
      const { buffer } = data.slice();
      values.set(name, { shape, data: decode(new Uint8Array(buffer), dtype) });
    }
  } else {
    for (const [name, { shape, parts }] of store.tensors) {
      const joined = parts.map((part) => ({ ...part, rows: readRows(part) }));
      values.set(name, {
        shape,
        data: await joinRows(joined, shape, new Float32Array(countElements(shape))),
      });
    }
  }
  return values;
}

const storedAs: Readonly<Record<'float32' | HalfType, FloatDType>> = {
  float32: 'F32',
  float16: 'F16',
  bfloat16: 'BF16',
};

async function* readRows({ shape, dtype, read }: DirectPart): AsyncGenerator<RowBlock> {
  let firstRow = 0;
  for await (const piece of read()) {
    // Pieces of larger buffers may be misaligned for floats.
    const values = decode(piece.slice(), dtype);
    yield { values, firstRow };
    firstRow += values.length / (shape.at(-1) ?? 1);
  }
}

function decode(raw: Uint8Array<ArrayBuffer>, dtype: WeightLocation['dtype'] = 'float32'): Float32Array {
  if (dtype === 'float32') return new Float32Array(raw.buffer);
  const values = new Float32Array(raw.byteLength / 2);
  floatDecoders[storedAs[dtype]](raw, values, 0, values.length);
  return values;
}

/**
 * [name] The name under which it learns. Medusa and Hydra repeat one module where a head has several blocks and store it
 * under several names; their code runs the last one everywhere. Equal blocks (TrainingRecipe) therefore learn as one.
 */
export function tieWeights(
  values: ReadonlyMap<string, ParameterValues>,
  repeatedBlocks: RegExp | undefined,
): ReadonlyMap<string, string> {
  const first = new Map<string, string>(); // [name without number]
  const ties = new Map<string, string>();
  for (const [name, { data }] of values) {
    const family = repeatedBlocks?.exec(name) ?? undefined;
    const key = family === undefined ? undefined : `${family[1]!} ${family[2]!}`;
    const earlier = key === undefined ? undefined : first.get(key);
    const known = earlier === undefined ? undefined : values.get(earlier)!.data;
    const isTied = known?.length === data.length && known.every((value, index) => value === data[index]);
    ties.set(name, isTied ? earlier! : name);
    if (key !== undefined && earlier === undefined) first.set(key, name);
  }
  return ties;
}
