import { MistletoeError } from '../core/errors.js';
import type { FinishReason } from '../decode/answer.js';
import type { Generation } from '../decode/plain.js';
import type { GenerateOptions, Target } from '../decode/target.js';
import { generateText, openTarget } from '../decode/target.js';
import { createOnnxRuntime } from '../runtime/onnx/onnx-runtime.js';
import type { Prompt } from '../text/prompt-set.js';
import { inlinePrompt, loadPrompts } from '../text/prompt-set.js';
import { exitCodes } from './failure.js';
import type { GenerateFlags } from './generate-command.js';
import type { Terminal } from './terminal.js';
import { colorsFor, withoutControls } from './terminal.js';

export async function runGenerate(flags: GenerateFlags, terminal: Terminal): Promise<number> {
  const prompts = await readPrompts(flags, terminal);
  const runtime = createOnnxRuntime(flags.threads === undefined ? {} : { threads: flags.threads });
  const colors = colorsFor(terminal.stderr, terminal);
  try {
    const target = await openTarget(flags.target, {
      runtime,
      onNotice: (message) => {
        terminal.stderr.write(`${colors.yellow('note:')}  ${message}\n`);
      },
      ...chatOf(flags),
      ...(flags.cacheDir === undefined ? {} : { cacheFolder: flags.cacheDir }),
    });
    return await answerAll(target, prompts, flags, terminal);
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
  if (prompt === '-') return [inlinePrompt((await terminal.readStdin()).replace(/\r?\n$/, ''))];
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

async function answerAll(
  target: Target,
  prompts: readonly Prompt[],
  flags: GenerateFlags,
  terminal: Terminal,
): Promise<number> {
  const abort = new AbortController();
  const signal = AbortSignal.any([abort.signal, terminal.closed]);
  const stopListening = terminal.onInterrupt(() => {
    abort.abort();
  });
  const printer =
    flags.format === 'json' ? createJsonPrinter(flags, terminal) : createTextPrinter(flags, terminal, target);
  try {
    for (const prompt of prompts) {
      printer.begin(prompt);
      const generation = await generateText(target, prompt.text, {
        ...optionsOf(flags),
        ...(flags.prompts === undefined ? {} : { name: `Prompt ${prompt.id} of ${flags.prompts}` }),
        onToken: printer.token,
        signal,
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
  const { maxNewTokens, temperature, topK, topP, seed, stop } = flags;
  return {
    maxNewTokens,
    seed,
    stopStrings: stop,
    sampling: {
      temperature,
      ...(topK === undefined ? {} : { topK }),
      ...(topP === undefined ? {} : { topP }),
    },
  };
}

interface Printer {
  begin(prompt: Prompt): void;
  readonly token: NonNullable<GenerateOptions['onToken']>;
  end(prompt: Prompt, generation: Generation): void;
}

function createTextPrinter({ prompts }: GenerateFlags, terminal: Terminal, { template }: Target): Printer {
  const { stdout, stderr } = terminal;
  const colors = colorsFor(stdout, terminal);
  const summaryColors = colorsFor(stderr, terminal);
  const clean = stdout.isTerminal ? withoutControls : (text: string) => text;
  let isAtStart = true;
  return {
    begin({ id, text }) {
      isAtStart = true;
      if (prompts === undefined) return;
      const [line = ''] = text.trim().split('\n');
      const shown = line.length > 90 ? `${line.slice(0, 90)}...` : line;
      stdout.write(`${colors.bold(`[${id}]`)} ${colors.dim(clean(shown))}\n`);
    },
    token({ text }) {
      // An answer to a template's "ASSISTANT:" starts with a blank that only the model cares about.
      const shown = isAtStart && template !== undefined ? text.trimStart() : text;
      if (shown !== '') isAtStart = false;
      stdout.write(clean(shown));
    },
    end(_, generation) {
      stdout.write(generation.text.endsWith('\n') ? '' : '\n');
      stderr.write(`${summaryColors.dim(summarise(generation))}\n`);
      if (prompts !== undefined) stdout.write('\n');
    },
  };
}

/** One object, one line: a run that is cut short leaves whole lines behind. */
function createJsonPrinter({ prompts }: GenerateFlags, { stdout }: Terminal): Printer {
  return {
    begin: () => undefined,
    token: () => undefined,
    end({ id }, generation) {
      const { promptTokenIds, tokenIds, text, finishReason, prefillMs, decodeMs, tokensPerSecond } =
        generation;
      const result = { promptTokenIds, tokenIds, text, finishReason, prefillMs, decodeMs, tokensPerSecond };
      stdout.write(`${JSON.stringify(prompts === undefined ? result : { id, ...result })}\n`);
    },
  };
}

const endings: Readonly<Record<FinishReason, string>> = {
  stop: 'the model ended its answer',
  'stop-string': 'ended at a stop text',
  length: 'reached --max-new-tokens',
  context: 'the context is full',
  aborted: 'interrupted',
};

function summarise({
  promptTokenIds,
  tokenIds,
  prefillMs,
  tokensPerSecond,
  finishReason,
}: Generation): string {
  const parts = [
    `${promptTokenIds.length} prompt tokens in ${prefillMs.toFixed(0)} ms`,
    `${tokenIds.length} new ${tokenIds.length === 1 ? 'token' : 'tokens'}`,
    ...(tokensPerSecond > 0 ? [`${tokensPerSecond.toFixed(1)} tokens/s`] : []),
    endings[finishReason],
  ];
  return parts.join(' · ');
}
