/**
 * Suffixes that the user wants to measure: a text on the command line, or a file.
 * - `.txt`: one suffix per line, taken literally; a leading space is part of it.
 * - `.jsonl`: a JSON string a line, or `{"suffix": text, "prompt"?: id, "drafter"?: id, "chosenOn"?: [sha256]}`, the
 *   shape of a run's suffixes.jsonl; further keys are ignored.
 *
 * Invalid lines (empty, with a control character) are refused. A repeated suffix is measured once: two searches of a run may
 * find the same one.
 */
import { createHash } from 'node:crypto';
import * as z from '../../core/schema.js';
import { parseJson, readTextFile } from '../../core/files.js';
import { MistletoeError } from '../../core/errors.js';
import { fileLimits } from '../../core/limits.js';
import { renderChat, type ChatMessage, type ChatTemplate } from '../template/chat-template.js';

export interface GivenSuffix {
  readonly text: string;
  readonly promptId?: string | undefined;
  readonly drafterId?: string | undefined;
  /** Fingerprints of the prompts that a search chose it on, as far as the file says. */
  readonly chosenOn?: readonly string[] | undefined;
  /** For messages: `suffixes.txt, line 3` or `--suffix`. */
  readonly place: string;
}

const suffixPlaceholder = '{suffix}';
const commandLine = '--suffix';
const shapeHint = 'Write one suffix a line: as it is in a .txt file, as a JSON string or {"suffix": "..."} in a .jsonl file.'; // prettier-ignore

/** Stays the same when only spacing, case, or the place of the suffix changes. */
export function fingerprintPrompt(text: string): string {
  const plain = text
    .replace(suffixPlaceholder, ' ')
    .normalize('NFKC')
    .toLowerCase()
    .replace(/\s+/g, ' ')
    .trim();
  return createHash('sha256').update(plain).digest('hex');
}

export async function parseSuffixes(textOrPath: string): Promise<GivenSuffix[]> {
  const isFileName = /\.(txt|jsonl)$/.test(textOrPath);
  const contents = isFileName ? await readTextFile(textOrPath, fileLimits.suffixes) : undefined;
  if (contents === undefined) {
    if (!isFileName || /\s/.test(textOrPath)) return [checkText({ text: textOrPath, place: commandLine })];
    throw refuse(`The suffix file ${textOrPath} does not exist.`, {
      hint: 'Check the path; a value without blanks that ends in .txt or .jsonl is read as a file.',
    });
  }
  const isJson = textOrPath.endsWith('.jsonl');
  if (contents === '') throw refuse(`${textOrPath} has no suffix in it.`);
  return contents
    .replace(/\r?\n$/, '') // the last line end does not begin another line
    .split(/\r?\n/)
    .map((text, index) => {
      const place = `${textOrPath}, line ${index + 1}`;
      return checkText(isJson ? parseJsonLine(text, place) : { text, place });
    });
}

const idSchema = z.union([z.string().min(1), z.number().transform(String)]).nullish();
const lineSchema = z.union([
  z.string().transform((suffix) => ({ suffix, prompt: undefined, drafter: undefined, chosenOn: undefined })),
  z.object({
    suffix: z.string(),
    prompt: idSchema,
    drafter: idSchema,
    chosenOn: z.array(z.string()).nullish(),
  }),
]);

function parseJsonLine(line: string, place: string): GivenSuffix {
  if (line.trim() === '') return { text: line, place };
  const parsed = lineSchema.safeParse(parseJson(line, `${place},`));
  if (!parsed.success) {
    throw refuse(
      `${place}, is not a suffix: expected a JSON string or "suffix" with optional ids "prompt" and "drafter", ` +
        `saw ${shorten(line)}`,
      { cause: parsed.error },
    );
  }
  const { suffix, prompt, drafter, chosenOn } = parsed.data;
  return {
    text: suffix,
    promptId: prompt ?? undefined,
    drafterId: drafter ?? undefined,
    ...(chosenOn == null ? {} : { chosenOn }),
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
  const kept = new Map<string, GivenSuffix>();
  for (const suffix of suffixes) {
    const { text, promptId, drafterId, place, chosenOn = [] } = suffix;
    const key = JSON.stringify([text, promptId, drafterId]);
    const earlier = kept.get(key);
    if (earlier === undefined) {
      kept.set(key, suffix);
      continue;
    }
    onNotice(
      `${place}: the suffix ${shorten(JSON.stringify(text))} of ${earlier.place} once more; it counts once.`,
    );
    // Every prompt that chose it remains on record.
    if (chosenOn.length > 0)
      kept.set(key, { ...earlier, chosenOn: [...new Set([...(earlier.chosenOn ?? []), ...chosenOn])] });
  }
  return [...kept.values()];
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
