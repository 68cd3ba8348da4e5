/** Output of `generate`: text that streams, or one JSON object per prompt. */
import { countText, durationText } from '../core/number-text.js';
import type { FinishReason, TokenOrigin } from '../decode/answer.js';
import type { Generation } from '../decode/request.js';
import type { PolicyChooser } from '../decode/policies/policy-chooser.js';
import type { GenerateOptions, SpeculativeOptions } from '../decode/generate.js';
import { isSpeculative, type SpeculativeGeneration } from '../decode/request.js';
import type { Target } from '../decode/target.js';
import type { VerificationRule } from '../decode/verification/verification.js';
import type { Drafter } from '../draft/drafter.js';
import { type DraftPolicy, formatDraftPolicy } from '../draft/tree/policy.js';
import type { Prompt } from '../text/prompts/prompt-set.js';
import { formatStep, serializeStep } from './step-trace.js';
import { asOneLine, colorsFor, type Colors, type Terminal } from './terminal.js';

/** Shared by all prompts, so `auto` keeps what it learned. */
export interface Speculation {
  readonly drafter: Drafter;
  readonly draftPolicy: DraftPolicy;
  readonly policy: PolicyChooser;
  readonly rule: VerificationRule | undefined;
}

export interface Printer {
  begin(prompt: Prompt): void;
  readonly token: NonNullable<GenerateOptions['onToken']>;
  /** Undefined without --trace. */
  readonly step: SpeculativeOptions['onStep'];
  end(prompt: Prompt, generation: Generation): void;
}

interface PrinterParts {
  readonly flags: {
    readonly format: 'text' | 'json';
    readonly prompts: string | undefined;
    readonly showDrafts: true | undefined;
    readonly trace: true | undefined;
  };
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
  let steps = 0;
  /** With a trace, the text follows at the end. */
  let heldBack = '';
  return {
    begin({ id, text }) {
      isAtStart = true;
      steps = 0;
      heldBack = '';
      if (flags.prompts === undefined) return;
      const [line = ''] = text.trim().split('\n');
      const shown = line.length > 90 ? `${line.slice(0, 90)}...` : line;
      stdout.write(`${colors.bold(`[${asOneLine(id)}]`)} ${colors.dim(asOneLine(shown))}\n`);
    },
    token({ text, origin }) {
      // An answer to a template's "ASSISTANT:" starts with a space that readers do not need.
      const shown = isAtStart && target.template !== undefined ? text.trimStart() : text;
      if (shown !== '') isAtStart = false;
      const marked = marker.mark(shown, origin);
      if (flags.trace === true) heldBack += marked;
      else stdout.writeData(marked);
    },
    step:
      flags.trace &&
      ((_, trace) => {
        stderr.write(formatStep((steps += 1), trace, target.tokenizer));
      }),
    end(_, generation) {
      stdout.writeData(`${heldBack}${marker.finish()}${generation.text.endsWith('\n') ? '' : '\n'}`);
      stderr.write(`${summaryColors.dim(summarize(generation, speculation))}\n`);
      if (flags.prompts !== undefined) stdout.write('\n');
    },
  };
}

/** One object per line: an interrupted run leaves complete lines. */
function createJsonPrinter({ flags, terminal, target, speculation }: PrinterParts): Printer {
  const { stdout, stderr } = terminal;
  const idOf = ({ id }: Pick<Prompt, 'id'>): string | undefined =>
    flags.prompts === undefined ? undefined : id;
  let current: string | undefined;
  let steps = 0;
  return {
    begin(prompt) {
      current = idOf(prompt);
      steps = 0;
    },
    token: () => undefined,
    step:
      flags.trace &&
      ((_, trace) => {
        stderr.writeData(serializeStep(current, (steps += 1), trace, target.tokenizer));
      }),
    end(prompt, generation) {
      const { promptTokenIds, tokenIds, text, finishReason, preparationMs, prefillMs, decodeMs } = generation;
      const result = {
        id: idOf(prompt),
        promptTokenIds,
        tokenIds,
        text,
        finishReason,
        preparationMs,
        prefillMs,
        decodeMs,
        tokensPerSecond: generation.tokensPerSecond,
        ...(speculation && isSpeculative(generation) && describeSpeculation(generation, speculation)),
      };
      stdout.writeData(`${JSON.stringify(result)}\n`);
    },
  };
}

