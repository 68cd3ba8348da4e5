/** Act one: the same text by plain decoding and with EAGLE-3, token by token, then the speed of both. */
import { join } from 'node:path';
import { median } from 'simple-statistics';
import { MistletoeError } from '../core/errors.js';
import { bundledDrafterFolder, packageRoot } from '../decode/bundled-models.js';
import type { Generation } from '../decode/plain.js';
import type { SpeculativeGeneration } from '../decode/speculative.js';
import { createPolicy, generateSpeculatively } from '../decode/speculative-text.js';
import { generateText } from '../decode/target.js';
import type { Drafter } from '../draft/drafter.js';
import { loadDrafter } from '../draft/load-drafter.js';
import { parseDraftPolicy } from '../draft/tree/policy.js';
import type { BenchmarkResult } from '../measure/benchmark.js';
import { runBenchmark } from '../measure/benchmark.js';
import { plainSystem } from '../measure/benchmark-record.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { loadPrompts } from '../text/prompts/prompt-set.js';
import { cacheOf } from './common-options.js';
import type { Stage } from './demo-stage.js';
import { createWrapper, sayBars, sayHeading, stageWidth } from './demo-stage.js';
import { createTokenMarker, draftBrackets } from './generate-tokens.js';
import { createNotice } from './notice.js';
import { createProgress } from './progress.js';

/** One that is easy to foresee and one that is not. */
const promptIds = ['code-1', 'chat-1'];
/** Fixed, so that the demo shows the same drafts wherever it runs; `auto` would follow the clock. */
const shownPolicy = 'chain:4';

export async function showSpeculation(stage: Stage, number: number): Promise<void> {
  const { target, flags, say, colors } = stage;
  const { model, tokenizer } = target;
  const prompts = await loadPrompts(join(packageRoot, 'examples/prompts.jsonl'));
  const drafter = await loadDrafter(bundledDrafterFolder('eagle3'), {
    target: model,
    tokenizer,
    onNotice: createNotice(stage.terminal),
    ...cacheOf(flags),
  });
  sayHeading(stage, number, 'The same text, in fewer passes of the target');
  say('A small drafter proposes the next four tokens; the target reads them all in one');
  say('pass, keeps those it would have written itself and adds one of its own.');
  say();
  const [opening, closing] = draftBrackets;
  say(
    colors.isColorSupported
      ? `  ${colors.green('green')}  drafted by ${drafter.name}, accepted by the target`
      : `  ${opening}text${closing}  drafted by ${drafter.name}, accepted by the target`,
  );
  say(`  ${colors.isColorSupported ? 'plain' : ' text '}  the target's own`);
  for (const prompt of promptIds.flatMap((wanted) => prompts.filter(({ id }) => id === wanted))) {
    if (!stage.isOver()) await showPrompt(stage, drafter, prompt);
  }
}

async function showPrompt(stage: Stage, drafter: Drafter, prompt: Prompt): Promise<void> {
  const { target, flags, signal, say, colors } = stage;
  const { maxNewTokens } = flags;
  say();
  say(`${colors.cyan('Prompt')}  ${colors.bold(prompt.text)}`);
  say();
  say('Plain decoding');
  // Compiled ahead, so that the text flows from its first token on.
  await target.model.prepare();
  const plain = await streamText(stage, (onToken) =>
    generateText(target, prompt.text, { maxNewTokens, signal, onToken }),
  );
  if (stage.isOver()) return;
  say();
  say(`${drafter.name}, ${shownPolicy}`);
  const speculative = await streamText(stage, (onToken) =>
    generateSpeculatively(target, drafter, prompt.text, {
      ...{ maxNewTokens, signal, onToken },
      policy: shownPolicy,
    }),
  );
  if (stage.isOver()) return;
  requireSameTokens(plain, speculative);
  say();
  sayCounts(stage, plain, speculative);
  await saySpeeds(stage, drafter, prompt);
}

type OnToken = NonNullable<Parameters<typeof generateText>[2]>['onToken'];

