/** Values of a pickle (pickle.ts). */
import { formatShape, isSize, maximumRank, quote, refuse, type PlainDType } from '../stored-tensor.js';

export const storageNames: Readonly<Record<PlainDType, string>> = {
  F32: 'FloatStorage',
  F16: 'HalfStorage',
  BF16: 'BFloat16Storage',
  F64: 'DoubleStorage',
  I64: 'LongStorage',
  I32: 'IntStorage',
  U8: 'ByteStorage',
  BOOL: 'BoolStorage',
};

/** The globals that torch.save writes; "calling" one builds a description. */
const storageDTypes: ReadonlyMap<string, PlainDType> = new Map(
  Object.entries(storageNames).map(([dtype, name]) => [`torch.${name}`, dtype as PlainDType]),
);

const dictGlobal = 'collections.OrderedDict';
const tensorGlobal = 'torch._utils._rebuild_tensor_v2';
const parameterGlobal = 'torch._utils._rebuild_parameter';
const known: ReadonlySet<string> = new Set([
  ...storageDTypes.keys(),
  dictGlobal,
  tensorGlobal,
  parameterGlobal,
]);

type Damaged = (why: string) => Error;

export function requireKnownGlobal(name: string, source: string): string {
  if (known.has(name)) return name;
  throw refuse(
    `${source} asks for ${quote(name).slice(1, -1)}, which is not a tensor, dict or list; nothing was run`,
    'Do not load this file with tools that run pickles unless you trust its author. ' +
      'A file you trust can be saved again as a plain state dict or as safetensors.',
  );
}

export function openStorage(id: PickleValue, damaged: Damaged): PickledStorage {
  const [kind, type, key, location, elements] = isTuple(id) ? id.items : [];
  const dtype = isGlobal(type) ? storageDTypes.get(type.name) : undefined;
  if (kind !== 'storage' || dtype === undefined || typeof key !== 'string' || !isSize(elements)) {
    throw damaged('a storage reference is malformed');
  }
  if (typeof location !== 'string') throw damaged('a storage reference has no device');
  return { kind: 'storage', key, dtype, elements };
}

export function callGlobal(name: string, parameters: readonly PickleValue[], damaged: Damaged): PickleValue {
  const [first] = parameters;
  if (name === dictGlobal && first === undefined) return new Map();
  if (name === tensorGlobal) return rebuildTensor(parameters, damaged);
  if (name === parameterGlobal && isTensor(first)) return first;
  throw damaged(`it calls ${name} in a way torch.save does not`);
}

function rebuildTensor(parameters: readonly PickleValue[], damaged: Damaged): PickledTensor {
  const [storage, offset, shape, strides, , , metadata] = parameters;
  const dimensions = asSizes(shape);
  const steps = asSizes(strides);
  if (!isStorage(storage) || !isSize(offset) || dimensions?.length !== steps?.length) {
    throw damaged('a tensor description is malformed');
  }
  if (dimensions === undefined || steps === undefined) {
    const found = isTuple(shape) ? formatShape(shape.items.map((item) => typeof item)) : 'no tuple';
    throw damaged(`a tensor has ${found} for a shape, expected sizes`);
  }
  if (metadata !== undefined && metadata !== null) {
    throw damaged('a tensor carries extra metadata (conjugate or negated view)');
  }
  return { kind: 'tensor', storage, offset, shape: dimensions, strides: steps };
}

interface PickledStorage {
  readonly kind: 'storage';
  readonly key: string;
  readonly dtype: PlainDType;
  readonly elements: number;
}

export interface PickledTensor {
  readonly kind: 'tensor';
  readonly storage: PickledStorage;
  readonly offset: number; // in elements
  readonly shape: readonly number[];
  readonly strides: readonly number[]; // in elements
}

export type PickledDict = Map<string | number, PickleValue>;

type Described =
  | { readonly kind: 'global'; readonly name: string }
  | { readonly kind: 'tuple'; readonly items: readonly PickleValue[] }
  | PickledStorage
  | PickledTensor;

export type PickleValue = null | boolean | number | string | PickledDict | PickleValue[] | Described;

export function asSizes(value: PickleValue | undefined): number[] | undefined {
  if (!isTuple(value) || value.items.length > maximumRank) return undefined;
  const sizes = value.items.filter(isSize);
  return sizes.length === value.items.length ? sizes : undefined;
}

const isOf =
  <Kind extends Described['kind']>(kind: Kind) =>
  (value: PickleValue | undefined): value is Extract<Described, { readonly kind: Kind }> =>
    typeof value === 'object' && value !== null && 'kind' in value && value.kind === kind;

export const isTensor = isOf('tensor');
export const isTuple = isOf('tuple');
export const isGlobal = isOf('global');
const isStorage = isOf('storage');
