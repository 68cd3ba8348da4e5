/** The machine that numbers were measured on, and the version that measured them, as reports name both. */
import { readFileSync } from 'node:fs';
import { availableParallelism, cpus, totalmem, type as systemName } from 'node:os';
import { join } from 'node:path';
import { packageRoot } from '../decode/bundled-models.js';
import type { RecordedDevice } from '../runtime/device-choice.js';
import { processorDevice } from '../runtime/device-choice.js';

export interface Machine {
  /** What computed, and in which type; the processor, or a GPU beside it. */
  readonly device: RecordedDevice;
  readonly processor: string;
  readonly cores: number;
  readonly memoryBytes: number;
  readonly system: string;
  readonly architecture: string;
  readonly nodeVersion: string;
  readonly mistletoeVersion: string;
}

export function describeMachine(device: RecordedDevice = processorDevice): Machine {
  return {
    device,
    processor: cpus()[0]?.model.replace(/\s+/g, ' ').trim() ?? 'unknown processor',
    cores: availableParallelism(),
    memoryBytes: totalmem(),
    system: systemName(),
    architecture: process.arch,
    nodeVersion: process.version,
    mistletoeVersion: readVersion(),
  };
}

function readVersion(): string {
  const contents = JSON.parse(readFileSync(join(packageRoot, 'package.json'), 'utf8')) as { version: string };
  return contents.version;
}
