/**
 * Runs units of audits in this process. Models, compiled programs and the prepared prompt are kept for the next unit, which
 * is often one of the same prompt.
 */
import { z } from 'zod';
import { always } from '../../decode/policies/policy-chooser.js';
import type { Target } from '../../decode/target.js';
import { levelsOf } from '../../draft/tree/grow-tree.js';
import type { UnitPart } from '../../runs/unit.js';
import { preparePrompt } from '../arms/audit-prompt.js';
import { listAllowedTokens } from '../arms/controls.js';
import { auditArm, type DrafterAudit, preparePromptAudit, type TimedAudit } from '../arms/drafter-audit.js';
import { nameUnit, skipOf, unitKey } from '../arms/drafter-units.js';
import type { ArmKey } from '../arms/measure-arm.js';
import { type LoadedDrafter, measureTransfer, transferKey, transferName } from '../arms/transfer.js';
import { searchUniversal, universalKey, universalName } from '../arms/universal.js';
import type { AuditUnitInput, UnitName } from './audit-unit.js';
import type { AuditRequest } from '../audit-request.js';
import { type TracePoint, tracePointSchema } from '../result.js';
import { PassRows } from '../search/pass-rows.js';
import type { SearchPrograms } from '../search/search-programs.js';

export interface OpenedUnit {
  readonly request: AuditRequest;
  readonly target: Target;
  readonly drafter: LoadedDrafter;
}

export interface RunnerHooks {
  readonly signal?: AbortSignal | undefined;
  onPart(part: UnitPart): void;
  onStart(name: UnitName): void;
  onStep(name: UnitName, point: TracePoint, steps: number): void;
  /** `acceptedLength` is undefined if the unit was skipped. */
  onEnd(name: UnitName, acceptedLength: number | undefined): void;
  onNotice(message: string): void;
}

/** What units of one drafter share. */
interface Context {
  readonly key: string;
  readonly audit: Omit<DrafterAudit, 'request'>;
  readonly drafter: LoadedDrafter;
  readonly compiled: { programs?: SearchPrograms };
  prepared: { readonly key: string; readonly audit: TimedAudit } | undefined;
}

/** What units of one target share, whatever their drafter. */
interface SharedByTarget {
  readonly key: string;
  readonly target: Target;
  readonly allowed: Int32Array;
  readonly passRows: PassRows;
}

export class UnitRunner {
  private context: Context | undefined;
  private hooks: RunnerHooks | undefined;
  private shared: SharedByTarget | undefined;
  private steps: object[] = [];
  private timing: object | null = null;

  constructor(private readonly open: (input: AuditUnitInput) => Promise<OpenedUnit>) {}

  /** Parts in `done` are left out. One unit at a time. */
  async run(input: AuditUnitInput, hooks: RunnerHooks, done: ReadonlySet<string> = new Set()): Promise<void> {
    this.hooks = hooks;
    [this.steps, this.timing] = [[], null];
    const opened = await this.open(input);
    const context = await this.enter(input, opened);
    const { work } = input;
    if (work.kind === 'arms') await this.runArms(context, opened.request, work.arms, done);
    else if (work.kind === 'universal') await this.runUniversal(context, opened.request);
    else await this.runTransfer(opened, work.found, work.suffixes, done);
  }

  async dispose(): Promise<void> {
    const { context } = this;
    this.context = undefined;
    context?.prepared?.audit.scorer.dispose();
    await context?.compiled.programs?.dispose();
  }

  private async enter(input: AuditUnitInput, { request, target, drafter }: OpenedUnit): Promise<Context> {
    const key = JSON.stringify({ ...input.request, prompts: [], suffixes: [] });
    if (this.context?.key === key) return this.context;
    await this.dispose();
    const audit = {
      target,
      id: drafter.id,
      drafter: drafter.drafter,
      policy: always(drafter.policy),
      draftLevels: levelsOf(drafter.policy),
      ...this.sharedFor(target, request),
      signal: this.hooks?.signal,
      onStep: (step: object) => void this.steps.push(step),
      onTiming: (timing: object) => void (this.timing = timing),
      events: {
        onStep: (name: UnitName, point: TracePoint, steps: number) => this.hooks?.onStep(name, point, steps),
        onNotice: (message: string) => this.hooks?.onNotice(message),
      },
    };
    this.context = { key, audit, drafter, compiled: {}, prepared: undefined };
    return this.context;
  }

  private sharedFor(target: Target, { settings }: AuditRequest): Pick<DrafterAudit, 'allowed' | 'passRows'> {
    const key = String(settings.allowNonAscii);
    if (this.shared?.target !== target || this.shared.key !== key) {
      const { configuration, runtime } = target.model;
      const allowed = listAllowedTokens(target.tokenizer, configuration.vocabularySize, settings);
      const passRows = new PassRows(runtime, (message) => this.hooks?.onNotice(message));
      this.shared = { key, target, allowed, passRows };
    }
    const { allowed, passRows } = this.shared;
    return { allowed, passRows };
  }

