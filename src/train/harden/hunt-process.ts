/** A worker of a hardening run, a process or a thread: keeps the target open, and the drafter of the round. */
import { openTarget } from '../../decode/target.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import type { RecordedDevice } from '../../runtime/device-choice.js';
import type { Runtime } from '../../runtime/program.js';
import { type ProcessHooks, type ProcessWork, serveUnits } from '../../runs/unit.js';
import type { HardenRequest } from './harden-request.js';
import { type HuntInput, HuntWorker } from './suffix-hunt.js';

export interface HuntSetup {
  readonly request: HardenRequest;
  readonly folder: string;
  readonly device: RecordedDevice;
  readonly cacheFolder?: string | undefined;
  readonly verifyCache?: boolean | undefined;
}

class HuntProcess implements ProcessWork {
  private runtime: Runtime | undefined;
  private worker: HuntWorker | undefined;

  constructor(
    private readonly setup: HuntSetup,
    private readonly onNotice: (message: string) => void,
  ) {}

  async prepare(input: unknown): Promise<void> {
    this.worker ??= await this.open();
    await this.worker.open(input as HuntInput);
  }

  async run(input: unknown, _done: ReadonlySet<string>, hooks: ProcessHooks): Promise<void> {
    const own = input as HuntInput;
    const data = await this.worker!.run(own);
    hooks.onPart({ key: own.prompt.id, data, steps: [], timing: null });
  }

  ask(): Promise<unknown> {
    return Promise.resolve(undefined);
  }

  async dispose(): Promise<void> {
    await this.runtime?.dispose();
  }

  private async open(): Promise<HuntWorker> {
    const { request, folder, device, cacheFolder, verifyCache } = this.setup;
    const { targetFolder, chatTemplate, date, from, threads } = request;
    const { onNotice } = this;
    const cache = { cacheFolder, verifyCache, taps: from.taps, onNotice };
    // Kept if the target cannot be opened, for the next try.
    this.runtime ??= await openRuntime(device, threads);
    const target = await openTarget(targetFolder, { runtime: this.runtime, chatTemplate, date, ...cache });
    return new HuntWorker(request, folder, target, cache);
  }
}

serveUnits((setup, onNotice) => new HuntProcess(setup as HuntSetup, onNotice));
