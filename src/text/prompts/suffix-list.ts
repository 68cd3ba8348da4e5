/**
 * Suffixes that the user wants to measure: a text on the command line, or a file.
 * - `.txt`: one suffix per line, taken literally; a leading space is part of it.
 * - `.jsonl`: a JSON string a line, or `{"suffix": text, "prompt"?: id, "drafter"?: id}`, the shape of a run's
 *   suffixes.jsonl; further keys are ignored.
 *
 * Invalid lines (empty, with a control character) are refused. A repeated suffix is measured once: two searches of a run may
 * find the same one.
 */
import { z } from 'zod';
import { isMissing, readBoundedFile } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { parseJsonText } from '../../core/json-text.js';
import { fileLimits } from '../../core/limits.js';
import { renderChat, type ChatMessage, type ChatTemplate } from '../template/chat-template.js';

export interface GivenSuffix {
  readonly text: string;
  readonly promptId?: string | undefined;
  readonly drafterId?: string | undefined;
  /** For messages: `suffixes.txt, line 3` or `--suffix`. */
  readonly place: string;
}

const commandLine = '--suffix';
const shapeHint = 'Write one suffix a line: as it is in a .txt file, as a JSON string or {"suffix": "..."} in a .jsonl file.'; // prettier-ignore

export async function parseSuffixes(textOrPath: string): Promise<GivenSuffix[]> {
  const bytes = /\.(txt|jsonl)$/.test(textOrPath) ? await readSuffixFile(textOrPath) : undefined;
  if (bytes === undefined) return [checkText({ text: textOrPath, place: commandLine })];
  const isJson = textOrPath.endsWith('.jsonl');
  const suffixes = splitLines(bytes, textOrPath).map((text, index) => {
    const place = `${textOrPath}, line ${index + 1}`;
    return checkText(isJson ? parseJsonLine(text, place) : { text, place });
  });
  if (suffixes.length === 0) throw refuse(`${textOrPath} has no suffix in it.`);
  return suffixes;
}

