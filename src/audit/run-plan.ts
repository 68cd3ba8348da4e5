/** An audit in one call: what `mistletoe audit` does, without its reports. */
import type { AuditPlan } from './create-request.js';
import { createRequest } from './create-request.js';
import type { AuditOptions, AuditOutcome, RunPlace } from './run-audit.js';
import { startAudit } from './run-audit.js';

/**
 * @example
 * const outcome = await runAudit('runs/first', { prompts: [inlinePrompt('Why is the sky blue?')], preset: 'quick' });
 */
export async function runAudit(
  place: RunPlace,
  plan: AuditPlan,
  options: AuditOptions = {},
): Promise<AuditOutcome> {
  const { cacheFolder, runtime, events } = options;
  // A runtime that is brought along computes where it computes, whatever else the machine has.
  const own = runtime === undefined ? {} : { device: runtime.name === 'cuda' ? 'cuda' : 'cpu' };
  const request = await createRequest({
    ...(cacheFolder === undefined ? {} : { cacheFolder }),
    onNotice: (message) => events?.onNotice?.(message),
    ...own,
    ...plan,
  });
  return startAudit(place, request, options);
}
