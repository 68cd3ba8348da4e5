/**
 * A torch file (since torch 1.6) is a zip with one folder: `data.pkl` describes the tensors, `data/<key>` holds one
 * storage each. Several tensors may view one storage with offset and strides. A tensor may not have more elements
 * than its storage, which bounds the cost of reading it.
 */
import { readBytes, refuseGitPointer, withFile, type BinaryFile } from '../binary-file.js';
import { runPickle } from './pickle.js';
import { isTensor, type PickleValue, type PickledDict, type PickledTensor } from './pickle-value.js';
import type { StoredTensor } from '../stored-tensor.js';
import { bytesPerElement, countElements, formatShape, quote, refuse } from '../stored-tensor.js';
import { openZip, type ByteRange, type ZipFile } from './zip.js';

const maximumPickleBytes = 16 * 1024 * 1024;
const wrapperKeys: readonly string[] = ['state_dict', 'model_state_dict', 'model', 'module'];

interface TorchFile {
  readonly tensors: StoredTensor[];
  /** Numbers beside the tensors. */
  readonly numbers: ReadonlyMap<string, number>;
}

export const readTorchHeader = async (path: string): Promise<StoredTensor[]> =>
  (await readTorchFile(path)).tensors;

export function readTorchFile(path: string): Promise<TorchFile> {
  return withFile(path, async (file) => {
    await refuseOtherFormats(file);
    const zip = await openZip(file);
    const root = findRoot(file, zip);
    await checkByteOrder(file, zip, root);
    const pickle = await zip.read(`${root}data.pkl`, maximumPickleBytes);
    const dict = chooseStateDict(file, runPickle(pickle, `the pickle of ${file.path}`));
    const storages = new Map<string, ByteRange>();
    const tensors: StoredTensor[] = [];
    const numbers = new Map<string, number>();
    for (const [name, value] of dict) {
      if (typeof value === 'number') numbers.set(String(name), value);
      if (!isTensor(value)) continue;
      const { key } = value.storage;
      let storage = storages.get(key);
      if (storage === undefined) {
        storage = await zip.locate(`${root}data/${key}`);
        storages.set(key, storage);
      }
      tensors.push(placeTensor(file, String(name), value, storage));
    }
    return { tensors, numbers };
  });
}

async function refuseOtherFormats(file: BinaryFile): Promise<void> {
  const opening = await readBytes(file, 0, Math.min(file.sizeBytes, 32));
  refuseGitPointer(file, opening);
  const tarMark = file.sizeBytes >= 262 ? (await readBytes(file, 257, 5)).toString('latin1') : '';
  if ((opening[0] === 0x80 && opening[1] !== undefined && opening[1] <= 5) || tarMark === 'ustar') {
    throw refuse(
      `${file.path} is a torch file of the form used before torch 1.6 (no zip), which is not read`,
      'In Python: torch.save(torch.load(path, map_location="cpu"), path), with a file you trust.',
    );
  }
  if (opening.subarray(0, 2).toString('latin1') !== 'PK') {
    throw refuse(`${file.path} is not a torch zip file: it does not begin with "PK"`);
  }
}

/** With its slash; torch names it after the file. */
function findRoot(file: BinaryFile, { names }: ZipFile): string {
  const roots = names.flatMap((name) => {
    const match = /^([^/]+\/)?data\.pkl$/.exec(name);
    return match === null ? [] : [match[1] ?? ''];
  });
  const [root] = roots;
  if (root === undefined || roots.length > 1) {
    throw refuse(
      `${file.path} has ${roots.length} data.pkl entries, expected one`,
      'Save a state dict with torch.save, or use safetensors.',
    );
  }
  return root;
}

async function checkByteOrder(file: BinaryFile, zip: ZipFile, root: string): Promise<void> {
  if (!zip.names.includes(`${root}byteorder`)) return; // written since torch 2.1; before, always little
  const order = (await zip.read(`${root}byteorder`, 16)).toString('latin1');
  if (order !== 'little') {
    throw refuse(
      `${file.path} has byte order ${quote(order)}, expected "little"`,
      'Save it on a little-endian machine.',
    );
  }
}

/** The root, or the one dict under a usual wrapper key. */
function chooseStateDict(file: BinaryFile, root: PickleValue): PickledDict {
  const advice = 'Save the state dict itself: torch.save(model.state_dict(), path).';
  if (!(root instanceof Map)) throw refuse(`${file.path} does not hold a dict of tensors`, advice);
  const requireNames = (dict: PickledDict): PickledDict => {
    for (const [name, value] of dict)
      if (typeof name !== 'string' && isTensor(value))
        throw refuse(`${file.path} names a tensor ${name}, expected a string`, advice);
    return dict;
  };
  if (holdsTensors(root)) {
    const inner = [...root].find(([, value]) => value instanceof Map && holdsTensors(value));
    if (inner === undefined) return requireNames(root);
    const fault = `holds tensors and, under ${quote(String(inner[0]))}, a dict of tensors`;
    throw refuse(`${file.path} ${fault}`, advice);
  }
  const wrapped: [string, PickledDict][] = [];
  for (const key of wrapperKeys) {
    const value = root.get(key);
    if (value instanceof Map && holdsTensors(value)) wrapped.push([key, value]);
  }
  const [only] = wrapped;
  if (only === undefined || wrapped.length > 1) {
    const found =
      only === undefined ? 'no dict of tensors' : wrapped.map(([key]) => quote(key)).join(' and ');
    throw refuse(
      `${file.path} holds ${found}, expected tensors or one dict of them under ${wrapperKeys.join(', ')}`,
      advice,
    );
  }
  return requireNames(only[1]);
}

const holdsTensors = (dict: PickledDict): boolean => [...dict.values()].some(isTensor);

function placeTensor(
  file: BinaryFile,
  name: string,
  tensor: PickledTensor,
  storage: ByteRange,
): StoredTensor {
  const where = `tensor ${quote(name)} in ${file.path}`;
  const { dtype, elements } = tensor.storage;
  const itemBytes = bytesPerElement(dtype);
  if (elements * itemBytes !== storage.sizeBytes) {
    throw refuse(
      `${where} has a storage of ${storage.sizeBytes} bytes, but ${elements} elements of ${dtype} were announced`,
    );
  }
  const count = countElements(tensor.shape);
  if (count === undefined || count > elements) {
    throw refuse(
      `${where} has shape ${formatShape(tensor.shape)}, but its storage has only ${elements} elements`,
      'Save a contiguous copy of the tensor; expanded tensors are not read.',
    );
  }
  // Inexact for huge strides, which the check below refuses anyway.
  let reach = count === 0 ? 0 : 1;
  if (count > 0) tensor.shape.forEach((size, axis) => (reach += (size - 1) * tensor.strides[axis]!));
  if (!Number.isSafeInteger(reach) || tensor.offset + reach > elements) {
    throw refuse(`${where} reaches element ${tensor.offset + reach} of a storage of ${elements} elements`);
  }
  return {
    name,
    dtype,
    shape: tensor.shape,
    file: file.path,
    offsetBytes: storage.offsetBytes + tensor.offset * itemBytes,
    sizeBytes: reach * itemBytes,
    ...(isContiguous(tensor) ? {} : { strides: tensor.strides }),
  };
}

/** Axes of size 1 may have any stride. */
function isContiguous({ shape, strides }: PickledTensor): boolean {
  let expected = 1;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    if (shape[axis] === 0) return true;
    if (shape[axis] !== 1 && strides[axis] !== expected) return false;
    expected *= shape[axis]!;
  }
  return true;
}
