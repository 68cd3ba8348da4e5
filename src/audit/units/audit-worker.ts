/**
 * Runs units of audits: in this thread, in a thread of its own or in a process. Models, compiled programs and the prepared
 * prompt are kept for the next unit, which is often one of the same prompt.
 */
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import { MistletoeError } from '../../core/errors.js';
import { always } from '../../decode/policies/policy-chooser.js';
import { openTarget, type Target } from '../../decode/target.js';
import { loadDrafter } from '../../draft/systems.js';
import { levelsOf, resolvePolicy } from '../../draft/tree/policy.js';
import type { ProcessHooks, ProcessWork, UnitPart } from '../../runs/unit.js';
import { openRuntime } from '../../runtime/create-runtime.js';
import type { RecordedDevice } from '../../runtime/device-choice.js';
import type { Runtime } from '../../runtime/program.js';
import { listAllowedTokens } from '../arms/controls.js';
import type { DrafterAudit, LoadedDrafter } from '../arms/drafter-audit.js';
import { auditArm, preparePromptAudit } from '../arms/drafter-audit.js';
import { nameUnit, skipOf, unitKey } from '../arms/drafter-units.js';
import type { ArmKey } from '../arms/measure-arm.js';
import type { PromptAudit } from '../arms/prompt-audit.js';
import { measureTransfer, transferKey, transferName } from '../arms/transfer.js';
import { searchUniversal, universalKey, universalName } from '../arms/universal.js';
import { type AuditRequest, parseFixedPolicy } from '../audit-request.js';
import { type Effort, estimateEffort } from '../effort.js';
import type { TracePoint } from '../result.js';
import { PassRows } from '../search/pass-rows.js';
import { compileAudit, type SearchPrograms } from '../search/search-programs.js';
import type { AuditSettings } from '../settings.js';
import { type AuditUnitInput, shareRequest, type UnitName, type UnitProgress } from './audit-unit.js';

/** JSON: workers in processes get it in a message. */
export interface WorkerSetup extends Pick<CacheOptions, 'cacheFolder' | 'verifyCache'> {
  /** Folders of models on this machine, by the hash of the model. */
  readonly folders: Readonly<Record<string, string>>;
  readonly device: RecordedDevice;
  readonly threads: number;
}

export interface WorkerOptions {
  readonly onNotice: (message: string) => void;
  /** Used and left open; by default the worker opens its own. */
  readonly runtime?: Runtime | undefined;
  readonly signal?: AbortSignal | undefined;
}

type WantedDrafter = Omit<AuditUnitInput['request']['drafter'], 'system' | 'parameterCount'>;

/** What the units of one run share. */
interface OpenedRun {
  readonly key: string;
  readonly target: Target;
  readonly drafters: Map<string, LoadedDrafter>;
  readonly allowed: Int32Array;
  readonly passRows: PassRows;
}

export class AuditWorker implements ProcessWork {
  private ownRuntime: Runtime | undefined;
  private opened: OpenedRun | undefined;
  private compiled: { readonly drafter: LoadedDrafter; readonly programs: SearchPrograms } | undefined;
  private prepared: { readonly key: string; readonly audit: PromptAudit } | undefined;
  private hooks: ProcessHooks | undefined;
  private steps: object[] = [];
  private timing: object | null = null;

  constructor(
    private readonly setup: WorkerSetup,
    private readonly options: WorkerOptions,
  ) {}

  /** Opens all models of a run and measures their speed. */
  async ask(question: unknown): Promise<Effort> {
    const request = question as AuditRequest;
    const run = await this.openRun(shareRequest(request));
    const drafters: LoadedDrafter[] = [];
    for (const wanted of request.drafters) drafters.push(await this.openDrafter(run, wanted, request));
    return estimateEffort(request, run.target, drafters);
  }

  async prepare(input: unknown): Promise<void> {
    await this.openUnit(input as AuditUnitInput);
  }

