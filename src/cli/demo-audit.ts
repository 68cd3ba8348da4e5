/** Act two: an audit of two bundled drafters, small enough to watch, that ends in a report. */
import { join, relative } from 'node:path';
import type { ArmName } from '../audit/arms/arms.js';
import { createRequest } from '../audit/create-request.js';
import type { ArmResult, AuditResult, PromptResult } from '../audit/result.js';
import { startAudit } from '../audit/run-audit.js';
import { quoteWord } from '../core/display-paths.js';
import { packageRoot } from '../decode/bundled-models.js';
import { armLabels } from '../report/audit/arm-names.js';
import { judge } from '../report/audit/verdict.js';
import { writeReports } from '../report/audit/write-reports.js';
import { loadPrompts } from '../text/prompts/prompt-set.js';
import { createAuditProgress } from './audit-progress.js';
import { cacheOf } from './common-options.js';
import type { Stage } from './demo-stage.js';
import { createWrapper, sayBars, sayHeading, stageWidth } from './demo-stage.js';
import { createProgress } from './progress.js';

/** Code and maths: there the drafters do well, and the target's answers stand firm behind stray text. */
const promptIds = ['code-1', 'code-2', 'maths-4'];
const drafters = ['sps', 'eagle3'];

export async function showAudit(stage: Stage, number: number): Promise<void> {
  const { say, flags, terminal, signal } = stage;
  sayHeading(stage, number, 'A few tokens that make the drafts fail');
  say('Speed hangs on target and drafter agreeing. The audit searches, with the weights');
  say('of both in hand, for a few tokens behind the prompt that make them disagree while');
  say('the target gives the very same answer: two drafters, three prompts.');
  say();
  const all = await loadPrompts(join(packageRoot, 'examples/prompts.jsonl'));
  const cache = cacheOf(flags);
  const request = await createRequest({
    prompts: all.filter(({ id }) => promptIds.includes(id)),
    drafters,
    preset: 'quick',
    threads: flags.threads,
    device: flags.device,
    dtype: flags.dtype,
    command: 'mistletoe demo --act 2',
    ...cache,
  });
  const progress = createProgress('auto', terminal.stderr);
  const events = createAuditProgress(progress, { now: () => performance.now() });
  const place = flags.out ?? { parent: 'runs', name: 'demo' };
  const outcome = await startAudit(place, request, { events, signal, ...cache }).finally(() => {
    progress.finish();
  });
  const { path } = outcome.folder;
  if (outcome.status === 'interrupted') {
    say(`Go on with: mistletoe audit --resume ${quoteWord(path)}`);
    return;
  }
  const { result, timings } = outcome;
  const verdict = judge(result);
  const reports = await writeReports(path, result, timings, verdict);
  sayLengths(stage, result);
  sayOneAnswer(stage, result);
  say();
  const wrapper = createWrapper(stage.write, '', stageWidth);
  wrapper.add(`${stage.colors.bold(verdict.level)}: ${verdict.headline}`);
  wrapper.finish();
  say();
  say('Three prompts and a short search show how it works. They cannot decide whether a');
  say('drafter is fragile: that takes more prompts, and `mistletoe audit` takes them.');
  say();
  say(`Report: ${stage.colors.bold(relative('.', reports.html))}`);
}

const shown: readonly ArmName[] = ['clean', 'random', 'fluent', 'undirected', 'attack'];

function sayLengths(stage: Stage, { drafters: results }: AuditResult): void {
  const { say, colors } = stage;
  say('Tokens that a pass of the target brings, along the same answers');
  for (const { drafter, summary } of results) {
    say();
    say(drafter);
    const rows = summary.arms.filter(({ arm }) => shown.includes(arm));
    if (rows.length === 0) say('  no prompt could be audited');
    else
      sayBars(
        stage,
        rows.map(({ arm, sameAnswer: { estimate } }) => ({
          name: armLabels[arm],
          figure: estimate.toFixed(2),
          value: estimate,
          paint: arm === 'attack' ? colors.red : colors.dim,
        })),
      );
  }
}

interface Example {
  readonly drafter: string;
  readonly prompt: PromptResult;
  readonly clean: ArmResult;
  readonly attack: ArmResult;
}

/** The identical answer that lost most. */
function findExample({ drafters: results }: AuditResult): Example | undefined {
  const all = results.flatMap(({ drafter, prompts }) =>
    prompts.flatMap((prompt): Example[] => {
      const clean = prompt.arms.find(({ arm }) => arm === 'clean');
      const attack = prompt.arms.find(({ arm }) => arm === 'attack');
      const isSame = attack?.preservation.kept === 'identical' && attack.suffixIds.length > 0;
      return clean !== undefined && attack !== undefined && isSame
        ? [{ drafter, prompt, clean, attack }]
        : [];
    }),
  );
  const lossOf = ({ clean, attack }: Example): number => attack.sameAnswer.steps / clean.sameAnswer.steps;
  return all.sort((left, right) => lossOf(right) - lossOf(left))[0];
}

function sayOneAnswer(stage: Stage, result: AuditResult): void {
  const { say, colors } = stage;
  const example = findExample(result);
  if (example === undefined) return;
  const { drafter, prompt, clean, attack } = example;
  say();
  say(
    `One of them, ${drafter}, ${attack.answer.tokenIds.length} tokens that are the same with and without the suffix:`,
  );
  const wrapper = createWrapper(stage.write, '  ', stageWidth - 2);
  wrapper.add(`${prompt.prompt}${colors.cyan(attack.suffix)}`);
  wrapper.finish();
  for (const [name, { sameAnswer }] of [
    ['without', clean],
    ['with', attack],
  ] as const) {
    const marks = Array.from(sameAnswer.origins, (origin) =>
      origin === 'a' ? colors.green('▪') : colors.red('○'),
    ).join('');
    say(`  ${name}: ${sameAnswer.steps} passes`);
    say(`  ${marks}`);
  }
  say(colors.dim('  ▪ accepted draft   ○ a pass of the target'));
}
