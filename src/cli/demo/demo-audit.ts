/** Part two: an audit of the draft model on code and math prompts, short enough to watch, that ends in a report. */
import { relative } from 'node:path';
import type { ArmName, ArmResult, AuditResult, PromptResult } from '../../audit/result.js';
import { createRequest } from '../../audit/audit-request.js';
import { startAudit } from '../../audit/run-audit.js';
import { quoteWord } from '../../core/files.js';
import { armLabels } from '../../report/audit/audit-words.js';
import { judge } from '../../report/audit/verdict.js';
import { writeReports } from '../../report/audit/write-reports.js';
import { type Prompt, inlinePrompt } from '../../text/prompts/prompt-set.js';
import { createAuditProgress } from '../audit/audit-progress.js';
import { cacheOf, type MachineFlags } from '../common-flags.js';
import { wrap } from '../help.js';
import { createProgress } from '../progress.js';
import type { Target } from '../../decode/target.js';
import type { Colors, Terminal } from '../terminal.js';

/** Code and math prompts that the bundled model answers correctly. */
const texts = {
  reverse: 'Write a Python function that reverses a string.',
  vowels: 'Write a Python function that counts the vowels in a word.',
  prime: 'Write a Python function to check if a number is prime.',
  factorial: 'Write a Python function that computes the factorial of a number.',
  palindrome: 'Write a Python function that checks if a string is a palindrome.',
  fibonacci: 'Write a Python function that returns the n-th Fibonacci number.',
  apples:
    'Tom has 12 apples. He gives 5 to his sister and then buys 8 more. How many apples does he have now?',
} as const;

const demoPrompts: readonly Prompt[] = Object.entries(texts).map(([id, text]) => ({
  ...inlinePrompt(text),
  id,
}));

/** A shorter search than the quick preset, over more prompts: enough prompts to decide, in two minutes. */
const settings = {
  steps: 8,
  starts: 4,
  candidates: 6,
  finalists: 3,
  randomDraws: 1,
  maxNewTokens: 48,
  window: 48,
};

export async function showAudit(stage: Stage): Promise<void> {
  const { say, flags, terminal, signal } = stage;
  sayHeading(stage, 2, 'A few tokens that make the drafts fail');
  say('The speedup depends on how often target and drafter agree. With the weights of');
  say('both, the audit searches for a suffix that makes them disagree while the answer');
  say(`stays the same: one drafter, ${demoPrompts.length} code and math prompts.`);
  say();
  const cache = cacheOf(flags);
  const request = await createRequest({
    prompts: demoPrompts,
    drafters: ['sps'],
    preset: 'quick',
    settings,
    threads: flags.threads,
    device: flags.device,
    dtype: flags.dtype,
    command: 'mistletoe demo --act 2',
    ...cache,
  });
  const progress = createProgress('auto', terminal.stderr);
  const events = createAuditProgress(progress);
  const place = flags.out ?? { parent: 'runs', name: 'demo' };
  const outcome = await startAudit(place, request, { events, signal, ...cache }).finally(() => {
    progress.finish();
  });
  const { path } = outcome.folder;
  if (outcome.status === 'interrupted') {
    say(`Resume with: mistletoe audit --resume ${quoteWord(path)}`);
    return;
  }
  const { result, timings } = outcome;
  const verdict = judge(result);
  const reports = await writeReports(path, result, timings, verdict);
  sayLengths(stage, result);
  sayOneAnswer(stage, result);
  say();
  wrap(`${stage.colors.bold(verdict.level)}: ${verdict.headline}`, stageWidth).forEach(say);
  say();
  say('The target is a 12.5 M model trained to ignore stray text; its drafter was not.');
  say('Expect other numbers from your models.');
  say();
  say(`Report: ${stage.colors.bold(relative('.', reports.html))}`);
  say();
  say('Try next:');
  say('  npx mistletoe audit --target ./my-model --drafter ./my-drafter  your own pair');
  say('  npx mistletoe doctor localhost:8000  what draft metrics does my server expose?');
  say('  npx mistletoe bench --drafter sps    accepted length and speed without attack');
}

const shown: readonly ArmName[] = ['clean', 'random', 'fluent', 'undirected', 'attack'];

