/** A native library of JavaScript functions that remembers its calls; what no handler answers succeeds. */
import type { Native, NativeLibrary, NativeValue } from '../../../../src/runtime/native-library.js';

export interface FakeLibrary extends NativeLibrary {
  readonly calls: (readonly [name: string, ...values: NativeValue[]])[];
}

export type Handlers = Readonly<Record<string, (...values: NativeValue[]) => unknown>>;

export function fakeLibrary(handlers: Handlers): FakeLibrary {
  const calls: [string, ...NativeValue[]][] = [];
  return {
    path: 'libfake.so',
    calls,
    bind: (prototype) => {
      const name = /(\w+)\(/.exec(prototype)![1]!;
      return (...values) => {
        calls.push([name, ...values]);
        return handlers[name]?.(...values) ?? 0;
      };
    },
  };
}

/** Writes through a pointer as C would, and succeeds. */
export function write(pointer: NativeValue | undefined, value: bigint | number): 0 {
  if (pointer instanceof BigUint64Array) pointer[0] = BigInt(value);
  else if (pointer instanceof Int32Array) pointer[0] = Number(value);
  else throw new Error('nothing to write to');
  return 0;
}

/** Memory at made-up addresses, and the texts that lie at others. */
export function fakeNative(
  texts: Readonly<Record<string, string>> = {},
): Native & { readonly freed: bigint[] } {
  const blocks = new Map<bigint, ArrayBuffer>();
  const freed: bigint[] = [];
  let next = 0x1000n;
  return {
    freed,
    open: () => fakeLibrary({}),
    allocate(bytes) {
      const address = next;
      next += 0x1_0000n;
      blocks.set(address, new ArrayBuffer(bytes));
      return address;
    },
    free(address) {
      freed.push(address);
    },
    view(address, bytes) {
      const block = blocks.get(address) ?? new ArrayBuffer(bytes);
      blocks.set(address, block);
      return block;
    },
    readString: (address) => texts[String(address)] ?? '',
    addressOf: () => 0n,
    bindAt: () => () => 0,
  };
}
