/** An audit that a bench script needs: read where it is finished, gone on with where it was stopped, else run. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditPlan } from '../src/audit/create-request.js';
import { createRequest } from '../src/audit/create-request.js';
import type { AuditResult, Interval } from '../src/audit/result.js';
import { resumeAudit, startAudit } from '../src/audit/run-audit.js';

export async function runSavedAudit(path: string, plan: AuditPlan): Promise<AuditResult> {
  const finished = join(path, 'result.json');
  if (existsSync(finished)) return JSON.parse(readFileSync(finished, 'utf8')) as AuditResult;
  process.stderr.write(`${path}\n`);
  const outcome = existsSync(path)
    ? await resumeAudit(path)
    : await startAudit(path, await createRequest(plan));
  if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
  return outcome.result;
}

export function dropText({ estimate, low, high }: Interval): string {
  const percent = (share: number): string => (100 * share).toFixed(0);
  return `${percent(estimate)} % [${percent(low)}, ${percent(high)}]`;
}
