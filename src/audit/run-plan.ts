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
  const { cacheFolder } = options;
  const request = await createRequest({ ...(cacheFolder === undefined ? {} : { cacheFolder }), ...plan });
  return startAudit(place, request, options);
}