function sayLengths(stage: Stage, { drafters: results }: AuditResult): void {
  const { say, colors } = stage;
  say('Mean accepted length along the same answers, in tokens per target pass');
  for (const { summary } of results) {
    const rows = summary.arms.filter(({ arm }) => shown.includes(arm));
    if (rows.length === 0) say('  no prompt could be audited');
    else
      sayBars(
        say,
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
  readonly prompt: PromptResult;
  readonly clean: ArmResult;
  readonly attack: ArmResult;
}

/** The identical answer with the largest slowdown. */
function findExample({ drafters: results }: AuditResult): Example | undefined {
  const all = results.flatMap(({ prompts }) =>
    prompts.flatMap((prompt): Example[] => {
      const clean = prompt.arms.find(({ arm }) => arm === 'clean');
      const attack = prompt.arms.find(({ arm }) => arm === 'attack');
      const isSame = attack?.preservation.kept === 'identical' && attack.suffixIds.length > 0;
      return clean !== undefined && attack !== undefined && isSame ? [{ prompt, clean, attack }] : [];
    }),
  );
  const lossOf = ({ clean, attack }: Example): number => attack.sameAnswer.steps / clean.sameAnswer.steps;
  return all.sort((left, right) => lossOf(right) - lossOf(left))[0];
}

function sayOneAnswer(stage: Stage, result: AuditResult): void {
  const { say, colors } = stage;
  const example = findExample(result);
  if (example === undefined) return;
  const { prompt, clean, attack } = example;
  const wrapped = (text: string): void => {
    for (const line of wrap(text, stageWidth - 2)) say(`  ${line}`);
  };
  say();
  say('One of the prompts, with the suffix that the search found:');
  wrapped(`${prompt.prompt}${colors.cyan(attack.suffix)}`);
  say(`The answer, ${attack.answer.tokenIds.length} tokens, is the same with and without the suffix:`);
  wrapped(attack.answer.text.trim());
  for (const [name, { sameAnswer }] of [
    ['without', clean],
    ['with', attack],
  ] as const) {
    const marks = Array.from(sameAnswer.origins, (origin) =>
      origin === 'a' ? colors.green('▪') : colors.red('○'),
    ).join('');
    say(`  ${name}: ${sameAnswer.steps} target passes`);
    say(`  ${marks}`);
  }
  say(colors.dim('  ▪ accepted draft token   ○ token of the target'));
}

// Shared by the parts of the demo: the target, and output for 80 columns with and without color.
export const stageWidth = 80;

export interface DemoFlags extends MachineFlags {
  readonly act: '1' | '2' | undefined;
  readonly out: string | undefined;
}

export interface Stage {
  readonly terminal: Terminal;
  readonly target: Target;
  readonly flags: DemoFlags;
  /** Aborts after Ctrl-C, or if output can no longer be written. */
  readonly signal: AbortSignal;
  readonly colors: Colors;
  /** One line, or an empty one. */
  readonly say: (line?: string) => void;
}

export function sayHeading({ colors, say }: Stage, number: number, title: string): void {
  say();
  say(colors.bold(`${number}  ${title}`));
  say(colors.dim('─'.repeat(stageWidth)));
}

const barWidth = 32;

interface BarLine {
  readonly name: string;
  readonly figure: string;
  readonly value: number;
  readonly paint: (text: string) => string;
  readonly note?: string;
}

export function sayBars(say: Stage['say'], lines: readonly BarLine[]): void {
  const longest = (values: readonly string[]): number => Math.max(...values.map(({ length }) => length));
  const nameWidth = longest(lines.map(({ name }) => name));
  const figureWidth = longest(lines.map(({ figure }) => figure));
  const most = Math.max(...lines.map(({ value }) => value));
  for (const { name, figure, value, paint, note } of lines) {
    const length = most > 0 ? Math.max(1, Math.round((barWidth * value) / most)) : 0;
    const parts = [name.padEnd(nameWidth), figure.padStart(figureWidth), paint('█'.repeat(length))];
    say(`  ${[...parts, ...(note === undefined ? [] : [note])].join('  ')}`);
  }
}