/** Undefined if the value is a text that only ends like a file name. */
async function readSuffixFile(path: string): Promise<Buffer | undefined> {
  try {
    return await readBoundedFile(path, fileLimits.suffixes);
  } catch (cause) {
    // A word without blanks that ends in .txt is a mistyped path, not a suffix.
    if (isMissing(cause) && /\s/.test(path)) return undefined;
    throw refuse(`The suffix file ${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Check the path; a value without blanks that ends in .txt or .jsonl is read as a file.',
      cause,
    });
  }
}

/** The last line end does not begin another line. CRLF also ends a line. */
function splitLines(bytes: Buffer, path: string): readonly string[] {
  try {
    const lines = new TextDecoder('utf-8', { fatal: true }).decode(bytes).split(/\r?\n/);
    return lines.at(-1) === '' ? lines.slice(0, -1) : lines;
  } catch (cause) {
    throw refuse(`${path} is not UTF-8 text.`, { hint: 'Convert the file to UTF-8.', cause });
  }
}

const idSchema = z.union([z.string().min(1), z.number().transform(String)]).nullish();
const lineSchema = z.union([
  z.string().transform((suffix) => ({ suffix, prompt: undefined, drafter: undefined })),
  z.object({ suffix: z.string(), prompt: idSchema, drafter: idSchema }),
]);

function parseJsonLine(line: string, place: string): GivenSuffix {
  if (line.trim() === '') return { text: line, place };
  let value: unknown;
  try {
    value = parseJsonText(line);
  } catch (cause) {
    throw refuse(`${place}, is not valid JSON: ${describeCause(cause)}.`, { cause });
  }
  const parsed = lineSchema.safeParse(value);
  if (!parsed.success) {
    throw refuse(
      `${place}, is not a suffix: expected a JSON string or "suffix" with optional ids "prompt" and "drafter", ` +
        `saw ${shorten(line)}`,
      { cause: parsed.error },
    );
  }
  const { suffix, prompt, drafter } = parsed.data;
  return {
    text: suffix,
    ...(typeof prompt === 'string' ? { promptId: prompt } : {}),
    ...(typeof drafter === 'string' ? { drafterId: drafter } : {}),
    place,
  };
}

function checkText(suffix: GivenSuffix): GivenSuffix {
  const { text } = suffix;
  const subject = suffix.place === commandLine ? suffix.place : `${suffix.place},`;
  if (text === '') throw refuse(`${subject} is empty; a suffix was expected.`);
  const control = /\p{Cc}/u.exec(text)?.[0];
  if (control !== undefined) {
    const code = control.charCodeAt(0).toString(16).toUpperCase().padStart(4, '0');
    throw refuse(`${subject} has the control character U+${code}; a suffix is one line of visible text.`, {
      hint: 'Remove it; line ends and tabs cannot be part of a suffix.',
    });
  }
  if (text.trim() === '') throw refuse(`${subject} has nothing but white space; a suffix was expected.`);
  if (/\p{Cs}/u.test(text)) throw refuse(`${subject} has half of a surrogate pair; it is not text.`);
  return suffix;
}

/** Without duplicates for the same prompt and drafter, which would count twice. */
export function dropRepeated(
  suffixes: readonly GivenSuffix[],
  onNotice: (message: string) => void = () => undefined,
): GivenSuffix[] {
  const places = new Map<string, string>();
  return suffixes.filter(({ text, promptId, drafterId, place }) => {
    const key = JSON.stringify([text, promptId, drafterId]);
    const earlier = places.get(key);
    if (earlier === undefined) {
      places.set(key, place);
      return true;
    }
    onNotice(
      `${place}: the suffix ${shorten(JSON.stringify(text))} of ${earlier} once more; it counts once.`,
    );
    return false;
  });
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}

function refuse(message: string, details: { hint?: string; cause?: unknown } = {}): MistletoeError {
  return new MistletoeError('text', message, { hint: shapeHint, ...details });
}

// The position of a suffix in a prompt: at `{suffix}` if the text has it, else directly after the user's text, before the
// rest of the chat template. Nothing is inserted between, so the empty suffix gives exactly the clean prompt. A suffix
// that should be a separate word starts with a space.
const suffixPlaceholder = '{suffix}';

export function splitAroundSuffix(text: string) {
  const [before, after, ...more] = text.split(suffixPlaceholder);
  if (more.length > 0) {
    throw refuse(`The prompt has ${suffixPlaceholder} ${more.length + 1} times; it may stand there once.`, {
      hint: `Keep the one ${suffixPlaceholder} where the suffix belongs.`,
    });
  }
  return { before: before ?? '', after: after ?? '' };
}

/**
 * The rendered text around the suffix. `before + suffix + after` is the real rendering unless the template alters the
 * user's text, for example by trimming a suffix that ends in a space: compare with renderChatWithSuffix where it matters.
 */
export function splitChatAroundSuffix(template: ChatTemplate, conversation: string | readonly ChatMessage[]) {
  let marker = 'SuffixGoesHere';
  while (JSON.stringify(conversation).includes(marker)) marker += 'X';
  const parts = renderChatWithSuffix(template, conversation, marker).split(marker);
  const [before, after] = parts;
  if (parts.length !== 2 || before === undefined || after === undefined) {
    throw refuse(
      `The chat template in ${template.origin} writes the user's text ${parts.length - 1} times; ` +
        'a suffix needs it exactly once.',
      { hint: 'Use --raw with the prompt written out, or another chat_template.jinja.' },
    );
  }
  return { before, after };
}

/** Renders the chat with the suffix in its last user message. */
export function renderChatWithSuffix(
  template: ChatTemplate,
  conversation: string | readonly ChatMessage[],
  suffix: string,
): string {
  const messages: readonly ChatMessage[] =
    typeof conversation === 'string' ? [{ role: 'user', content: conversation }] : conversation;
  const last = messages.findLastIndex(({ role }) => role === 'user');
  if (last < 0) throw new MistletoeError('text', 'The conversation has no user message to carry a suffix.');
  const { before, after } = splitAroundSuffix(messages[last]!.content);
  return renderChat(template, messages.with(last, { role: 'user', content: before + suffix + after }));
}
