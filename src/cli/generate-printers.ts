/** What an answer looks like: text that streams, or one JSON object. */
import type { FinishReason } from '../decode/answer.js';
import type { Generation } from '../decode/plain.js';
import type { SpeculativeGeneration } from '../decode/speculative.js';
import { isSpeculative } from '../decode/speculative-text.js';
import type { GenerateOptions, Target } from '../decode/target.js';
import { verificationRules } from '../decode/verification/verification.js';
import { formatDraftPolicy } from '../draft/tree/policy.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { asOneLine } from './clean-text.js';
import type { GenerateFlags } from './command-flags.js';
import type { Speculation } from './generate-drafting.js';
import { createTokenMarker } from './generate-tokens.js';
import type { Terminal } from './terminal.js';
import { colorsFor } from './terminal.js';

export interface Printer {
  begin(prompt: Prompt): void;
  readonly token: NonNullable<GenerateOptions['onToken']>;
  end(prompt: Prompt, generation: Generation): void;
}

interface PrinterParts {
  readonly flags: GenerateFlags;
  readonly terminal: Terminal;
  readonly target: Target;
  readonly speculation: Speculation | undefined;
}

export function createPrinter(parts: PrinterParts): Printer {
  return parts.flags.format === 'json' ? createJsonPrinter(parts) : createTextPrinter(parts);
}

function createTextPrinter({ flags, terminal, target, speculation }: PrinterParts): Printer {
  const { stdout, stderr } = terminal;
  const colors = colorsFor(stdout, terminal);
  const summaryColors = colorsFor(stderr, terminal);
  const marker = createTokenMarker(colors, flags.showDrafts === true);
  let isAtStart = true;
  return {
    begin({ id, text }) {
      isAtStart = true;
      if (flags.prompts === undefined) return;
      const [line = ''] = text.trim().split('\n');
      const shown = line.length > 90 ? `${line.slice(0, 90)}...` : line;
      stdout.write(`${colors.bold(`[${asOneLine(id)}]`)} ${colors.dim(asOneLine(shown))}\n`);
    },
    token({ text, origin }) {
      // An answer to a template's "ASSISTANT:" starts with a blank that only the model cares about.
      const shown = isAtStart && target.template !== undefined ? text.trimStart() : text;
      if (shown !== '') isAtStart = false;
      stdout.writeData(marker.mark(shown, origin));
    },
    end(_, generation) {
      stdout.writeData(`${marker.finish()}${generation.text.endsWith('\n') ? '' : '\n'}`);
      stderr.write(`${summaryColors.dim(summarise(generation, speculation))}\n`);
      if (flags.prompts !== undefined) stdout.write('\n');
    },
  };
}

/** One object, one line: a run that is cut short leaves whole lines behind. */
function createJsonPrinter({ flags, terminal: { stdout }, speculation }: PrinterParts): Printer {
  return {
    begin: () => undefined,
    token: () => undefined,
    end({ id }, generation) {
      const { promptTokenIds, tokenIds, text, finishReason, prefillMs, decodeMs, tokensPerSecond } =
        generation;
      const result = {
        ...(flags.prompts === undefined ? {} : { id }),
        ...{ promptTokenIds, tokenIds, text, finishReason, prefillMs, decodeMs, tokensPerSecond },
        ...(speculation !== undefined && isSpeculative(generation)
          ? describeSpeculation(generation, speculation)
          : {}),
      };
      stdout.writeData(`${JSON.stringify(result)}\n`);
    },
  };
}

function describeSpeculation(generation: SpeculativeGeneration, speculation: Speculation): object {
  const { acceptance, rule } = generation;
  const { drafterFailed, targetPasses, drafterPasses, draftMs, verifyMs, overheadMs } = generation;
  return {
    drafter: speculation.drafter.name,
    draftPolicy: formatDraftPolicy(speculation.draftPolicy),
    verification: { rule, lossless: verificationRules[rule].lossless },
    drafterFailed,
    steps: acceptance.steps,
    acceptedLengths: acceptance.acceptedLengths,
    meanAcceptedLength: acceptance.meanAcceptedLength,
    acceptanceByDepth: acceptance.acceptanceByDepth,
    acceptedTokens: acceptance.accepted,
    proposedTokens: acceptance.proposed,
    ...{ targetPasses, drafterPasses, draftMs, verifyMs, overheadMs },
  };
}

const endings: Readonly<Record<FinishReason, string>> = {
  stop: 'the model ended its answer',
  'stop-string': 'ended at a stop text',
  length: 'reached --max-new-tokens',
  context: 'the context is full',
  aborted: 'interrupted',
};

function summarise(generation: Generation, speculation: Speculation | undefined): string {
  const parts =
    speculation !== undefined && isSpeculative(generation)
      ? summariseSpeculation(generation, speculation)
      : summarisePlain(generation);
  return [...parts, endings[generation.finishReason]].join(' · ');
}

function summarisePlain({ promptTokenIds, tokenIds, prefillMs, tokensPerSecond }: Generation): string[] {
  return [
    `${promptTokenIds.length} prompt tokens in ${prefillMs.toFixed(0)} ms`,
    count(tokenIds.length, 'new token'),
    ...(tokensPerSecond > 0 ? [`${tokensPerSecond.toFixed(1)} tokens/s`] : []),
  ];
}

function summariseSpeculation(generation: SpeculativeGeneration, speculation: Speculation): string[] {
  const { acceptance, tokenIds, tokensPerSecond, decodeMs, draftMs, verifyMs, rule } = generation;
  const share = (ms: number): string => `${((100 * ms) / decodeMs).toFixed(0)}%`;
  const drafting = `${speculation.drafter.name} ${formatDraftPolicy(speculation.draftPolicy)}`;
  return [
    `${count(tokenIds.length, 'new token')} in ${count(acceptance.steps, 'step')}`,
    `mean accepted length ${acceptance.meanAcceptedLength.toFixed(2)} (bonus included)`,
    ...(tokensPerSecond > 0 ? [`${tokensPerSecond.toFixed(1)} tokens/s`] : []),
    ...(acceptance.steps > 0 ? [`draft ${share(draftMs)} verify ${share(verifyMs)}`] : []),
    `${drafting}, ${verificationRules[rule].lossless ? 'lossless' : `lossy (${rule} acceptance)`}`,
    ...(generation.drafterFailed ? ['finished without the drafter'] : []),
  ];
}

function count(amount: number, noun: string): string {
  return `${amount} ${noun}${amount === 1 ? '' : 's'}`;
}
