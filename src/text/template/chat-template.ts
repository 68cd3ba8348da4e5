/**
 * Renders conversations exactly as transformers' apply_chat_template: the template writes all special tokens, the
 * tokenizer adds none. Only built-in formats follow other code, which may leave them to the tokenizer.
 */
import { join } from 'node:path';
import type { Template } from '@huggingface/jinja';
import { isGgufFile } from '../../checkpoint/gguf/open-gguf.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { fileLimits } from '../../core/limits.js';
import { readTextFile } from '../../core/files.js';
import { readTokenizerConfig, type TokenizerConfig } from '../tokenizer/tokenizer-config.js';
import type { Tokenizer } from '../tokenizer/tokenizer.js';
import { builtInTemplateNames, findBuiltInTemplate, recogniseTemplate } from './built-in-templates.js';
import { parseDay, today, type CalendarDay } from './calendar-day.js';
import { parseTemplate, runTemplate } from './template-program.js';

export interface ChatMessage {
  readonly role: 'system' | 'user' | 'assistant';
  readonly content: string;
  /** For templates that show the speaker's name. */
  readonly name?: string | undefined;
}

export interface ChatTemplate {
  readonly origin: string;
  readonly program: Template;
  readonly specialTokens: TokenizerConfig['specialTokens'];
  /** The date for the template, fixed when it is loaded. */
  readonly date: CalendarDay;
  readonly asksForDate: boolean;
  /** Whether the tokenizer puts its special tokens around the rendered text. */
  readonly addSpecialTokens: boolean;
}

/** A template from outside the model's folder. */
export interface TemplateText {
  readonly source: string;
  readonly origin: string;
  readonly addSpecialTokens?: boolean | undefined;
}

export interface TemplateOptions {
  /** Replaces the folder's own template: the name of a built-in one, a file, or the result of readTemplate. */
  readonly chatTemplate?: string | TemplateText | undefined;
  /** YYYY-MM-DD; default the day on which the template is loaded. */
  readonly date?: CalendarDay | undefined;
}

/**
 * The given template; else the folder's own, where chat_template.jinja wins over the `chat_template` of
 * tokenizer_config.json as in transformers; else the built-in one of a known release without a template.
 */
export async function loadChatTemplate(
  folder: string,
  { chatTemplate, date = today() }: TemplateOptions = {},
): Promise<ChatTemplate | undefined> {
  parseDay(date, 'The date of the chat template');
  const config = await readTokenizerConfig(folder);
  const given = typeof chatTemplate === 'string' ? await readTemplate(chatTemplate) : chatTemplate;
  const found = given ?? (await findTemplate(folder, config));
  if (found === undefined) return undefined;
  const { source, origin, addSpecialTokens = false } = found;
  try {
    const program = parseTemplate(source);
    const asksForDate = source.includes('strftime_now');
    return { origin, program, specialTokens: config.specialTokens, date, asksForDate, addSpecialTokens };
  } catch (cause) {
    throw new MistletoeError(
      'text',
      `The chat template in ${origin} cannot be parsed: ${describeCause(cause)}.`,
      { hint: 'Use --raw to do without it, or put a corrected chat_template.jinja into the folder.', cause },
    );
  }
}

export async function requireChatTemplate(
  folder: string,
  options: TemplateOptions = {},
): Promise<ChatTemplate> {
  const template = await loadChatTemplate(folder, options);
  if (template !== undefined) return template;
  throw new MistletoeError(
    'text',
    `${folder} has no chat template: neither chat_template.jinja nor chat_template in tokenizer_config.json.`,
    {
      hint:
        'Use --raw to send the text as it is, or add a chat_template.jinja to the folder, ' +
        `or choose one by --chat-template: ${builtInTemplateNames.join(', ')} or a file.`,
    },
  );
}

export async function readTemplate(given: string): Promise<TemplateText> {
  const known = findBuiltInTemplate(given);
  if (known !== undefined) return { ...known, origin: `built in: ${given}` };
  const source = await readTextFile(given, fileLimits.template);
  if (source !== undefined) return { source, origin: given };
  throw new MistletoeError(
    'text',
    `The chat template ${given} is not there; a file, or one of ${builtInTemplateNames.join(', ')} was expected.`,
    { hint: 'Check the path, or leave --chat-template out to use the template of the model’s folder.' },
  );
}

