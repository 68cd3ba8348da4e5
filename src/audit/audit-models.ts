import type { CacheOptions } from '../checkpoint/cache/weight-cache.js';
import { type Target, openTarget } from '../decode/target.js';
import { resolvePolicy } from '../draft/tree/grow-tree.js';
import { loadDrafter } from '../draft/systems.js';
import type { Runtime } from '../runtime/program.js';
import { type AuditRequest, parseFixedPolicy } from './audit-request.js';
import type { LoadedDrafter } from './arms/transfer.js';

export interface Models {
  readonly target: Target;
  readonly drafters: readonly LoadedDrafter[];
}

export async function openModels(
  request: AuditRequest,
  runtime: Runtime,
  cache: CacheOptions,
): Promise<Models> {
  const { targetFolder, settings, chatTemplate, date } = request;
  const template = { chat: settings.chat, chatTemplate, date };
  const target = await openTarget(targetFolder, { runtime, ...template, ...cache });
  const drafters: LoadedDrafter[] = [];
  for (const drafter of request.drafters) drafters.push(await openDrafter(request, drafter, target, cache));
  return { target, drafters };
}

export async function openDrafter(
  request: Pick<AuditRequest, 'taps'>,
  { id, folder, policy: text }: Pick<AuditRequest['drafters'][number], 'id' | 'folder' | 'policy'>,
  target: Target,
  cache: CacheOptions,
): Promise<LoadedDrafter> {
  const drafter = await loadDrafter(folder, {
    target: target.model,
    tokenizer: target.tokenizer,
    ...cache,
    taps: request.taps,
  });
  return { id, drafter, policy: resolvePolicy(parseFixedPolicy(text), drafter) };
}
