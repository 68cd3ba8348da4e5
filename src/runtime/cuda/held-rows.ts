/**
 * How much of the device's memory is in rows that somebody holds, or held and let go of: what nobody holds any more comes
 * back through the collector, which sees objects of some hundred bytes and not the megabytes behind them. It is asked to
 * look whenever they have grown by so much since it last gave some back.
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

/** Of one growth: bytes at most, and how much of the device. */
const [mostBytes, shareOfDevice] = [512 << 20, 1 / 64];

export class HeldRows {
  private bytes = 0;
  private lowest = 0;
  private readonly step: number;

  constructor(
    totalBytes: number,
    private readonly collect: () => void = collectGarbage,
  ) {
    this.step = Math.min(mostBytes, totalBytes * shareOfDevice);
  }

  take(bytes: number): void {
    this.bytes += bytes;
    if (this.bytes - this.lowest < this.step) return;
    this.collect();
    // What was let go of is told of later, and what was not is here to stay.
    this.lowest = this.bytes;
  }

  giveBack(bytes: number): void {
    this.bytes -= bytes;
    this.lowest = Math.min(this.lowest, this.bytes);
  }
}

let collector: (() => void) | undefined;

function collectGarbage(): void {
  collector ??= findCollector();
  collector();
}

function findCollector(): () => void {
  try {
    setFlagsFromString('--expose-gc');
    return runInNewContext('gc') as () => void;
  } catch {
    // Then it looks when it pleases.
    return () => undefined;
  }
}
