/**
 * Matrices in 8 or 4 bits for ONNX Runtime's MatMulNBits: 32 values along the inner axis share one scale, and the
 * kernel quantizes the rows that it multiplies to 8 bits in the same way. Only products of decoding read them: tables
 * that are gathered, norms, and programs of searches and training keep their float32 values. The quantized file is
 * made once and kept in the weight cache; matrices that multiply the same rows are adjacent in it.
 */
import { type FileHandle, open } from 'node:fs/promises';
import * as z from '../../core/schema.js';
import { MistletoeError } from '../../core/errors.js';
import { decodeHalves } from '../../core/half-floats.js';
import { readMatrixProduct } from '../../graph/contraction-plan.js';
import { sortTopologically, type Tensor, type TensorOf } from '../../graph/tensor.js';
import type { NamedTensors } from '../program.js';
import type {
  FileWeights,
  PlacePiece,
  QuantizedMatrix,
  QuantizedType,
  WeightLocation,
  WeightStore,
} from '../weights.js';
import { countBlocks, countQuantizedBytes, findWeight, quantizedBlock } from '../weights.js';
import { groupByRows } from './quantized-products.js';
import { listProducts, type WeightProduct } from './weight-products.js';

const bitsOf: Readonly<Record<QuantizedType, 4 | 8>> = { int8: 8, int4: 4 };

export class QuantizedWeights {
  /** By path of the plain weights and the names of the matrices. */
  private readonly known = new Map<string, Promise<FileWeights>>();

  constructor(private readonly type: QuantizedType) {}

  /** To be searched before the stores they were made from. */
  async find(outputs: NamedTensors, weights: readonly WeightStore[]): Promise<readonly FileWeights[]> {
    const ofStore = new Map<FileWeights, Map<string, WeightProduct>>();
    const all = sortTopologically(Object.values(outputs));
    if (all.some(({ operation }) => operation === 'expertProduct')) throw withExperts(this.type);
    for (const [name, product] of listProducts(outputs)) {
      const store = findWeight(weights, product.weight);
      if (store.kind !== 'file' || store.derived === undefined) throw withoutCache(this.type);
      if (!isRowsTimesMatrix(product)) continue;
      ofStore.set(store, (ofStore.get(store) ?? new Map<string, WeightProduct>()).set(name, product));
    }
    const joined = groupByRows(all).map((group) => group.map(({ inputs }) => inputs[1].attributes.name));
    return Promise.all(
      [...ofStore].map(([store, products]) => this.findFor(store, orderJoined(products, joined))),
    );
  }

  private findFor(store: FileWeights, groups: Groups): Promise<FileWeights> {
    const names = groups.map((group) => group.map(({ weight }) => weight.attributes.name));
    const key = JSON.stringify([store.path, names]);
    const quantized = this.known.get(key) ?? quantizeAll(store, groups, this.type);
    this.known.set(key, quantized);
    quantized.catch(() => this.known.delete(key));
    return quantized;
  }
}

/** Products whose matrices are adjacent in the file, in order. */
type Groups = readonly (readonly WeightProduct[])[];

/** Each product once, in the first group that names it. */
function orderJoined(
  products: ReadonlyMap<string, WeightProduct>,
  groups: readonly (readonly string[])[],
): Groups {
  const left = new Map(products);
  const take = (name: string): readonly WeightProduct[] => {
    const product = left.get(name);
    left.delete(name);
    return product === undefined ? [] : [product];
  };
  return groups.map((names) => names.flatMap(take)).filter(({ length }) => length > 0);
}

const withoutCache = (type: QuantizedType): MistletoeError =>
  new MistletoeError('runtime', `--dtype ${type} needs the weight cache, which cannot be written.`, {
    hint: 'Set MISTLETOE_CACHE to a folder with room, or leave --dtype out.',
  });

const withExperts = (type: QuantizedType): MistletoeError =>
  new MistletoeError('runtime', `--dtype ${type} does not support models with experts.`, {
    hint: 'Leave --dtype out: a 16-bit checkpoint keeps its experts in 16 bits.',
  });

function isRowsTimesMatrix({ weight, alone, others }: WeightProduct): boolean {
  const isMatrix = (product: Tensor): boolean =>
    product.operation === 'contract' &&
    product.inputs[1]!.operation === 'weight' &&
    product.attributes.right.length === 2 &&
    readMatrixProduct(product.attributes) !== undefined;
  return weight.shape.length === 2 && [alone, ...others].every(isMatrix);
}

const tableSchema = z.array(
  z.object({ name: z.string(), offsetBytes: z.number(), scaleOffsetBytes: z.number() }),
);

interface Matrix extends QuantizedMatrix {
  readonly name: string;
  readonly location: WeightLocation;
  /** [inner, column] rather than [column, inner] */
  readonly innerFirst: boolean;
}

