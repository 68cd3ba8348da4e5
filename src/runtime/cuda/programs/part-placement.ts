/** Places rows of a stored tensor into a weight on the device, which converts and transposes them. */
import type { DeviceMemory } from '../driver/device-memory.js';
import type { Address, FloatType, KernelModule } from '../driver/device.js';
import { bytesOf } from '../kernels/element-size.js';
import { halfCode } from '../kernels/half-code.js';

export interface PlacedRows {
  readonly bytes: Uint8Array; // [rows, columns]
  readonly type: FloatType;
  readonly rows: number;
  readonly columns: number;
  /** Address of the first value, and stride between rows of the weight. */
  readonly to: Address;
  readonly width: number;
  readonly wanted: FloatType;
  readonly isTransposed: boolean;
}

const words: Readonly<
  Record<FloatType, { readonly type: string; readonly from: string; readonly to: string }>
> = {
  float32: { type: 'float', from: '', to: '' },
  bfloat16: { type: 'unsigned short', from: 'fromBfloat16', to: 'toBfloat16' },
  float16: { type: 'unsigned short', from: 'fromFloat16', to: 'toFloat16' },
};

/** Adjacent threads write adjacent values; scattered reads hit the cache. */
function writeSource(stored: FloatType, wanted: FloatType): string {
  const value =
    stored === wanted ? 'from[source]' : `${words[wanted].to}(${words[stored].from}(from[source]))`;
  return `${halfCode}
extern "C" __global__ void place(${words[wanted].type}* to, const ${words[stored].type}* from, int rows, int columns, int width, int isTransposed) {
  const long long total = (long long)rows * columns;
  const int inner = isTransposed ? rows : columns;
  for (long long at = blockIdx.x * (long long)blockDim.x + threadIdx.x; at < total; at += (long long)gridDim.x * blockDim.x) {
    const long long line = at / inner;
    const long long offset = at % inner;
    const long long source = isTransposed ? offset * columns + line : at;
    to[line * width + offset] = ${value};
  }
}
`;
}

/** Smaller pieces share one staging allocation. */
const usualBytes = 8 * 1024 * 1024;

export class PartPlacement {
  private readonly modules = new Map<string, KernelModule>();

  constructor(private readonly memory: DeviceMemory) {}

  place({ bytes, type, rows, columns, to, width, wanted, isTransposed }: PlacedRows): void {
    const isInPlace = type === wanted && !isTransposed && (columns === width || rows === 1);
    if (isInPlace) {
      this.memory.upload(to, bytes);
      return;
    }
    const staging = this.memory.take(Math.max(usualBytes, bytes.byteLength));
    try {
      this.memory.upload(staging.address, bytes);
      this.memory.device.launch({
        kernel: this.findModule(type, wanted).kernel('place'),
        grid: [Math.max(1, Math.min(65_535, Math.ceil((rows * columns) / 256))), 1, 1],
        block: 256,
        arguments: [to, staging.address, rows, columns, width, isTransposed ? 1 : 0],
      });
    } finally {
      // The next user writes after this kernel, on the same stream.
      staging.free();
    }
  }

  dispose(): void {
    for (const module of this.modules.values()) module.unload();
    this.modules.clear();
  }

  private findModule(stored: FloatType, wanted: FloatType): KernelModule {
    const key = `${stored} ${wanted}`;
    const known = this.modules.get(key);
    if (known !== undefined) return known;
    const module = this.memory.device.compile(writeSource(stored, wanted));
    this.modules.set(key, module);
    return module;
  }
}

export const addressOf = (weight: Address, type: FloatType, index: number): Address =>
  weight + BigInt(index * bytesOf(type));
