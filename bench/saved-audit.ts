/** An audit that a bench script needs: read where it is finished, gone on with where it was stopped, else run. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { AuditPlan } from '../src/audit/create-request.js';
import { createRequest } from '../src/audit/create-request.js';
import type { AuditResult, Interval } from '../src/audit/result.js';
import { resumeAudit, startAudit } from '../src/audit/run-audit.js';
import { bundledTarget, packageRoot } from '../src/decode/bundled-models.js';
import { generateText, openTarget } from '../src/decode/target.js';
import { judge } from '../src/report/audit/verdict.js';
import { writeReports } from '../src/report/audit/write-reports.js';
import { createOnnxRuntime } from '../src/runtime/onnx/onnx-runtime.js';
import type { Prompt } from '../src/text/prompts/prompt-set.js';
import { loadPrompts } from '../src/text/prompts/prompt-set.js';

export const promptSets = ['humaneval', 'gsm8k', 'mt-bench'] as const;

export async function runSavedAudit(path: string, plan: AuditPlan): Promise<AuditResult> {
  const finished = join(path, 'result.json');
  if (existsSync(finished)) return JSON.parse(readFileSync(finished, 'utf8')) as AuditResult;
  process.stderr.write(`${path}\n`);
  const outcome = existsSync(path)
    ? await resumeAudit(path)
    : await startAudit(path, await createRequest(plan));
  if (outcome.status !== 'complete') throw new Error('The audit was interrupted.');
  const { result, timings } = outcome;
  await writeReports(path, result, timings, judge(result));
  return result;
}

/** The first prompts of each set whose clean answers are long enough to audit; the others are named. */
export async function choosePrompts(perSet: number, shortest: number): Promise<Map<string, Prompt[]>> {
  const runtime = createOnnxRuntime();
  const target = await openTarget(bundledTarget, { runtime });
  const chosen = new Map<string, Prompt[]>();
  for (const set of promptSets) {
    const kept: Prompt[] = [];
    const passedOver: string[] = [];
    for (const prompt of await loadPrompts(set, { folder: join(packageRoot, '../shared/data') })) {
      if (kept.length === perSet) break;
      const { tokenIds } = await generateText(target, prompt.text, { maxNewTokens: shortest });
      if (tokenIds.length >= shortest) kept.push({ ...prompt, id: `${set}-${prompt.id}` });
      else passedOver.push(prompt.id);
    }
    chosen.set(set, kept);
    if (passedOver.length > 0)
      console.log(`${set}: passed over ${passedOver.join(', ')} (answers under ${shortest} tokens)`);
  }
  await runtime.dispose();
  return chosen;
}

export function dropText({ estimate, low, high }: Interval): string {
  const percent = (share: number): string => (100 * share).toFixed(0);
  return `${percent(estimate)} % [${percent(low)}, ${percent(high)}]`;
}
