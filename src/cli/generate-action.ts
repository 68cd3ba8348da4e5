import { MistletoeError } from '../core/errors.js';
import { settleDevice } from '../decode/gpu-fit.js';
import { generateSpeculatively } from '../decode/speculative-text.js';
import type { GenerateOptions, Target } from '../decode/target.js';
import { generateText, openTarget } from '../decode/target.js';
import { openRuntime } from '../runtime/create-runtime.js';
import { chooseDevice } from '../runtime/device-choice.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { inlinePrompt, loadPrompts } from '../text/prompts/prompt-set.js';
import { decodeText } from '../text/text-file.js';
import { cacheOf, samplingOf, tapsOf, templateOf } from './common-options.js';
import { exitCodes } from './failure.js';
import type { GenerateFlags } from './command-flags.js';
import type { Speculation } from './generate-drafting.js';
import { loadSpeculation, planDrafting } from './generate-drafting.js';
import { createPrinter } from './generate-printers.js';
import { createModelFinder } from './model-source.js';
import { createNotice } from './notice.js';
import type { Terminal } from './terminal.js';

export async function runGenerate(flags: GenerateFlags, terminal: Terminal): Promise<number> {
  const plan = planDrafting(flags, samplingOf(flags));
  const prompts = await readPrompts(flags, terminal);
  const choice = await chooseDevice(flags);
  const findModel = createModelFinder(flags, terminal);
  const folder = await findModel(flags.target);
  const located = plan === undefined ? undefined : { ...plan, source: await findModel(plan.source) };
  const onNotice = createNotice(terminal);
  const sources = [folder, ...(located === undefined ? [] : [located.source])];
  const device = await settleDevice(choice, sources, onNotice);
  const runtime = await openRuntime(device, flags.threads);
  const loading = { onNotice, ...cacheOf(flags), ...tapsOf(flags) };
  try {
    const target = await openTarget(folder, {
      runtime,
      ...loading,
      ...chatOf(flags),
      ...templateOf(flags),
    });
    const speculation = located === undefined ? undefined : await loadSpeculation(located, target, loading);
    return await answerAll({ target, speculation, prompts, flags, terminal, onNotice });
  } finally {
    await runtime.dispose();
  }
}

function chatOf({ chat, raw }: GenerateFlags): { readonly chat?: boolean } {
  if (raw === true) return { chat: false };
  return chat === true ? { chat: true } : {};
}

async function readPrompts(
  { prompt, prompts }: GenerateFlags,
  terminal: Terminal,
): Promise<readonly Prompt[]> {
  // The newline that ends a piped line belongs to the pipe, not to the prompt.
  if (prompt === '-') {
    const text = decodeText(await terminal.readStdin(), 'The prompt on stdin');
    return [inlinePrompt(text.replace(/\r?\n$/, ''))];
  }
  if (prompt !== undefined) return [inlinePrompt(prompt)];
  if (prompts === undefined) {
    throw new MistletoeError('usage', 'generate has no prompt to answer.', {
      hint: 'Give --prompt TEXT, --prompt - to read it from stdin, or --prompts FILE.',
    });
  }
  if (!/\.(jsonl|txt)$/.test(prompts)) {
    throw new MistletoeError('usage', `--prompts is ${prompts}; a .jsonl or .txt file was expected.`, {
      hint: 'Rename the file by its kind, or use --prompt to give a text.',
    });
  }
  return loadPrompts(prompts);
}

interface Task {
  readonly target: Target;
  readonly speculation: Speculation | undefined;
  readonly prompts: readonly Prompt[];
  readonly flags: GenerateFlags;
  readonly terminal: Terminal;
  readonly onNotice: (message: string) => void;
}

async function answerAll({ prompts, onNotice, ...task }: Task): Promise<number> {
  const { target, speculation, flags, terminal } = task;
  const abort = new AbortController();
  const signal = AbortSignal.any([abort.signal, terminal.closed]);
  const stopListening = terminal.onInterrupt(() => {
    abort.abort();
  });
  const printer = createPrinter(task);
  try {
    for (const prompt of prompts) {
      printer.begin(prompt);
      const options = {
        ...optionsOf(flags),
        ...(flags.prompts === undefined ? {} : { name: `Prompt ${prompt.id} of ${flags.prompts}` }),
        onToken: printer.token,
        signal,
      };
      const generation =
        speculation === undefined
          ? await generateText(target, prompt.text, options)
          : await generateSpeculatively(target, speculation.drafter, prompt.text, {
              ...options,
              onNotice,
              policy: speculation.policy,
              ...(speculation.rule === undefined ? {} : { rule: speculation.rule }),
            });
      printer.end(prompt, generation);
      if (signal.aborted) break;
    }
  } finally {
    stopListening();
  }
  return abort.signal.aborted ? exitCodes.interrupted : exitCodes.success;
}

function optionsOf(flags: GenerateFlags): GenerateOptions {
  const { maxNewTokens, seed, stop } = flags;
  return { maxNewTokens, seed, stopStrings: stop, sampling: samplingOf(flags) };
}
