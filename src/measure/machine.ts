/** The machine and the version that numbers were measured with. */
import { availableParallelism, cpus, totalmem, type as systemName } from 'node:os';
import { readVersion } from '../decode/bundled-models.js';
import { processorDevice, type RecordedDevice } from '../runtime/device-choice.js';

export interface Machine {
  /** The processor or a GPU, and the compute type. */
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
