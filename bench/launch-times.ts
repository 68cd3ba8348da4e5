/**
 * What a run asks of a device, and how long each kind of it takes. Launches of one kind (a kernel and its grid, or a
 * product of one shape) are replayed together, all those of a run one after the other, so that weights are as far away
 * as in the run itself; the time of one is the time of all by their number, with what lies between two launches.
 */
import type { Address, Device } from '../src/runtime/cuda/driver/device.js';

export interface WatchedLaunch {
  readonly kind: string;
  /** What it reads of weights: allocations that begin where one of its arguments points. */
  readonly weightBytes: number;
  /** Operations of a product; 0 of what is no call of one. */
  readonly flops: number;
  readonly again: () => void;
}

/** Smaller allocations are no matrices. */
const smallestMatrix = 1 << 20;

export class WatchedDevice {
  readonly device: Device;
  private readonly sizes = new Map<Address, number>();
  /** While it is watched. */
  private launches: WatchedLaunch[] | undefined;

  constructor(own: Device) {
    this.device = {
      name: own.name,
      computeCapability: own.computeCapability,
      totalBytes: own.totalBytes,
      freeBytes: () => own.freeBytes(),
      allocate: (bytes) => {
        const address = own.allocate(bytes);
        this.sizes.set(address, bytes);
        return address;
      },
      free: (address) => {
        this.sizes.delete(address);
        own.free(address);
      },
      upload: (to, values) => {
        own.upload(to, values);
      },
      download: (from, into) => own.download(from, into),
      copy: (to, from, bytes) => {
        own.copy(to, from, bytes);
      },
      clear: (at, bytes) => {
        own.clear(at, bytes);
      },
      compile: (source) => own.compile(source),
      launch: (launch) => {
        const { kernel, grid, block } = launch;
        const kind = `${kernel.name} ${grid[0]} x ${block}`;
        this.note({ kind, flops: 0 }, launch.arguments.slice(1), () => {
          own.launch(launch);
        });
      },
      multiply: (product) => {
        const { rows, inner, columns, batch, left, right, result } = product;
        const stack = batch === 1 ? '' : `${batch} x `;
        const kind = `product ${stack}[${rows}, ${inner}, ${columns}] to ${result.type}`;
        const flops = 2 * batch * rows * inner * columns;
        this.note({ kind, flops }, [left.address, right.address], () => {
          own.multiply(product);
        });
      },
      record: (work) => own.record(work),
      replay: (recording) => {
        own.replay(recording);
      },
      synchronize: () => own.synchronize(),
      dispose: () => {
        own.dispose();
      },
    };
  }

  /** What `work` launches. */
  async watch(work: () => Promise<unknown>): Promise<readonly WatchedLaunch[]> {
    const launches: WatchedLaunch[] = [];
    this.launches = launches;
    await work();
    this.launches = undefined;
    return launches;
  }

  /** Microseconds of one replay of these launches. */
  async time(launches: readonly WatchedLaunch[], rounds: number): Promise<number> {
    const recording = this.device.record(() => {
      for (const { again } of launches) again();
    });
    this.device.replay(recording);
    await this.device.synchronize();
    const start = performance.now();
    for (let round = 0; round < rounds; round++) this.device.replay(recording);
    await this.device.synchronize();
    const time = ((performance.now() - start) * 1000) / rounds;
    recording.free();
    return time;
  }

  private note(
    what: Pick<WatchedLaunch, 'kind' | 'flops'>,
    pointers: readonly (Address | number)[],
    again: () => void,
  ): void {
    const weightBytes = pointers
      .map((pointer) => (typeof pointer === 'bigint' ? (this.sizes.get(pointer) ?? 0) : 0))
      .filter((bytes) => bytes >= smallestMatrix)
      .reduce((sum, bytes) => sum + bytes, 0);
    this.launches?.push({ ...what, weightBytes, again });
    again();
  }
}

/** One line for each kind of launch, those that take the most time first. */
export async function tabulate(
  watched: WatchedDevice,
  launches: readonly WatchedLaunch[],
  rounds: number,
): Promise<string[][]> {
  const kinds = new Map<string, WatchedLaunch[]>();
  for (const launch of launches) kinds.set(launch.kind, [...(kinds.get(launch.kind) ?? []), launch]);
  const measured = [];
  for (const [kind, own] of kinds) measured.push({ kind, own, time: await watched.time(own, rounds) });
  measured.sort((a, b) => b.time - a.time);
  const whole = await watched.time(launches, rounds);
  const sum = measured.reduce((total, { time }) => total + time, 0);
  const line = (kind: string, own: readonly WatchedLaunch[], time: number): string[] => {
    const bytes = own.reduce((total, { weightBytes }) => total + weightBytes, 0);
    const flops = own.reduce((total, launch) => total + launch.flops, 0);
    const isProduct = kind.startsWith('product');
    return [
      kind,
      String(own.length),
      (time / own.length).toFixed(2),
      time.toFixed(0),
      isProduct ? (bytes / 1e6).toFixed(0) : '',
      isProduct ? (bytes / time / 1e6).toFixed(2) : '',
      flops > 0 ? (flops / time / 1e6).toFixed(0) : '',
    ];
  };
  return [
    ['launch', 'times', 'us each', 'us', 'MB of weights', 'TB/s', 'TFLOP/s'],
    ...measured.map(({ kind, own, time }) => line(kind, own, time)),
    ['sum of kinds', String(launches.length), '', sum.toFixed(0), '', '', ''],
    ['all in their order', String(launches.length), '', whole.toFixed(0), '', '', ''],
  ];
}
