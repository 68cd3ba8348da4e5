import { MistletoeError } from '../core/errors.js';
import { bundledDrafters } from '../core/package-files.js';
import { findDrafter } from '../decode/find-drafter.js';
import { settleDevice } from '../decode/gpu-fit.js';
import { maxNewTokensLimit } from '../core/limits.js';
import { integer, oneOf, text } from '../core/settings.js';
import { checkRule } from '../decode/verification/verifier.js';
import { createPolicy, defaultDraftPolicy, generateSpeculatively } from '../decode/generate.js';
import { type VerificationRule, verificationRules } from '../decode/verification/verification.js';
import type { Drafter } from '../draft/drafter.js';
import { loadDrafter } from '../draft/systems.js';
import { type DraftPolicy, parseDraftPolicy } from '../draft/tree/policy.js';
import { type Target, openTarget } from '../decode/target.js';
import { generateText } from '../decode/generate.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { chooseDevice } from '../runtime/device-choice.js';
import type { Runtime } from '../runtime/program.js';
import { type Prompt, inlinePrompt, loadPrompts } from '../text/prompts/prompt-set.js';
import { decodeText } from '../core/files.js';
import { type Invocation, defineCommand } from './command.js';
import * as common from './common-flags.js';
import { exitCodes } from './failure.js';
import { type FlagsOf, flag, group, list, toggle } from './flags.js';
import { type Speculation, createPrinter } from './generate-output.js';
import { runInterruptibly } from './long-runs.js';
import { createModelFinder } from './model-source.js';
import { type Terminal, createNotice } from './terminal.js';

const flags = {
  ...group('What to run', {
    ...common.targetFlag,
    prompt: flag('the prompt, if it is not the first argument; - reads it from stdin', text, 'text', {
      was: ['-p'],
      conflicts: 'prompts',
    }),
    prompts: flag('a .jsonl or .txt file of prompts, answered one after the other', text, 'file'),
    raw: toggle('continue the text as it is, without the chat template'),
    chat: toggle('require a chat template', { conflicts: 'raw', rare: true }),
    ...common.templateFlags,
    ...common.downloadFlag,
  }),
  ...group('Sampling', {
    maxNewTokens: flag('max tokens to generate', integer(1, maxNewTokensLimit), 'count', {
      short: 'n',
      default: 128,
    }),
    ...common.samplingFlags,
    seed: flag(
      'the same seed gives the same text; above temperature 0 it also depends on drafter and --draft',
      integer(0),
      'number',
      { default: 0 },
    ),
    stop: list('stop before this text', text, 'text'),
  }),
  ...group('Speculative decoding', {
    drafter: flag(
      `folder or hub name of a drafter; ${bundledDrafters.join(', ')} (for the bundled model); ngram[:MIN,MAX], which works with any model; or several joined by +, as in ngram+eagle3`,
      text,
      'model',
      { short: 'd', shownDefault: 'none, plain decoding' },
    ),
    ...common.draftFlag,
    verificationRule: flag(
      'which drafts to accept: greedy, rejection and block are lossless except in int8 and int4, typical is lossy; block keeps more of drawn chains and nothing more of lookups',
      oneOf(Object.keys(verificationRules) as VerificationRule[]),
      'rule',
      { was: ['--verify'], rare: true, shownDefault: 'greedy; rejection with a temperature' },
    ),
    ...common.tapsFlag,
    trace: toggle('print each step to stderr: draft, verdict, times; the text follows at the end', {
      rare: true,
    }),
    showDrafts: toggle('put accepted draft tokens between \u27e8 and \u27e9, for terminals without color'),
  }),
  ...group('Output and machine', {
    format: flag(
      'text streams; json prints one object per prompt and line',
      oneOf(['text', 'json']),
      'format',
      { default: 'text' },
    ),
    ...common.machineFlags,
  }),
};
export type GenerateFlags = FlagsOf<typeof flags>;

export const generate = defineCommand({
  name: 'generate',
  description: 'Answers one prompt, or every prompt of a file. The text appears while it is generated.',
  arguments: [['[prompt]', 'the prompt; - reads it from stdin']],
  flags,
  examples: [
    ['mistletoe generate "Write a Python function that adds two numbers."', ''],
    ['mistletoe generate "What is 12 + 30?" --drafter eagle3 --show-drafts', 'with speculative decoding'],
    ['mistletoe generate "Write a Python function that reverses a string." -d medusa --draft chain:3', ''],
    ['mistletoe generate --raw "def reverse(text):" --stop "def "', 'continue a text'],
    ['cat question.txt | mistletoe generate -', ''],
    ['mistletoe generate --prompts prompts.jsonl --format json > answers.jsonl', ''],
    ['mistletoe generate --target ./my-model --drafter ngram --prompts texts.jsonl', ''],
    ['mistletoe generate --target Qwen/Qwen2.5-0.5B-Instruct --download "Hi"', ''],
  ],
  notes:
    'The text goes to stdout, a line with counts and speed to stderr. Ctrl-C stops the answer and keeps what was generated.',
  run: runGenerate,
});