  /** Parts in `done` are left out. One unit at a time. */
  async run(input: unknown, done: ReadonlySet<string>, hooks: ProcessHooks): Promise<void> {
    const unit = input as AuditUnitInput;
    const audit = await this.openUnit(unit);
    this.hooks = hooks;
    [this.steps, this.timing] = [[], null];
    const { work } = unit;
    if (work.kind === 'arms') await this.runArms(audit, work.arms, done);
    else if (work.kind === 'universal') await this.runUniversal(audit);
    else await this.runTransfer(audit, work.found, work.suffixes, done);
  }

  /** Frees everything, once no unit runs. */
  async close(): Promise<void> {
    await this.forgetDrafter();
    await this.dispose();
  }

  async dispose(): Promise<void> {
    const { ownRuntime } = this;
    [this.opened, this.ownRuntime] = [undefined, undefined];
    await ownRuntime?.dispose();
  }

  private async openRun(shared: ReturnType<typeof shareRequest>): Promise<OpenedRun> {
    const key = JSON.stringify(shared);
    if (this.opened?.key === key) return this.opened;
    await this.close();
    const { options, setup } = this;
    const { target: wanted, settings, chatTemplate, date } = shared;
    const { chat } = settings;
    const folder = this.folderOf(wanted);
    const runtime = options.runtime ?? (this.ownRuntime = await openRuntime(setup.device, setup.threads));
    const target = await openTarget(folder, { runtime, chat, chatTemplate, date, ...this.cache() });
    const allowed = listAllowedTokens(target.tokenizer, target.model.configuration.vocabularySize, settings);
    const passRows = new PassRows(runtime, options.onNotice);
    return (this.opened = { key, target, drafters: new Map(), allowed, passRows });
  }

  private async openDrafter(
    { target, drafters }: OpenedRun,
    wanted: WantedDrafter,
    { taps }: Pick<AuditRequest, 'taps'>,
  ): Promise<LoadedDrafter> {
    const { id, sha256, policy: text } = wanted;
    const key = JSON.stringify([id, sha256, text]);
    const known = drafters.get(key);
    if (known !== undefined) return known;
    const { model, tokenizer } = target;
    const folder = this.folderOf(wanted);
    const drafter = await loadDrafter(folder, { target: model, tokenizer, ...this.cache(), taps });
    const policy = resolvePolicy(parseFixedPolicy(text), drafter);
    const loaded = { id, drafter, policy: always(policy), draftLevels: levelsOf(policy) };
    drafters.set(key, loaded);
    return loaded;
  }

  private async openUnit({ request }: AuditUnitInput): Promise<DrafterAudit> {
    const { drafter: wanted, prompts: _, suffixes: _given, ...shared } = request;
    const run = await this.openRun(shared);
    const loaded = await this.openDrafter(run, wanted, shared);
    if (this.compiled?.drafter !== loaded) await this.forgetDrafter();
    const { target, allowed, passRows } = run;
    return {
      ...loaded,
      request,
      models: [request.target, wanted].map((model) => ({ ...model, folder: this.folderOf(model) })),
      target,
      allowed,
      passRows,
      programs: () => this.compile(target, loaded, request.settings),
      signal: this.options.signal,
      onStep: (name, point) => {
        this.noteStep(name, point, request.settings.steps);
      },
      onTiming: (timing) => void (this.timing = timing),
      onNotice: this.options.onNotice,
    };
  }

  private cache(): CacheOptions {
    const { cacheFolder, verifyCache } = this.setup;
    return { cacheFolder, verifyCache, onNotice: this.options.onNotice };
  }

  private folderOf({ name, sha256 }: { readonly name: string; readonly sha256: string }): string {
    const folder = this.setup.folders[sha256];
    if (folder !== undefined) return folder;
    throw new MistletoeError('usage', `This worker has no folder of the model ${name}.`, {
      hint: `A model with the identity ${sha256} was expected.`,
    });
  }