  private async runArms(
    context: Context,
    request: AuditRequest,
    arms: readonly ArmKey[],
    done: ReadonlySet<string>,
  ): Promise<void> {
    const audit = { ...context.audit, request };
    const [prompt] = request.prompts;
    for (const arm of arms) {
      const key = unitKey(audit.id, prompt!.id, arm);
      if (done.has(key)) continue;
      const name = nameUnit(audit.id, prompt!.id, arm);
      this.hooks?.signal?.throwIfAborted();
      this.hooks?.onStart(name);
      const data = await auditArm(audit, prompt!, arm, () => this.prepare(context, audit));
      this.finish(key, data);
      this.hooks?.onEnd(name, 'result' in data ? data.result.sameAnswer.meanAcceptedLength : undefined);
      if (skipOf(arm, data) !== null) return;
    }
  }

  private async prepare(context: Context, audit: DrafterAudit): Promise<TimedAudit> {
    const { prompts, suffixes } = audit.request;
    const key = JSON.stringify([prompts, suffixes]);
    if (context.prepared?.key === key) return context.prepared.audit;
    context.prepared?.audit.scorer.dispose();
    context.prepared = undefined;
    const prepared = await preparePromptAudit(audit, prompts[0]!, context.compiled);
    context.prepared = { key, audit: prepared };
    return prepared;
  }

  private async runUniversal(context: Context, request: AuditRequest): Promise<void> {
    const { audit, drafter } = context;
    const name = universalName(audit.id);
    this.hooks?.signal?.throwIfAborted();
    // It compiles its own programs; both at once need not fit into memory.
    await this.dispose();
    this.hooks?.onStart(name);
    const found = await searchUniversal({ ...audit, request }, drafter.policy);
    this.finish(universalKey(audit.id), found ?? null);
    this.hooks?.onEnd(name, found?.trained.attackedAcceptedLength);
  }

  private async runTransfer(
    { request, target, drafter }: OpenedUnit,
    found: string,
    suffixes: readonly (readonly number[])[],
    done: ReadonlySet<string>,
  ): Promise<void> {
    const keyOf = (promptId: string): string => transferKey(found, drafter.id, promptId);
    const isOpen = request.prompts.map(({ id }) => !done.has(keyOf(id)));
    const name = transferName(found, drafter.id);
    this.hooks?.signal?.throwIfAborted();
    this.hooks?.onStart(name);
    await measureTransfer({
      target,
      request: { ...request, prompts: request.prompts.filter((_, index) => isOpen[index]) },
      measured: drafter,
      suffixes: suffixes.filter((_, index) => isOpen[index]),
      prepare: (prompt) => preparePrompt(target, prompt, { ...request.settings, seed: request.seed }),
      onCounts: (promptId, counts) => {
        this.finish(keyOf(promptId), counts);
      },
    });
    this.hooks?.onEnd(name, undefined);
  }

  private finish(key: string, data: unknown): void {
    const part = { key, data, steps: this.steps, timing: this.timing };
    [this.steps, this.timing] = [[], null];
    this.hooks?.onPart(asJson(part));
  }
}

/** As it will be read back, so that no unit depends on where it ran. */
function asJson(part: { readonly [Name in keyof UnitPart]: unknown }): UnitPart {
  return JSON.parse(JSON.stringify(part)) as UnitPart;
}

// Progress of a unit on its way from a worker to the display. Through a queue it is untrusted, like everything else.
const name = z.object({ drafter: z.string(), prompt: z.string(), arm: z.string() });

export const progressSchema = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('start'), name }),
  z.object({ kind: z.literal('step'), name, point: tracePointSchema, steps: z.number() }),
  z.object({ kind: z.literal('end'), name, acceptedLength: z.number().nullable() }),
]);
type UnitProgress = Readonly<z.infer<typeof progressSchema>>;

/** The hooks of a runner whose progress goes through one function. */
export function hooksFor(
  send: (progress: UnitProgress) => void,
): Pick<RunnerHooks, 'onStart' | 'onStep' | 'onEnd'> {
  return {
    onStart: (name) => {
      send({ kind: 'start', name: { ...name } });
    },
    onStep: (name, point, steps) => {
      send({ kind: 'step', name: { ...name }, point: { ...point }, steps });
    },
    onEnd: (name, acceptedLength) => {
      send({ kind: 'end', name: { ...name }, acceptedLength: acceptedLength ?? null });
    },
  };
}
