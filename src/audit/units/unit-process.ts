/** A worker of audits, a process or a thread: keeps the models of the last unit open for the next. */
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import { MistletoeError } from '../../core/errors.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import type { RecordedDevice } from '../../runtime/device-choice.js';
import type { Runtime } from '../../runtime/program.js';
import { type ProcessHooks, type ProcessWork, serveUnits } from '../../runs/unit.js';
import type { LoadedDrafter } from '../arms/transfer.js';
import { type Models, openModels, openDrafter } from '../audit-models.js';
import type { AuditRequest } from '../audit-request.js';
import { type Effort, estimateEffort } from '../effort.js';
import { type AuditUnitInput, toRequest } from './audit-unit.js';
import { hooksFor, type OpenedUnit, UnitRunner } from './unit-runner.js';

export interface ProcessSetup {
  /** Folders of models on this machine, by the hash of the model. */
  readonly folders: Readonly<Record<string, string>>;
  readonly device: RecordedDevice;
  readonly threads: number;
  readonly cacheFolder: string | null;
  readonly verifyCache: boolean;
}

interface OpenModels {
  readonly key: string;
  readonly target: Models['target'];
  readonly drafters: Map<string, LoadedDrafter>;
}

class AuditProcess implements ProcessWork {
  private runtime: Runtime | undefined;
  private models: OpenModels | undefined;
  private readonly runner = new UnitRunner((input) => this.open(input));
  private readonly cache: CacheOptions;

  constructor(
    private readonly setup: ProcessSetup,
    hooks: ProcessHooks,
  ) {
    this.cache = {
      ...(setup.cacheFolder === null ? {} : { cacheFolder: setup.cacheFolder }),
      verifyCache: setup.verifyCache,
      onNotice: hooks.onNotice,
    };
  }

  async prepare(input: unknown): Promise<void> {
    await this.open(input as AuditUnitInput);
  }

  run(input: unknown, done: ReadonlySet<string>, hooks: ProcessHooks): Promise<void> {
    return this.runner.run(input as AuditUnitInput, { ...hooks, ...hooksFor(hooks.onProgress) }, done);
  }

  /** Opens all models of a run. */
  async ask(question: unknown): Promise<Effort> {
    const request = question as AuditRequest;
    try {
      const { target, drafters } = await openModels(request, await this.openRuntime(), this.cache);
      return await estimateEffort(request, target, drafters);
    } finally {
      await this.dispose();
    }
  }

  async dispose(): Promise<void> {
    this.models = undefined;
    await this.runtime?.dispose();
  }

  private async openRuntime(): Promise<Runtime> {
    return (this.runtime = await openRuntime(this.setup.device, this.setup.threads));
  }

  private async open(input: AuditUnitInput): Promise<OpenedUnit> {
    const { target: wanted, drafter } = input.request;
    const folders = { target: this.folderOf(wanted), drafter: this.folderOf(drafter) };
    const request = toRequest(input, folders, this.setup.threads);
    const { settings, chatTemplate, date } = request;
    const key = JSON.stringify([wanted.sha256, settings.chat, chatTemplate, date, request.device]);
    if (this.models?.key !== key) {
      await this.runner.dispose();
      await this.dispose();
      // With the run's type, on this worker's device.
      const runtime = await this.openRuntime();
      const { target } = await openModels({ ...request, drafters: [] }, runtime, this.cache);
      this.models = { key, target, drafters: new Map() };
    }
    const { target, drafters } = this.models;
    const drafterKey = JSON.stringify([drafter.id, drafter.sha256, drafter.policy, request.taps]);
    let opened = drafters.get(drafterKey);
    if (opened === undefined) {
      opened = await openDrafter(request, request.drafters[0]!, target, this.cache);
      drafters.set(drafterKey, opened);
    }
    return { request, target, drafter: opened };
  }

  private folderOf({ name, sha256 }: { readonly name: string; readonly sha256: string }): string {
    const folder = this.setup.folders[sha256];
    if (folder !== undefined) return folder;
    throw new MistletoeError('usage', `This worker has no folder of the model ${name}.`, {
      hint: `A model with the identity ${sha256} was expected.`,
    });
  }
}

serveUnits((setup, hooks) => new AuditProcess(setup as ProcessSetup, hooks));
