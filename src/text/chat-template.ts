import { join } from 'node:path';
import { Template } from '@huggingface/jinja';
import { describeCause, MistletoeError } from '../core/errors.js';
import { readTextFile } from './text-file.js';
import { readTokenizerConfig, type TokenizerConfig } from './tokenizer-config.js';
import type { Tokenizer } from './tokenizer.js';

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
}

export interface ChatTemplate {
  /** Where it was read, for messages. */
  readonly origin: string;
  readonly program: Template;
  readonly specialTokens: TokenizerConfig['specialTokens'];
}

export interface RenderOptions {
  /** Ends the text where the assistant's answer begins. Default true. */
  readonly addGenerationPrompt?: boolean;
}

/** chat_template.jinja wins over the `chat_template` of tokenizer_config.json, as in transformers. */
export async function loadChatTemplate(folder: string): Promise<ChatTemplate | undefined> {
  const path = join(folder, 'chat_template.jinja');
  const config = await readTokenizerConfig(folder);
  const own = await readTextFile(path);
  const origin = own === undefined ? join(folder, 'tokenizer_config.json') : path;
  const source = own ?? selectTemplate(config, origin);
  if (source === undefined) return undefined;
  try {
    return { origin, program: new Template(source), specialTokens: config.specialTokens };
  } catch (cause) {
    throw new MistletoeError(
      'text',
      `The chat template in ${origin} cannot be parsed: ${describeCause(cause)}.`,
      { hint: 'Use --raw to do without it, or put a corrected chat_template.jinja into the folder.', cause },
    );
  }
}

/** Like loadChatTemplate, for callers that cannot do without one. */
export async function requireChatTemplate(folder: string): Promise<ChatTemplate> {
  const template = await loadChatTemplate(folder);
  if (template !== undefined) return template;
  throw new MistletoeError(
    'text',
    `${folder} has no chat template: neither chat_template.jinja nor chat_template in tokenizer_config.json.`,
    { hint: 'Use --raw to send the text as it is, or add a chat_template.jinja to the folder.' },
  );
}

function selectTemplate(config: TokenizerConfig, origin: string): string | undefined {
  const templates = config.chatTemplate;
  if (templates === undefined || typeof templates === 'string') return templates;
  const chosen = templates.find(({ name }) => name === 'default');
  if (chosen !== undefined) return chosen.template;
  const names = templates.map(({ name }) => name).join(', ');
  throw new MistletoeError(
    'text',
    `${origin} lists chat templates, but none is named default (found: ${names === '' ? 'none' : names}).`,
    { hint: 'Put the template to use into chat_template.jinja.' },
  );
}

export function renderChat(
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  { addGenerationPrompt = true }: RenderOptions = {},
): string {
  try {
    return template.program.render({
      ...template.specialTokens,
      messages: messages.map(({ role, content }) => ({ role, content })),
      add_generation_prompt: addGenerationPrompt,
    });
  } catch (cause) {
    throw new MistletoeError(
      'text',
      `The chat template in ${template.origin} refused the conversation: ${describeCause(cause)}.`,
      { hint: 'Check the order of roles; some templates take no system message.', cause },
    );
  }
}

/**
 * Encodes a rendered chat. Some templates write the beginning-of-sequence token themselves, others leave it to the
 * tokenizer; either way it stands at the beginning once.
 */
export async function encodeRendered(tokenizer: Tokenizer, rendered: string): Promise<number[]> {
  const ids = await tokenizer.encode(rendered);
  const [first, second] = ids;
  const isDoubled = first !== undefined && first === second && tokenizer.isSpecial(first);
  return isDoubled ? tokenizer.encode(rendered, { addSpecialTokens: false }) : ids;
}

export async function encodeChat(
  tokenizer: Tokenizer,
  template: ChatTemplate,
  messages: readonly ChatMessage[],
  options: RenderOptions = {},
): Promise<number[]> {
  return encodeRendered(tokenizer, renderChat(template, messages, options));
}