async function runGenerate(flags: GenerateFlags, { terminal, args }: Invocation): Promise<number> {
  const drafting = checkDrafting(flags);
  const prompts = await readPrompts({ ...flags, prompt: choosePrompt(flags, args) }, terminal);
  const choice = await chooseDevice(flags);
  const findModel = createModelFinder(flags, terminal);
  const folder = await findModel(flags.target);
  const source = drafting === undefined ? undefined : await findModel(drafting.source);
  const onNotice = createNotice(terminal);
  const device = await settleDevice(choice, source === undefined ? [folder] : [folder, source], onNotice);
  const runtime = await openRuntime(device, flags.threads);
  const loading = { onNotice, ...common.cacheOf(flags), taps: flags.taps };
  try {
    const { raw, chat, chatTemplate, date } = flags;
    const template = { chat: raw === true ? false : chat, chatTemplate, date };
    const target = await openTarget(folder, { runtime, ...loading, ...template });
    if (source === undefined) return await answerAll(target, undefined, prompts, flags, terminal);
    const { model, tokenizer } = target;
    const drafter = await loadDrafter(source, { target: model, tokenizer, ...loading });
    const speculation = speculateWith(drafter, drafting?.draftPolicy, flags, { runtime, onNotice });
    return await answerAll(target, speculation, prompts, flags, terminal);
  } finally {
    await runtime.dispose();
  }
}

function choosePrompt({ prompt, prompts }: GenerateFlags, [first]: readonly string[]): string | undefined {
  if (first === undefined) return prompt;
  if (prompt === undefined && prompts === undefined) return first;
  throw new MistletoeError(
    'usage',
    `The prompt "${first}" and ${prompt === undefined ? '--prompts' : '--prompt'} were both given; one was expected.`,
    { hint: 'Put a prompt with several words in quotes, and leave the flag out.' },
  );
}

async function readPrompts(
  { prompt, prompts }: Pick<GenerateFlags, 'prompt' | 'prompts'>,
  terminal: Terminal,
): Promise<readonly Prompt[]> {
  // The newline at the end of a piped line is not part of the prompt.
  if (prompt === '-') {
    const text = decodeText(await terminal.readStdin(), 'The prompt on stdin');
    return [inlinePrompt(text.replace(/\r?\n$/, ''))];
  }
  if (prompt !== undefined) return [inlinePrompt(prompt)];
  if (prompts === undefined) {
    throw new MistletoeError('usage', 'generate has no prompt to answer.', {
      hint: 'Give it in quotes, as - to read it from stdin, or as --prompts FILE.',
    });
  }
  if (!/\.(jsonl|txt)$/.test(prompts)) {
    throw new MistletoeError('usage', `--prompts is ${prompts}; a .jsonl or .txt file was expected.`, {
      hint: 'Rename the file to match its format, or give the text itself as the prompt.',
    });
  }
  return loadPrompts(prompts);
}

async function answerAll(
  target: Target,
  speculation: Speculation | undefined,
  prompts: readonly Prompt[],
  flags: GenerateFlags,
  terminal: Terminal,
): Promise<number> {
  const printer = createPrinter({ flags, terminal, target, speculation });
  const { maxNewTokens, seed, stop } = flags;
  return runInterruptibly(terminal, async (interrupted) => {
    const signal = AbortSignal.any([interrupted, terminal.closed]);
    for (const prompt of prompts) {
      printer.begin(prompt);
      const options = {
        maxNewTokens,
        seed,
        stopStrings: stop,
        sampling: common.samplingOf(flags),
        name: flags.prompts === undefined ? undefined : `Prompt ${prompt.id} of ${flags.prompts}`,
        onToken: printer.token,
        signal,
      };
      const generation =
        speculation === undefined
          ? await generateText(target, prompt.text, options)
          : await generateSpeculatively(target, speculation.drafter, prompt.text, {
              ...options,
              onNotice: createNotice(terminal),
              policy: speculation.policy,
              rule: speculation.rule,
              onStep: printer.step,
            });
      printer.end(prompt, generation);
      if (signal.aborted) break;
    }
    return interrupted.aborted ? exitCodes.interrupted : exitCodes.success;
  });
}

/** Undefined without a drafter. Checks the flags before anything is loaded. */
function checkDrafting(
  flags: GenerateFlags,
): { readonly source: string; readonly draftPolicy: DraftPolicy | undefined } | undefined {
  const { drafter, draft, verificationRule, taps, trace, showDrafts, format } = flags;
  if (drafter === undefined) {
    const given = {
      '--draft': draft,
      '--verification-rule': verificationRule,
      '--taps': taps,
      '--trace': trace,
      '--show-drafts': showDrafts,
    };
    const stray = Object.entries(given).find(([, value]) => value !== undefined)?.[0];
    if (stray === undefined) return undefined;
    throw new MistletoeError('usage', `${stray} was given without a drafter.`, {
      hint: 'Add --drafter with a folder or a bundled name such as eagle3, or leave it out for plain decoding.',
    });
  }
  if (showDrafts === true && format === 'json') {
    throw new MistletoeError('usage', '--show-drafts marks text, but --format json prints none.', {
      hint: 'Leave it out: acceptedLengths shows which tokens of each step were drafted.',
    });
  }
  if (verificationRule !== undefined) checkRule(verificationRule, common.samplingOf(flags));
  return {
    source: findDrafter(drafter),
    draftPolicy: draft === undefined ? undefined : parseDraftPolicy(draft),
  };
}

function speculateWith(
  drafter: Drafter,
  given: DraftPolicy | undefined,
  flags: GenerateFlags,
  { runtime, onNotice }: { readonly runtime: Runtime; readonly onNotice: (message: string) => void },
): Speculation {
  const draftPolicy = given ?? defaultDraftPolicy(drafter, common.samplingOf(flags), runtime);
  const { quantization } = runtime;
  const cause = flags.temperature > 0 ? 'a temperature' : quantization && `${quantization} weights`;
  if (draftPolicy.kind === 'auto' && cause !== undefined)
    onNotice(`With ${cause}, --draft auto depends on timing: the same seed may give a different text.`);
  return { drafter, draftPolicy, policy: createPolicy(draftPolicy, drafter), rule: flags.verificationRule };
}
