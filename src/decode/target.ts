import { join } from 'node:path';
import * as z from '../core/schema.js';
import { openCheckpoint } from '../checkpoint/open-checkpoint.js';
import { MistletoeError } from '../core/errors.js';
import { fileLimits } from '../core/limits.js';
import { recogniseCheckpoint } from '../draft/systems.js';
import { createModel, withRuntime, type CausalModel, type LoadOptions } from '../model/causal-model.js';
import { parseConfiguration } from '../model/configuration.js';
import { createRuntime } from '../runtime/create-runtime.js';
import type { Runtime } from '../runtime/program.js';
import type { ChatMessage, ChatTemplate, TemplateOptions } from '../text/template/chat-template.js';
import {
  encodeRaw,
  encodeRendered,
  loadChatTemplate,
  renderChat,
  requireChatTemplate,
} from '../text/template/chat-template.js';
import { parseJson, readTextFile } from '../core/files.js';
import { loadTokenizer, type Tokenizer } from '../text/tokenizer/tokenizer.js';
import { countGpuBytes } from './gpu-fit.js';

export interface Target {
  readonly folder: string;
  readonly model: CausalModel;
  readonly tokenizer: Tokenizer;
  /** Absent if the folder has none, or with `chat: false`. */
  readonly template: ChatTemplate | undefined;
  readonly stopIds: readonly number[];
}

export interface TargetOptions extends LoadOptions, TemplateOptions {
  /** true: required; false: not read; absent: read if there is one. */
  readonly chat?: boolean | undefined;
}

/**
 * Reads small files first, so that errors appear before the weights are converted. Without a runtime it creates one
 * on the first GPU with room, else on the CPU; `target.model.runtime.dispose()` ends it.
 * @example const target = await openTarget(bundledTarget);
 */
export async function openTarget(folder: string, options: TargetOptions = {}): Promise<Target> {
  const checkpoint = await openCheckpoint(folder);
  const { kind, layout } = recogniseCheckpoint(checkpoint);
  if (kind !== 'decoder' && kind !== 'unknown')
    throw new MistletoeError(
      'checkpoint',
      `${checkpoint.folder} holds a drafter (${layout}); a whole language model was expected.`,
      { hint: 'A drafter runs beside its target: give the folder of the target.' },
    );
  const configuration = parseConfiguration(checkpoint.config, `config.json of ${checkpoint.folder}`);
  const stopIds = [...new Set([...configuration.eosIds, ...(await readGenerationStops(folder))])];
  const { chat, chatTemplate, date } = options;
  const readTemplate = chat === true ? requireChatTemplate : loadChatTemplate;
  const template = chat === false ? undefined : await readTemplate(folder, { chatTemplate, date });
  const tokenizer = await loadTokenizer(folder, { modelVocabularySize: configuration.vocabularySize });
  const createOwn = (): Promise<Runtime> =>
    createRuntime({ countBytes: (dtype) => countGpuBytes([folder], dtype) });
  const model = await withRuntime(options.runtime, createOwn, (runtime) =>
    createModel(checkpoint, { ...options, runtime }),
  );
  return { folder, model, tokenizer, template, stopIds };
}

const tokenId = z.number().int().nonnegative();
const generationSchema = z.object({ eos_token_id: z.union([tokenId, z.array(tokenId)]).nullish() });

/** Chat models often list the end of a turn only here. */
async function readGenerationStops(folder: string): Promise<readonly number[]> {
  const path = join(folder, 'generation_config.json');
  const text = await readTextFile(path, fileLimits.configuration);
  if (text === undefined) return [];
  const parsed = generationSchema.safeParse(parseJson(text, path));
  if (!parsed.success) {
    throw new MistletoeError(
      'checkpoint',
      `${path} has an eos_token_id that cannot be read; a token id or a list of them was expected.`,
      { hint: 'Correct or remove the file; without it the eos_token_id of config.json counts.' },
    );
  }
  const stops = parsed.data.eos_token_id ?? [];
  return typeof stops === 'number' ? [stops] : stops;
}

export interface PromptEncoding {
  /** Default: if the target has a chat template. */
  readonly chat?: boolean | undefined;
  readonly name?: string | undefined;
}

export async function encodePrompt(
  target: Target,
  prompt: string | readonly ChatMessage[],
  { chat = target.template !== undefined, name = 'The prompt' }: PromptEncoding = {},
): Promise<number[]> {
  const ids = chat ? await encodeConversation(target, prompt, name) : await encodeText(target, prompt, name);
  const { contextLength } = target.model.configuration;
  if (ids.length > contextLength) throw tooLong(target, `${name} has ${ids.length} tokens`);
  return ids;
}

async function encodeConversation(
  target: Target,
  prompt: string | readonly ChatMessage[],
  name: string,
): Promise<number[]> {
  const messages = typeof prompt === 'string' ? [{ role: 'user', content: prompt } as const] : prompt;
  const template = target.template ?? (await requireChatTemplate(target.folder));
  const rendered = renderChat(template, messages);
  refuseLongText(target, rendered, name);
  return encodeRendered(target.tokenizer, template, rendered);
}

async function encodeText(
  target: Target,
  prompt: string | readonly ChatMessage[],
  name: string,
): Promise<number[]> {
  if (typeof prompt !== 'string') {
    throw new MistletoeError('text', 'A conversation cannot be encoded without a chat template.', {
      hint: 'Give one text, or use a target that has a chat template.',
    });
  }
  refuseLongText(target, prompt, name);
  return encodeRaw(target.tokenizer, prompt);
}

/** Refuses by size before tokenizing. */
export function refuseLongText(target: Target, text: string, name: string): void {
  const fewest = target.tokenizer.minTokens(text);
  if (fewest <= target.model.configuration.contextLength) return;
  throw tooLong(target, `${name} has ${Buffer.byteLength(text)} bytes, which are ${fewest} tokens or more`);
}

function tooLong({ model }: Target, found: string): MistletoeError {
  const { name, configuration } = model;
  return new MistletoeError(
    'context',
    `${found}; the context of ${name} has ${configuration.contextLength}.`,
    { hint: 'Shorten the prompt, or use a model with a longer context.' },
  );
}
