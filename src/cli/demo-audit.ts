/** Act two: an audit of two bundled drafters, small enough to watch, that ends in a report. */
import { join, relative } from 'node:path';
import { createRequest } from '../audit/create-request.js';
import { startAudit } from '../audit/run-audit.js';
import { chooseRunFolder } from '../audit/run-folder.js';
import { packageRoot } from '../decode/bundled-models.js';
import { armLabels } from '../report/arm-names.js';
import { judge } from '../report/verdict.js';
import { writeReports } from '../report/write-reports.js';
import type { AuditResult, ArmName } from '../audit/result.js';
import { loadPrompts } from '../text/prompt-set.js';
import { createAuditProgress } from './audit-progress.js';
import type { Stage } from './demo-stage.js';
import { createWrapper, sayBars, sayHeading, stageWidth } from './demo-stage.js';
import { createProgress } from './progress.js';

/** Prompts on which the drafters do well: there is something to lose. */
const promptIds = ['code-1', 'code-2', 'maths-4'];
const drafters = ['sps', 'eagle3'];
/** A fraction of `standard`, and without its two control searches. */
const settings = {
  steps: 14,
  candidates: 16,
  buffer: 2,
  maxNewTokens: 48,
  controlSearches: false,
} as const;

export async function showAudit(stage: Stage, number: number): Promise<void> {
  const { say, flags, terminal, signal } = stage;
  sayHeading(stage, number, 'A few tokens that make the drafts fail');
  say('Speed hangs on target and drafter agreeing. The audit searches, with the weights');
  say('of both in hand, for a few tokens behind the prompt that make them disagree and');
  say('hardly move what the target itself says: two drafters, three prompts.');
  say();
  const all = await loadPrompts(join(packageRoot, 'examples/prompts.jsonl'));
  const cache = flags.cacheDir === undefined ? {} : { cacheFolder: flags.cacheDir };
  const request = await createRequest({
    prompts: all.filter(({ id }) => promptIds.includes(id)),
    drafters,
    preset: 'quick',
    settings,
    threads: flags.threads,
    command: 'mistletoe demo --act 2',
    ...cache,
  });
  const progress = createProgress('auto', terminal.stderr);
  const events = createAuditProgress(progress, { now: () => performance.now() });
  const outcome = await startAudit(flags.out ?? chooseRunFolder('runs', 'demo'), request, {
    events,
    signal,
    ...cache,
  }).finally(() => {
    progress.finish();
  });
  const { path } = outcome.folder;
  if (outcome.status === 'interrupted') {
    say(`Go on with: mistletoe audit --resume ${path}`);
    return;
  }
  const { result, timings } = outcome;
  const verdict = judge(result);
  const reports = await writeReports(path, result, timings, verdict);
  sayLengths(stage, result);
  say();
  const wrapper = createWrapper(stage.write, '', stageWidth);
  wrapper.add(`${stage.colors.bold(verdict.level)}: ${verdict.headline}`);
  wrapper.finish();
  say();
  say('Three prompts and a short search show how it works; they do not decide anything.');
  say('`mistletoe audit` does it with more prompts, longer searches and all controls.');
  say();
  say(`Report: ${stage.colors.bold(relative('.', reports.html))}`);
}

const shown: readonly ArmName[] = ['clean', 'random', 'fluent', 'attack'];

function sayLengths(stage: Stage, { drafters: results }: AuditResult): void {
  const { say, colors } = stage;
  say('Mean accepted length, tokens per step of the target');
  for (const { drafter, summary } of results) {
    say();
    say(drafter);
    const rows = summary.arms.filter(({ arm }) => shown.includes(arm));
    if (rows.length === 0) say('  no prompt could be audited');
    else
      sayBars(
        stage,
        rows.map(({ arm, meanAcceptedLength: { estimate } }) => ({
          name: armLabels[arm],
          figure: estimate.toFixed(2),
          value: estimate,
          paint: arm === 'attack' ? colors.red : colors.dim,
        })),
      );
  }
}