function describeSpeculation(generation: SpeculativeGeneration, speculation: Speculation): object {
  const { acceptance, rule, lossReason } = generation;
  return {
    drafter: speculation.drafter.name,
    draftPolicy: formatDraftPolicy(speculation.draftPolicy),
    verification: { rule, lossless: lossReason === undefined },
    drafterFailed: generation.drafterFailed,
    steps: acceptance.steps,
    acceptedLengths: acceptance.acceptedLengths,
    meanAcceptedLength: acceptance.meanAcceptedLength,
    acceptanceByDepth: acceptance.acceptanceByDepth,
    acceptedTokens: acceptance.accepted,
    proposedTokens: acceptance.proposed,
    targetPasses: generation.targetPasses,
    drafterPasses: generation.drafterPasses,
    draftMs: generation.draftMs,
    verifyMs: generation.verifyMs,
    overheadMs: generation.overheadMs,
  };
}

const endings: Readonly<Record<FinishReason, string>> = {
  stop: 'the model ended its answer',
  'stop-string': 'stopped at --stop',
  length: 'reached --max-new-tokens',
  context: 'the context is full',
  aborted: 'interrupted',
};

function summarize(generation: Generation, speculation: Speculation | undefined): string {
  const parts =
    speculation !== undefined && isSpeculative(generation)
      ? summarizeSpeculation(generation, speculation)
      : summarizePlain(generation);
  return [...parts, ...describePreparation(generation), endings[generation.finishReason]].join(' · ');
}

/** From here on it is worth a word. */
const longPreparationMs = 1000;

const describePreparation = ({ preparationMs }: Generation): string[] =>
  preparationMs < longPreparationMs ? [] : [`programs prepared in ${durationText(preparationMs)}`];

function summarizePlain({ promptTokenIds, tokenIds, prefillMs, tokensPerSecond }: Generation): string[] {
  return [
    `${promptTokenIds.length} prompt tokens in ${prefillMs.toFixed(0)} ms`,
    countText(tokenIds.length, 'new token'),
    ...(tokensPerSecond > 0 ? [`${tokensPerSecond.toFixed(1)} tokens/s`] : []),
  ];
}

function summarizeSpeculation(generation: SpeculativeGeneration, speculation: Speculation): string[] {
  const { acceptance, tokenIds, tokensPerSecond, decodeMs, draftMs, verifyMs, lossReason } = generation;
  const share = (ms: number): string => `${((100 * ms) / decodeMs).toFixed(0)}%`;
  const drafting = `${speculation.drafter.name} ${formatDraftPolicy(speculation.draftPolicy)}`;
  return [
    `${countText(tokenIds.length, 'new token')} in ${countText(acceptance.steps, 'step')}`,
    `mean accepted length ${acceptance.meanAcceptedLength.toFixed(2)} (bonus included)`,
    ...(tokensPerSecond > 0 ? [`${tokensPerSecond.toFixed(1)} tokens/s`] : []),
    ...(acceptance.steps > 0 ? [`draft ${share(draftMs)} verify ${share(verifyMs)}`] : []),
    `${drafting}, ${lossReason === undefined ? 'lossless' : `lossy (${lossReason})`}`,
    ...(generation.drafterFailed ? ['finished without the drafter'] : []),
  ];
}

/**
 * Marks accepted draft tokens: by color if there is color, between brackets on request. The tokens that one step accepts
 * are adjacent, because a token of the target follows them, so each pair of brackets is the accepted draft of one step.
 * Spaces at its edges stay outside.
 */
export const draftBrackets = ['⟨', '⟩'] as const;

export function createTokenMarker(colors: Colors, hasBrackets: boolean) {
  const [opening, closing] = draftBrackets;
  let isOpen = false;
  let heldSpaces = ''; // after an open draft: inside if it continues, outside if it ends

  // Word by word, so that no color is open at a line break.
  const paint = (text: string): string => text.replace(/\S+/g, (word) => colors.green(word));

  const close = (): string => {
    const rest = `${isOpen ? closing : ''}${heldSpaces}`;
    isOpen = false;
    heldSpaces = '';
    return rest;
  };

  const bracket = (text: string): string => {
    const body = text.trim();
    if (body === '') {
      if (!isOpen) return text;
      heldSpaces += text;
      return '';
    }
    const lead = heldSpaces + text.slice(0, text.indexOf(body));
    heldSpaces = text.slice(text.indexOf(body) + body.length);
    const start = isOpen ? lead : `${lead}${opening}`;
    isOpen = true;
    return start + paint(body);
  };

  return {
    /** The text of one more token, marked. */
    mark(text: string, origin: TokenOrigin): string {
      if (text === '') return '';
      if (origin !== 'accepted') return close() + text;
      return hasBrackets ? bracket(text) : paint(text);
    },
    /** The rest to write after the last token. */
    finish: close,
  };
}
