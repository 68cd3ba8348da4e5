/** A tiny target with its drafters in folders, and requests to audit them that take a second. */
import { join } from 'node:path';
import type { AuditPlan } from '../../src/audit/audit-request.js';
import { createRequest } from '../../src/audit/audit-request.js';
import type { AuditResult } from '../../src/audit/result.js';
import type { AuditOutcome } from '../../src/audit/run-audit.js';
import { resumeAudit, startAudit } from '../../src/audit/run-audit.js';
import type { AuditSettings } from '../../src/audit/settings.js';
import type { AuditOptions } from '../../src/audit/units/executors.js';
import type { AuditPrompt } from '../../src/audit/arms/audit-prompt.js';
import { preparePrompt } from '../../src/audit/arms/audit-prompt.js';
import { createObjective, type ObjectiveName } from '../../src/audit/search/objectives.js';
import type { PromptState } from '../../src/audit/search/prompt-state.js';
import { readPromptState } from '../../src/audit/search/prompt-state.js';
import { Scorer } from '../../src/audit/search/scoring.js';
import type { PassSettings, SearchPrograms } from '../../src/audit/search/search-programs.js';
import { compileSearch } from '../../src/audit/search/search-programs.js';
import { makeTemporaryFolder } from './checkpoint/temporary-folder.js';
import type { Target } from '../../src/decode/target.js';
import { openTarget } from '../../src/decode/target.js';
import type { Drafter } from '../../src/draft/drafter.js';
import { loadDrafter } from '../../src/draft/systems.js';
import { createOnnxRuntime } from '../../src/runtime/onnx/onnx-runtime.js';
import type { Runtime } from '../../src/runtime/program.js';
import { inlinePrompt } from '../../src/text/prompts/prompt-set.js';
import type { TinySizes } from './tiny-checkpoints.js';
import { tiny, writeDecoder, writeLetterTokenizer } from './tiny-checkpoints.js';
import { drafterVariants, hybridVariant, ngramVariant } from './tiny-drafters.js';

export const tinySettings = {
  suffixLength: 5,
  window: 8,
  shortestAnswer: 8,
  maxNewTokens: 20,
  temperature: 0,
  epsilon: 3,
  keep: 'distribution',
  draftDepth: 3,
  steps: 3,
  candidates: 8,
  topTokens: 8,
  moves: 2,
  merges: 2,
  starts: 2,
  finalists: 2,
  patience: 2,
  randomDraws: 2,
  chat: false,
} as const satisfies Partial<AuditSettings>;

/** The least that an audit can search. */
export const briefSettings = {
  controlSearches: false,
  steps: 1,
  candidates: 4,
  starts: 1,
  randomDraws: 1,
} as const satisfies Partial<AuditSettings>;

export interface LoadedPair {
  readonly target: Target;
  readonly drafter: Drafter;
}

export interface ScorerParts extends LoadedPair {
  readonly prompt: AuditPrompt;
  readonly programs: SearchPrograms;
  readonly state: PromptState;
  readonly scorer: Scorer;
}

export class TinyAudits {
  private readonly temporary = makeTemporaryFolder();
  readonly targetFolder: string;
  readonly cacheFolder: string;
  private count = 0;

  constructor(
    readonly sizes: TinySizes = tiny,
    pieces: Readonly<Record<number, string>> = {},
    private readonly runtime: Runtime = createOnnxRuntime({ threads: 1 }),
  ) {
    this.cacheFolder = join(this.temporary.path, 'cache');
    this.targetFolder = writeDecoder(join(this.temporary.path, 'target'), sizes);
    writeLetterTokenizer(this.targetFolder, sizes, pieces);
  }

  freshFolder(): string {
    return join(this.temporary.path, `folder-${(this.count += 1)}`);
  }

  writeDrafter(variant: string): string {
    const found = [...drafterVariants, ngramVariant, hybridVariant].find(({ name }) => name === variant);
    if (found === undefined) throw new Error(`There is no variant ${variant}.`);
    return found.write(this.freshFolder(), this.sizes);
  }

  async load(drafterFolder: string): Promise<LoadedPair> {
    const { runtime, cacheFolder } = this;
    const target = await openTarget(this.targetFolder, { runtime, cacheFolder, chat: false });
    const drafter = await loadDrafter(drafterFolder, { target: target.model, cacheFolder });
    return { target, drafter };
  }

  async openScorer(
    { target, drafter }: LoadedPair,
    text: string,
    objective: ObjectiveName = 'total-variation',
    changes: Partial<PassSettings & { readonly window: number }> = {},
  ): Promise<ScorerParts> {
    const models = { target: target.model, drafter };
    const prompt = await preparePrompt(target, inlinePrompt(text), { ...tinySettings, ...changes, seed: 0 });
    const depth = Math.min(tinySettings.draftDepth, drafter.maximumDepth);
    const programs = compileSearch(models, createObjective(objective, depth), {
      ...tinySettings,
      divergence: 'clean-to-suffixed',
      draftLevels: depth,
      ...changes,
    });
    const state = await readPromptState(models, prompt.beforeIds);
    const scorer = new Scorer(target, models, programs, prompt, state);
    return { target, drafter, prompt, programs, state, scorer };
  }

  plan(drafters: readonly string[], texts: readonly string[], more: Partial<AuditPlan> = {}): AuditPlan {
    return {
      target: this.targetFolder,
      drafters,
      draft: 'chain:3',
      prompts: texts.map((text, index) => ({ ...inlinePrompt(text), id: `p${index + 1}` })),
      threads: 1,
      cacheFolder: this.cacheFolder,
      ...more,
      settings: { ...tinySettings, ...more.settings },
    };
  }

  async start(plan: AuditPlan, folder: string, options: AuditOptions = {}): Promise<AuditOutcome> {
    return startAudit(folder, await createRequest(plan), { cacheFolder: this.cacheFolder, ...options });
  }

  /** A run folder in which nothing is measured yet. */
  async begin(plan: AuditPlan): Promise<string> {
    const folder = this.freshFolder();
    const { status } = await this.start(plan, folder, { signal: AbortSignal.abort() });
    if (status !== 'interrupted') throw new Error('The audit completed although it was aborted.');
    return folder;
  }

  async complete(plan: AuditPlan, folder = this.freshFolder()): Promise<AuditResult> {
    return resultOf(await this.start(plan, folder));
  }

  resume(folder: string, options: AuditOptions = {}): Promise<AuditOutcome> {
    return resumeAudit(folder, { cacheFolder: this.cacheFolder, ...options });
  }

  async dispose(): Promise<void> {
    await this.runtime.dispose();
    this.temporary.remove();
  }
}

export function resultOf(outcome: AuditOutcome): AuditResult {
  if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
  return outcome.result;
}