  private compile({ model }: Target, drafter: LoadedDrafter, settings: AuditSettings): SearchPrograms {
    const models = { target: model, drafter: drafter.drafter };
    this.compiled ??= { drafter, programs: compileAudit(models, settings, drafter.draftLevels) };
    return this.compiled.programs;
  }

  private async forgetDrafter(): Promise<void> {
    const { compiled } = this;
    this.forgetPrompt();
    this.compiled = undefined;
    await compiled?.programs.dispose();
  }

  private forgetPrompt(): void {
    this.prepared?.audit.scorer.dispose();
    this.prepared = undefined;
  }

  private async runArms(
    audit: DrafterAudit,
    arms: readonly ArmKey[],
    done: ReadonlySet<string>,
  ): Promise<void> {
    const [prompt] = audit.request.prompts;
    for (const arm of arms) {
      const key = unitKey(audit.id, prompt!.id, arm);
      if (done.has(key)) continue;
      const name = nameUnit(audit.id, prompt!.id, arm);
      this.start(name);
      const data = await auditArm(audit, prompt!, arm, () => this.preparePrompt(audit));
      this.finish(key, data);
      const acceptedLength = 'result' in data ? data.result.sameAnswer.meanAcceptedLength : null;
      this.report({ kind: 'end', name, acceptedLength });
      if (skipOf(arm, data) !== null) return;
    }
  }

  private async preparePrompt(audit: DrafterAudit): Promise<PromptAudit> {
    const { prompts, suffixes } = audit.request;
    const key = JSON.stringify([prompts, suffixes]);
    if (this.prepared?.key !== key) {
      this.forgetPrompt();
      this.prepared = { key, audit: await preparePromptAudit(audit, prompts[0]!) };
    }
    return this.prepared.audit;
  }

  private async runUniversal(audit: DrafterAudit): Promise<void> {
    const name = universalName(audit.id);
    this.start(name);
    this.forgetPrompt();
    const found = await searchUniversal(audit);
    this.finish(universalKey(audit.id), found ?? null);
    this.report({ kind: 'end', name, acceptedLength: found?.trained.attackedAcceptedLength ?? null });
  }

  private async runTransfer(
    audit: DrafterAudit,
    found: string,
    suffixes: readonly (readonly number[])[],
    done: ReadonlySet<string>,
  ): Promise<void> {
    const { request, id } = audit;
    const keyOf = (promptId: string): string => transferKey(found, id, promptId);
    const isOpen = request.prompts.map((prompt) => !done.has(keyOf(prompt.id)));
    const prompts = request.prompts.filter((_, index) => isOpen[index]);
    const open = suffixes.filter((_, index) => isOpen[index]);
    const name = transferName(found, id);
    this.start(name);
    await measureTransfer({ ...audit, request: { ...request, prompts } }, open, (promptId, counts) => {
      this.finish(keyOf(promptId), counts);
    });
    this.report({ kind: 'end', name, acceptedLength: null });
  }

  private start(name: UnitName): void {
    this.options.signal?.throwIfAborted();
    this.report({ kind: 'start', name });
  }

  private report(progress: UnitProgress): void {
    this.hooks?.onProgress(progress);
  }

  private noteStep(name: UnitName, point: TracePoint, steps: number): void {
    const { drafter, prompt, arm } = name;
    const isUniversal = arm === 'universal';
    const line = isUniversal ? { promptId: 'universal', arm: 'attack' } : { promptId: prompt, arm };
    this.steps.push({ drafter, ...line, ...point });
    this.report({ kind: 'step', name, point, steps });
  }

  private finish(key: string, data: unknown): void {
    const part = { key, data, steps: this.steps, timing: this.timing };
    [this.steps, this.timing] = [[], null];
    // As it will be read back, so that no unit depends on where it ran.
    this.hooks?.onPart(JSON.parse(JSON.stringify(part)) as UnitPart);
  }
}
