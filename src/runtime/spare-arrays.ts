/** Memory of former buffers and outputs on the host: clearing and collecting new arrays costs more than copying values. */
const spares = new Map<number, Float32Array[]>(); // [length], the latest given back last
/** 32 MB of all, and of one length as many as the lanes of a large batch give back at once. */
const [maxValues, maxOfLength] = [2 ** 23, 64];
let keptValues = 0;

/** Holds any values. */
export function takeArray(length: number): Float32Array {
  const spare = spares.get(length)?.pop();
  if (spare === undefined) return new Float32Array(length);
  keptValues -= length;
  return spare;
}

/** No one may read or write the array any more. */
export function keepArray(values: Float32Array): void {
  const { length } = values;
  const own = spares.get(length) ?? [];
  if (own.length === maxOfLength || length > maxValues / 4) return;
  own.push(values);
  keptValues += length;
  spares.delete(length);
  spares.set(length, own);
  for (const [oldest, arrays] of spares) {
    if (keptValues <= maxValues) return;
    keptValues -= oldest * arrays.length;
    spares.delete(oldest);
  }
}
