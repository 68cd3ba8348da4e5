import { join, relative } from 'node:path';
import { createRequest } from '../audit/audit-request.js';
import type { AuditResult } from '../audit/result.js';
import { startAudit } from '../audit/run-audit.js';
import { MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/files.js';
import { oneOf, text } from '../core/settings.js';
import { bundledDrafterFolder, bundledTarget, packageRoot } from '../core/package-files.js';
import { settleDevice } from '../decode/gpu-fit.js';
import type { Generation } from '../decode/request.js';
import { generateSpeculatively } from '../decode/generate.js';
import { generateText } from '../decode/generate.js';
import { openTarget, type Target } from '../decode/target.js';
import { loadDrafter } from '../draft/systems.js';
import { median } from '../report/audit/timing-summary.js';
import { judge } from '../report/audit/verdict.js';
import { writeReports } from '../report/audit/write-reports.js';
import { chooseRunDevice } from '../runs/run-device.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { inlinePrompt, loadPrompts } from '../text/prompts/prompt-set.js';
import { createAuditProgress } from './audit/audit-progress.js';
import { formatAudit } from './audit/audit-text.js';
import { defineCommand } from './command.js';
import { cacheOf, machineFlags } from './common-flags.js';
import { exitCodes } from './failure.js';
import { flag, type FlagsOf } from './flags.js';
import { createTokenMarker, draftBrackets } from './generate-output.js';
import { wrap } from './help.js';
import { runInterruptibly } from './long-runs.js';
import { createProgress } from './progress.js';
import { type Colors, colorsFor, createNotice, type Terminal } from './terminal.js';

const flags = {
  act: flag('run only one part: 1 is decoding, 2 the audit', oneOf(['1', '2']), 'number'),
  out: flag('run folder of the audit', text, 'dir', { shownDefault: 'a new one in runs/' }),
  ...machineFlags,
};
type DemoFlags = FlagsOf<typeof flags>;

export const demo = defineCommand({
  name: 'demo',
  description:
    'Answers a prompt with the bundled model, by plain decoding and with the bundled draft model, and compares both. Then audits that drafter on a few code and math prompts, and writes a report.',
  flags,
  examples: [
    ['mistletoe demo', ''],
    ['mistletoe demo --act 1', 'decoding only, a few seconds'],
  ],
  notes:
    'It takes about two minutes on two cores, reads only what comes with the package, and writes the weight cache and the audit’s run folder in runs/.',
  run: (flags, { terminal }) => runDemo(flags, terminal),
});

interface Stage {
  readonly terminal: Terminal;
  readonly target: Target;
  readonly flags: DemoFlags;
  /** Aborts after Ctrl-C, or if output can no longer be written. */
  readonly signal: AbortSignal;
  readonly colors: Colors;
  readonly say: (...lines: readonly string[]) => void;
}

async function runDemo(flags: DemoFlags, terminal: Terminal): Promise<number> {
  const onNotice = createNotice(terminal);
  const device = await settleDevice(await chooseRunDevice(flags), [bundledTarget], onNotice);
  const runtime = await openRuntime(device, flags.threads);
  try {
    const target = await openTarget(bundledTarget, { runtime, onNotice, ...cacheOf(flags) });
    // From here on Ctrl-C ends the demo at the next token; while loading, it kills the process.
    return await runInterruptibly(terminal, async (interrupted) => {
      const { stdout, closed } = terminal;
      const signal = AbortSignal.any([interrupted, closed]);
      const say: Stage['say'] = (...lines) => {
        for (const line of lines) stdout.write(`${line}\n`);
      };
      const stage = { terminal, target, flags, signal, say, colors: colorsFor(stdout, terminal) };
      if (flags.act !== '2') await showSpeculation(stage);
      if (flags.act !== '1' && !signal.aborted) await showAudit(stage);
      return interrupted.aborted ? exitCodes.interrupted : exitCodes.success;
    });
  } finally {
    await runtime.dispose();
  }
}

const stageWidth = 80;

function sayHeading({ colors, say }: Stage, title: string): void {
  say('', colors.bold(title), colors.dim('─'.repeat(stageWidth)));
}

function sayText({ colors, say }: Stage, text: string): void {
  const lines = wrap(text.trim().replaceAll('\t', '    '), stageWidth - 2);
  say(...lines.map((line) => `${colors.dim('│')} ${line}`));
}

// Part one: the same answer by plain decoding and with the draft model, then the speed of both.
const promptId = 'code-1';
const maxNewTokens = 64;
/** Measured runs of each way of decoding. */
const runs = 3;
/** Fixed, so that the demo shows the same drafts on every machine; `auto` depends on timing. */
const policy = 'chain:4';

type OnToken = NonNullable<NonNullable<Parameters<typeof generateText>[2]>['onToken']>;

async function showSpeculation(stage: Stage): Promise<void> {
  const { target, flags, signal, say, colors, terminal } = stage;
  const drafter = await loadDrafter(bundledDrafterFolder('sps'), {
    target: target.model,
    tokenizer: target.tokenizer,
    onNotice: createNotice(terminal),
    ...cacheOf(flags),
  });
  const isOver = (): boolean => signal.aborted;
  const prompts = await loadPrompts(join(packageRoot, 'examples/prompts.jsonl'));
  const prompt = prompts.find(({ id }) => id === promptId)!.text;
  const decodePlainly = (onToken?: OnToken) =>
    generateText(target, prompt, { maxNewTokens, signal, onToken });
  const decodeDrafted = (onToken?: OnToken) =>
    generateSpeculatively(target, drafter, prompt, { maxNewTokens, signal, onToken, policy });
  const [opening, closing] = draftBrackets;
  const { isColorSupported } = colors;
  sayHeading(stage, '1  The same answer in fewer target passes');
  say(
    'A small draft model proposes four tokens. The target checks all of them in one',
    'pass, keeps those it would have generated itself, and adds one of its own.',
    '',
    `  ${isColorSupported ? colors.green('green') : `${opening}text${closing}`}  drafted, accepted by the target`,
    '',
    `${colors.cyan('Prompt')}  ${colors.bold(prompt)}`,
    '',
    'Plain decoding',
  );
  const plain = await sayAnswer(stage, decodePlainly);
  if (isOver()) return;
  say('', 'With drafts of 4 tokens from the draft model');
  const drafted = await sayAnswer(stage, decodeDrafted);
  if (isOver()) return;
  if (drafted.tokenIds.join() !== plain.tokenIds.join()) {
    throw new MistletoeError('runtime', 'Speculative and plain decoding gave different texts.', {
      hint: 'This must not happen at temperature 0: please report it with your machine.',
    });
  }
  say(
    '',
    colors.bold('Both answers are identical, token for token.'),
    // The first token comes from the prompt pass, which both need.
    `Target passes: ${plain.tokenIds.length - 1} without drafts, ${drafted.targetPasses} with drafts.`,
    `Mean accepted length: ${drafted.acceptance.meanAcceptedLength.toFixed(2)} tokens per pass.`,
  );
  const speeds: Record<'plain' | 'drafted', number[]> = { plain: [], drafted: [] };
  for (let run = 0; run < runs && !isOver(); run++) {
    speeds.plain.push((await decodePlainly()).tokensPerSecond);
    speeds.drafted.push((await decodeDrafted()).tokensPerSecond);
  }
  if (isOver()) return;
  const [slow, fast] = [median(speeds.plain) ?? NaN, median(speeds.drafted) ?? NaN];
  say(
    '',
    `Speed on this machine, median of ${runs} runs each, interleaved`,
    `  plain        ${slow.toFixed(0)} tokens/s`,
    `  with drafts  ${fast.toFixed(0)} tokens/s  ${colors.bold(`${(fast / slow).toFixed(2)}x`)}`,
  );
  if (fast / slow < 1.05)
    say(
      '  Not faster in this run: on a busy machine, or with a target this small,',
      '  drafting can cost more than it saves.',
    );
}

async function sayAnswer<Answer extends Generation>(
  stage: Stage,
  generate: (onToken: OnToken) => Promise<Answer>,
): Promise<Answer> {
  const marker = createTokenMarker(stage.colors, !stage.colors.isColorSupported);
  let marked = '';
  const answer = await generate(({ text, origin }) => {
    marked += marker.mark(text, origin);
  });
  sayText(stage, `${marked}${marker.finish()}`);
  return answer;
}

// Part two: an audit of the draft model, short enough to watch, that ends in a report.

/** Code and math prompts that the bundled model answers correctly. */
const auditPrompts = {
  reverse: 'Write a Python function that reverses a string.',
  vowels: 'Write a Python function that counts the vowels in a word.',
  prime: 'Write a Python function to check if a number is prime.',
  factorial: 'Write a Python function that computes the factorial of a number.',
  palindrome: 'Write a Python function that checks if a string is a palindrome.',
  fibonacci: 'Write a Python function that returns the n-th Fibonacci number.',
  apples:
    'Tom has 12 apples. He gives 5 to his sister and then buys 8 more. How many apples does he have now?',
};

/** A shorter search than the quick preset, over more prompts: enough prompts to decide, in two minutes. */
const search = { steps: 8, starts: 4, candidates: 6, finalists: 3, randomDraws: 1 };

async function showAudit(stage: Stage): Promise<void> {
  const { say, flags, terminal, signal, colors } = stage;
  sayHeading(stage, '2  A few tokens that make the drafts fail');
  say(
    'The speedup depends on how often target and drafter agree. With the weights of',
    'both, the audit searches for a suffix that makes them disagree while the answer',
    'stays the same: one drafter, code and math prompts.',
    '',
  );
  const cache = cacheOf(flags);
  const request = await createRequest({
    ...flags,
    prompts: Object.entries(auditPrompts).map(([id, prompt]) => ({ ...inlinePrompt(prompt), id })),
    drafters: ['sps'],
    preset: 'quick',
    settings: { ...search, maxNewTokens: 48, window: 48 },
    command: 'mistletoe demo --act 2',
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
  sayExample(stage, result);
  const report = colors.bold(relative('.', reports.html));
  say(
    '',
    formatAudit(result, verdict, { report, timings, colors }),
    'The target is a 12.5 M model trained to ignore stray text; its drafter was not.',
    'Expect other numbers from your models.',
    '',
    'Try next:',
    '  npx mistletoe audit --target ./my-model --drafter ./my-drafter  your own pair',
    '  npx mistletoe doctor localhost:8000  what draft metrics does my server expose?',
    '  npx mistletoe bench --drafter sps    accepted length and speed without attack',
  );
}

/** A suffix that leaves its answer as it was. */
function sayExample(stage: Stage, { drafters }: AuditResult): void {
  const results = drafters.flatMap(({ prompts }) => prompts);
  for (const { prompt, arms } of results) {
    const attack = arms.find(({ arm }) => arm === 'attack');
    if (attack?.preservation.kept !== 'identical' || attack.suffix === '') continue;
    stage.say('One of the prompts, with the suffix that the search found:');
    sayText(stage, `${prompt}${stage.colors.cyan(attack.suffix)}`);
    stage.say('The answer is the same with and without the suffix:');
    sayText(stage, attack.answer.text);
    return;
  }
}
