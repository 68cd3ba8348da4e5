/** An audit from its request to its result: the campaign over drafters and prompts, in a folder that can be resumed. */
import { MistletoeError } from '../core/errors.js';
import { always } from '../decode/speculative.js';
import type { Target } from '../decode/target.js';
import { openTarget } from '../decode/target.js';
import { resolvePolicy } from '../draft/grow-tree.js';
import { loadDrafter } from '../draft/load-drafter.js';
import { parseDraftPolicy } from '../draft/policy.js';
import { describeMachine } from '../measure/machine.js';
import { createOnnxRuntime } from '../runtime/onnx/onnx-runtime.js';
import type { Prompt } from '../text/prompt-set.js';
import { listAllowedTokens } from './allowed-tokens.js';
import { preparePrompt } from './audit-prompt.js';
import type { AuditRequest } from './audit-request.js';
import { parseRequest } from './audit-request.js';
import type { LoadedDrafter } from './beyond-one-prompt.js';
import { measureTransfer, searchUniversal } from './beyond-one-prompt.js';
import type { AuditEvents } from './drafter-audit.js';
import { auditDrafter, unitsOf } from './drafter-audit.js';
import { identifyModel } from './identity.js';
import { Interrupted } from './prompt-audit.js';
import type { ArmTiming, AuditResult, AuditTimings, DrafterResult, UniversalResult } from './result.js';
import { resultSchema } from './result.js';
import { formatJson, refuseUsedFolder, RunFolder } from './run-folder.js';
import { summariseDrafter } from './summary.js';

export interface AuditOptions {
  readonly events?: AuditEvents;
  readonly signal?: AbortSignal;
  readonly cacheFolder?: string;
}

export type AuditOutcome =
  | {
      readonly status: 'complete';
      readonly result: AuditResult;
      readonly timings: AuditTimings;
      readonly folder: RunFolder;
    }
  | { readonly status: 'interrupted'; readonly folder: RunFolder };

export async function startAudit(
  path: string,
  request: AuditRequest,
  options: AuditOptions = {},
): Promise<AuditOutcome> {
  refuseUsedFolder(path);
  return runAudit(() => RunFolder.create(path, request), request, options);
}

/** Goes on with the saved request; models that have changed since are refused. */
export async function resumeAudit(path: string, options: AuditOptions = {}): Promise<AuditOutcome> {
  const { folder, config } = RunFolder.resume(path);
  const request = parseRequest(config, `config.json of ${path}`);
  for (const [where, { sha256 }] of [
    [request.targetFolder, request.target] as const,
    ...request.drafters.map((drafter) => [drafter.folder, drafter] as const),
  ]) {
    const now = await identifyModel(where, options.cacheFolder);
    if (now.sha256 !== sha256) {
      throw new MistletoeError('usage', `The model in ${where} has changed since this run began.`, {
        hint: 'Put the old files back, or start the audit anew in another folder.',
      });
    }
  }
  return runAudit(() => folder, request, options);
}

/** The folder is made once the models are known to load: what is refused leaves nothing behind. */
async function runAudit(
  openFolder: () => RunFolder,
  request: AuditRequest,
  options: AuditOptions,
): Promise<AuditOutcome> {
  const runtime = createOnnxRuntime({ threads: request.threads });
  const cache = options.cacheFolder === undefined ? {} : { cacheFolder: options.cacheFolder };
  const startMs = performance.now();
  let folder: RunFolder | undefined;
  try {
    const target = await openTarget(request.targetFolder, { runtime, chat: request.settings.chat, ...cache });
    const drafters = await loadDrafters(request, target, cache);
    folder = openFolder();
    const { results, universal } = await auditDrafters(folder, request, target, drafters, options);
    const transfer = request.transfer
      ? await measureTransfer(folder, target, drafters, results, (promptId) => {
          options.signal?.throwIfAborted();
          const prompt = request.prompts.find(({ id }) => id === promptId)! as Prompt;
          return preparePrompt(target, prompt, request.settings);
        })
      : null;
    const result: AuditResult = {
      schema: resultSchema,
      setup: describeSetup(request),
      drafters: results,
      transfer,
      universal,
    };
    const timings = collectTimings(folder, performance.now() - startMs);
    folder.write('result.json', formatJson(result));
    folder.write('timings.json', formatJson(timings));
    return { status: 'complete', result, timings, folder };
  } catch (cause) {
    const isInterruption = cause instanceof Interrupted || cause === options.signal?.reason;
    if (folder !== undefined && isInterruption) return { status: 'interrupted', folder };
    throw cause;
  } finally {
    await runtime.dispose();
  }
}

async function loadDrafters(
  request: AuditRequest,
  target: Target,
  cache: { cacheFolder?: string },
): Promise<LoadedDrafter[]> {
  const loaded: LoadedDrafter[] = [];
  for (const { id, folder, policy: text } of request.drafters) {
    const drafter = await loadDrafter(folder, {
      target: target.model,
      tokenizer: target.tokenizer,
      ...cache,
    });
    const policy = parseDraftPolicy(text);
    if (policy.kind === 'auto') {
      throw new MistletoeError('usage', 'An audit needs a fixed draft policy; "auto" depends on the clock.', {
        hint: 'Use for example --draft chain:4.',
      });
    }
    loaded.push({ id, drafter, policy: resolvePolicy(policy, drafter) });
  }
  return loaded;
}

async function auditDrafters(
  folder: RunFolder,
  request: AuditRequest,
  target: Target,
  drafters: readonly LoadedDrafter[],
  { events = {}, signal }: AuditOptions,
): Promise<{ results: DrafterResult[]; universal: UniversalResult[] }> {
  const { configuration } = target.model;
  const allowed = listAllowedTokens(target.tokenizer, configuration.vocabularySize, request.settings);
  const units = unitsOf(request);
  events.onStart?.(units);
  const count = { done: 0, total: units.length };
  const results: DrafterResult[] = [];
  const universal: UniversalResult[] = [];
  for (const { id, drafter, policy } of drafters) {
    target.model.setTaps(drafter.taps);
    const audit = {
      request,
      folder,
      target,
      id,
      drafter,
      policy: always(policy),
      allowed,
      events,
      signal,
      count,
    };
    const prompts = await auditDrafter(audit);
    results.push({ drafter: id, prompts, summary: summariseDrafter(prompts, request.seed) });
    const found = request.universal ? await searchUniversal(audit, policy) : undefined;
    if (found !== undefined) universal.push(found);
  }
  return { results, universal };
}

function describeSetup(request: AuditRequest): AuditResult['setup'] {
  const { version, node, target, preset, seed, settings, command, prompts } = request;
  return {
    version,
    node,
    target,
    drafters: request.drafters.map(({ name, parameterCount, sha256, id, system, policy }) => ({
      name,
      parameterCount,
      sha256,
      id,
      system,
      policy,
    })),
    preset,
    seed,
    options: {
      ...settings,
      threads: request.threads,
      transfer: request.transfer,
      universal: request.universal,
    },
    command,
    promptCount: prompts.length,
  };
}

function collectTimings(folder: RunFolder, searchMs: number): AuditTimings {
  const { processor, cores, architecture } = describeMachine();
  return {
    machine: `${processor} (${architecture}), ${cores} cores`,
    arms: folder.readTimings() as ArmTiming[],
    searchMs,
  };
}