async function findTemplate(folder: string, config: TokenizerConfig): Promise<TemplateText | undefined> {
  const path = join(folder, 'chat_template.jinja');
  const own = await readTextFile(path, fileLimits.template);
  if (own !== undefined) return { source: own, origin: path };
  const configPath = isGgufFile(folder) ? folder : join(folder, 'tokenizer_config.json');
  const configured = selectTemplate(config, configPath);
  if (configured !== undefined) return { source: configured, origin: configPath };
  const name = await recogniseTemplate(folder);
  return name === undefined ? undefined : readTemplate(name);
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
  addGenerationPrompt = true,
): string {
  const variables = {
    ...template.specialTokens,
    messages: messages.map(({ role, content, name }) =>
      name === undefined ? { role, content } : { role, content, name },
    ),
    add_generation_prompt: addGenerationPrompt,
    // transformers always passes these two; templates test `is not none` rather than `is defined`.
    tools: null,
    documents: null,
  };
  try {
    return runTemplate(template.program, variables, template.date);
  } catch (cause) {
    throw new MistletoeError(
      'text',
      `The chat template in ${template.origin} refused the conversation: ${describeCause(cause).slice(0, 300)}.`,
      {
        hint:
          cause instanceof MistletoeError && cause.hint !== undefined
            ? cause.hint
            : 'Check the order of roles; some templates take no system message.',
        cause,
      },
    );
  }
}

export async function encodeRendered(
  tokenizer: Tokenizer,
  { addSpecialTokens }: Pick<ChatTemplate, 'addSpecialTokens'>,
  rendered: string,
): Promise<number[]> {
  return tokenizer.encode(rendered, { addSpecialTokens });
}

/**
 * Encodes a text that goes to the model as it is. The tokenizer puts the beginning-of-sequence token before it; where
 * the text was written out from a template and begins with that token already, it still stands there once.
 */
export async function encodeRaw(tokenizer: Tokenizer, text: string): Promise<number[]> {
  const ids = await tokenizer.encode(text);
  const [first, second] = ids;
  const isDoubled = first !== undefined && first === second && tokenizer.isSpecial(first);
  return isDoubled ? tokenizer.encode(text, { addSpecialTokens: false }) : ids;
}

// Role markers of a chat template, such as `USER:` or `<|im_start|>`. A suffix that spells one is a different
// conversation, not a different suffix.

/** Stands in for the messages; no template contains it. */
const content = '\u0001';
const turns: readonly ChatMessage[] = [
  { role: 'user', content },
  { role: 'assistant', content },
  { role: 'user', content },
];

/** The markers around user and assistant messages, and every special token; in lower case. */
export function listRoleMarkers(
  template: ChatTemplate | undefined,
  tokenizer: Pick<Tokenizer, 'specialIds' | 'tokenText'>,
): readonly string[] {
  const special = [...tokenizer.specialIds].map((id) => tokenizer.tokenText(id));
  let rendered = '';
  try {
    if (template !== undefined) rendered = renderChat(template, turns);
  } catch {
    rendered = renderChat(template!, turns.slice(0, 1)); // some templates refuse a conversation of several turns
  }
  const [head = '', ...others] = rendered.split(content);
  // A system prompt may precede the first marker, so only its last word counts.
  const words = [/\S+\s*$/.exec(head)?.[0] ?? '', ...others].flatMap(
    (part) => part.match(/<[^<>\s]*>|[^\s<>]+/g) ?? [],
  );
  // Bare words such as "user" between special tokens are ordinary text.
  const markers = words.filter((word) => word.length > 1 && /[^\p{L}\p{N}]/u.test(word));
  return [...new Set([...markers, ...special].map((marker) => marker.toLowerCase()))].filter(
    (marker) => marker.trim() !== '',
  );
}

/** The markers that `text` adds between `before` and `after`, spelled across their borders or inside. */
export function findAddedMarkers(
  { before, after }: { readonly before: string; readonly after: string },
  text: string,
  markers: readonly string[],
): readonly string[] {
  const clean = (before + after).toLowerCase();
  const whole = (before + text + after).toLowerCase();
  return markers.filter((marker) => countOf(whole, marker) !== countOf(clean, marker));
}

const countOf = (text: string, part: string): number => text.split(part).length - 1;