async function quantizeAll(store: FileWeights, groups: Groups, type: QuantizedType): Promise<FileWeights> {
  const describe = ({ weight: { attributes, shape }, alone }: WeightProduct): Matrix => {
    const { innerFirst } = readMatrixProduct((alone as TensorOf<'contract'>).attributes)!.right;
    const [inner, columns] = (innerFirst ? shape : shape.toReversed()) as [number, number];
    const location = store.tensors.get(attributes.name)!;
    return { name: attributes.name, location, innerFirst, bits: bitsOf[type], inner, columns };
  };
  const joined = groups.map((group) => group.map(describe));
  const matrices = joined.flat();
  const file = await store.derived!.keep({
    purpose: JSON.stringify({
      ...{ quantized: 2, type },
      matrices: joined.map((group) => group.map((matrix) => [matrix.name, matrix.innerFirst])),
    }),
    sizeBytes: matrices.reduce(
      (sum, matrix) => sum + countQuantizedBytes(matrix) + 4 * countBlocks(matrix) + 2 * pageBytes,
      0,
    ),
    write: (place) => writeMatrices(store.path, joined, place),
  });
  if (file === undefined) throw withoutCache(type);
  const tensors = tableSchema.parse(file.table).map(({ name, offsetBytes, scaleOffsetBytes }) => {
    const { location, bits, inner, columns } = matrices.find((matrix) => matrix.name === name)!;
    const quantized = { bits, inner, columns, scaleOffsetBytes };
    const sizeBytes = countQuantizedBytes(quantized);
    return [name, { shape: location.shape, offsetBytes, sizeBytes, quantized }] as const;
  });
  return { kind: 'file', path: file.path, tensors: new Map(tensors), isForProducts: true };
}

const pageBytes = 4096;

type Table = z.infer<typeof tableSchema>;

async function writeMatrices(
  path: string,
  groups: readonly (readonly Matrix[])[],
  place: PlacePiece,
): Promise<Table> {
  const table: Table = [];
  const input = await open(path);
  try {
    for (const group of groups) {
      const parts: ReturnType<typeof quantize>[] = [];
      for (const matrix of group) parts.push(quantize(await readValues(input, matrix.location), matrix));
      let offsetBytes = await place(parts.map(({ quantized }) => quantized));
      let scaleOffsetBytes = await place(parts.map(({ scales }) => new Uint8Array(scales.buffer)));
      for (const [index, { quantized, scales }] of parts.entries()) {
        table.push({ name: group[index]!.name, offsetBytes, scaleOffsetBytes });
        offsetBytes += quantized.byteLength;
        scaleOffsetBytes += scales.byteLength;
      }
    }
  } finally {
    await input.close();
  }
  return table;
}

async function readValues(
  input: FileHandle,
  { offsetBytes, sizeBytes, dtype = 'float32' }: WeightLocation,
): Promise<Float32Array> {
  const bytes = new Uint8Array(sizeBytes);
  let done = 0;
  while (done < sizeBytes) {
    const { bytesRead } = await input.read(bytes, done, sizeBytes - done, offsetBytes + done);
    if (bytesRead === 0) throw new Error(`the weights end ${sizeBytes - done} bytes too early`);
    done += bytesRead;
  }
  return dtype === 'float32'
    ? new Float32Array(bytes.buffer)
    : decodeHalves(new Uint16Array(bytes.buffer), dtype);
}

/**
 * The value of largest magnitude in a block becomes -2^(bits - 1) exactly: that end of the range has one step more.
 * @returns quantized [column, block, 32 values, offset by 2^(bits - 1)]; scales [column, block]
 */
export function quantize(
  values: Float32Array, // [inner, column], or [column, inner]
  matrix: Pick<Matrix, 'inner' | 'columns' | 'bits' | 'innerFirst'>,
): { readonly quantized: Uint8Array; readonly scales: Float32Array } {
  const { inner, columns, bits, innerFirst } = matrix;
  const [innerStride, columnStride] = innerFirst ? [columns, 1] : [1, inner];
  const blocks = Math.ceil(inner / quantizedBlock);
  const zero = 2 ** (bits - 1);
  const scales = new Float32Array(countBlocks(matrix));
  const quantized = new Uint8Array(countQuantizedBytes(matrix));
  for (let column = 0; column < columns; column++) {
    for (let block = 0; block < blocks; block++) {
      const first = block * quantizedBlock;
      const count = Math.min(quantizedBlock, inner - first);
      const start = column * columnStride + first * innerStride;
      let extreme = 0;
      for (let index = 0; index < count; index++) {
        const value = values[start + index * innerStride]!;
        if (Math.abs(value) > Math.abs(extreme)) extreme = value;
      }
      const at = column * blocks + block;
      const scale = Math.fround(-extreme / zero);
      scales[at] = scale;
      for (let index = 0; index < quantizedBlock; index++) {
        const value = index < count ? values[start + index * innerStride]! : 0;
        const step = scale === 0 ? 0 : Math.round(value / scale);
        const code = Math.min(Math.max(step + zero, 0), 2 * zero - 1);
        const place = at * quantizedBlock + index;
        if (bits === 8) quantized[place] = code;
        else quantized[place >> 1]! |= code << (4 * (place & 1));
      }
    }
  }
  return { quantized, scales };
}