async function streamText<T extends Generation>(
  { write, colors }: Stage,
  generate: (onToken: NonNullable<OnToken>) => Promise<T>,
): Promise<T> {
  const marker = createTokenMarker(colors, !colors.isColorSupported);
  const wrapper = createWrapper(write, `${colors.dim('│')} `, stageWidth - 2);
  let isAtStart = true;
  const generation = await generate(({ text, origin }) => {
    const shown = isAtStart ? text.trimStart() : text;
    if (shown !== '') isAtStart = false;
    wrapper.add(marker.mark(shown, origin));
  });
  wrapper.add(marker.finish());
  wrapper.finish();
  return generation;
}

/** The promise that the whole demo rests on. */
function requireSameTokens(plain: Generation, { tokenIds }: Generation): void {
  if (tokenIds.join() === plain.tokenIds.join()) return;
  throw new MistletoeError('runtime', 'Speculative decoding gave another text than plain decoding.', {
    hint: 'This must not happen at temperature 0: please report it with the machine you ran it on.',
  });
}

function sayCounts({ say, colors }: Stage, plain: Generation, speculative: SpeculativeGeneration): void {
  const { acceptance, targetPasses } = speculative;
  const mean = acceptance.meanAcceptedLength.toFixed(2);
  say(colors.bold('Equal, token for token.'));
  // The first token comes from reading the prompt, which both do alike.
  say(`Passes of the target: ${plain.tokenIds.length - 1} for plain decoding, ${targetPasses} with drafts.`);
  say(`Mean accepted length: ${mean}, the target's own token included.`);
}

/** Of the chain just shown, and of `auto`, which drafts less, or nothing, where drafts are seldom accepted. */
async function saySpeeds(stage: Stage, drafter: Drafter, prompt: Prompt): Promise<void> {
  const { say, colors, flags } = stage;
  const policies = [shownPolicy, 'auto'];
  const { records, interrupted } = await measure(stage, drafter, policies, prompt);
  if (interrupted) return;
  const speedOf = (policy: string): number =>
    median(records.filter((record) => record.policy === policy).map((record) => record.tokensPerSecond));
  const figure = (speed: number): string => `${speed.toFixed(0)} tokens/s`;
  const plain = speedOf(plainSystem.policy);
  const drafted = policies.map((policy) => ({ policy, speed: speedOf(policy) }));
  say();
  say(`Speed, median of ${flags.runs === 1 ? '1 run' : `${flags.runs} runs`} each, by turns`);
  sayBars(stage, [
    { name: 'plain', figure: figure(plain), value: plain, paint: colors.dim },
    ...drafted.map(({ policy, speed }) => ({
      name: `${drafter.name}, ${policy}`,
      figure: figure(speed),
      value: speed,
      paint: colors.green,
      note: colors.bold(`${(speed / plain).toFixed(2)}x`),
    })),
  ]);
  if (drafted.some(({ speed }) => speed / plain >= 1.05)) return;
  say('  Not faster in this run: on a busy machine, or with a target as small as this,');
  say('  drafting can cost more than it saves.');
}

async function measure(
  { target, terminal, flags, signal }: Stage,
  drafter: Drafter,
  policies: readonly string[],
  prompt: Prompt,
): Promise<BenchmarkResult> {
  const progress = createProgress(terminal.stderr.isTerminal ? 'bar' : 'none', terminal.stderr);
  const systems = policies.map((policy) => ({
    name: drafter.name,
    policy,
    drafter,
    createPolicy: () => createPolicy(parseDraftPolicy(policy), drafter),
  }));
  return runBenchmark(
    {
      ...{ target, systems, signal, maxNewTokens: flags.maxNewTokens },
      promptSets: [{ name: prompt.id, prompts: repeat(prompt, flags.runs) }],
      sampling: { temperature: 0 },
      seed: 0,
      warmup: 1,
    },
    {
      onStart: (total) => {
        progress.start(total, 'measuring');
      },
      onGeneration: ({ done }) => {
        progress.update(done);
      },
    },
  ).finally(() => {
    progress.finish();
  });
}

/** The benchmark answers every prompt once, by turns; the same prompt several times makes several runs. */
function repeat(prompt: Prompt, runs: number): readonly Prompt[] {
  return Array.from({ length: runs }, (_, run) => ({ ...prompt, id: `${prompt.id}, run ${run + 1}` }));
}
