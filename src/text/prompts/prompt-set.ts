/**
 * Prompts from a file, a known name or the command line.
 * - `.jsonl`: one JSON value per line: `{"question_id", "category", "turns": [...], "reference": [...]}`, the shape of
 *   MT-Bench, or `{"prompt": "..."}` with an optional `id`, or a plain JSON string. Blank lines are skipped.
 * - `.txt`: if the file has a blank line between texts, blocks separated by blank lines are the prompts; else each line is one.
 * - `mt-bench`, `humaneval`, `gsm8k`: the file of that set in the folder the caller gives.
 * - anything else is itself the one prompt.
 */
import { join } from 'node:path';
import * as z from '../../core/schema.js';
import { MistletoeError } from '../../core/errors.js';
import { fileLimits, maxPrompts } from '../../core/limits.js';
import { parseJson, readTextFile } from '../../core/files.js';

export interface Prompt {
  readonly id: string;
  readonly category?: string | undefined;
  readonly text: string;
  readonly turns: readonly string[];
  readonly reference?: string | undefined;
}

export const promptSetFiles: Readonly<Record<string, string>> = {
  'mt-bench': 'mt_bench.jsonl',
  humaneval: 'humaneval.jsonl',
  gsm8k: 'gsm8k.jsonl',
};

export const idSchema = z.union([z.string().min(1), z.number()]).transform(String);
export const textSchema = z.string().refine((text) => text.trim() !== '', 'the text is empty');
const referenceSchema = z.union([z.string(), z.array(z.string())]).nullish();
const described = z.object({
  question_id: idSchema.optional(),
  id: idSchema.optional(),
  category: z.string().nullish(),
  reference: referenceSchema,
});
const lineSchema = z.union([
  textSchema.transform((text) => ({ turns: [text] })),
  described.extend({ turns: z.array(textSchema).min(1) }),
  described.extend({ prompt: textSchema }).transform(({ prompt, ...rest }) => ({ ...rest, turns: [prompt] })),
]);

export interface PromptOptions {
  /** The folder that holds the files of the sets known by name. */
  readonly folder?: string | undefined;
}

export async function loadPrompts(
  source: string,
  { folder }: PromptOptions = {},
): Promise<readonly Prompt[]> {
  const known = Object.hasOwn(promptSetFiles, source) ? promptSetFiles[source] : undefined;
  if (known !== undefined && folder === undefined) {
    throw new MistletoeError(
      'text',
      `The prompt set ${source} is read from ${known}, but no folder was given.`,
      { hint: `Give the folder that holds ${known}, or the path of the file itself.` },
    );
  }
  const path = known === undefined || folder === undefined ? source : join(folder, known);
  if (!/\.(jsonl|txt)$/.test(path)) return [inlinePrompt(source)];
  const contents = await readTextFile(path, fileLimits.promptSet);
  if (contents === undefined) {
    throw new MistletoeError('text', `The prompt file ${path} does not exist.`, {
      hint: 'Check the path; sources that end in .jsonl or .txt are read as files.',
    });
  }
  const prompts = path.endsWith('.jsonl') ? parsePromptLines(contents, path) : parsePlainPrompts(contents);
  if (prompts.length > maxPrompts) {
    throw new MistletoeError(
      'text',
      `The prompt file ${path} has more than ${maxPrompts} prompts, the most that one file may have.`,
      { hint: 'Keep the prompts that you need, or divide them among several files.' },
    );
  }
  if (prompts.length > 0) return prompts;
  throw new MistletoeError('text', `The prompt file ${path} has no prompt in it.`, {
    hint: 'Write at least one line into it.',
  });
}

export function inlinePrompt(text: string): Prompt {
  if (text.trim() === '') {
    throw new MistletoeError('text', 'The prompt is empty.', { hint: 'Give a text or a prompt file.' });
  }
  return { id: 'prompt', text, turns: [text] };
}

/** Up to one more than may be, as of plain prompts. */
function parsePromptLines(contents: string, path: string): readonly Prompt[] {
  const lineOfId = new Map<string, number>();
  const prompts: Prompt[] = [];
  let number = 0;
  for (const line of listLines(contents)) {
    number += 1;
    if (prompts.length > maxPrompts) break;
    if (line.trim() === '') continue;
    const prompt = parsePromptLine(line, `line-${number}`, `${path}, line ${number},`);
    const earlier = lineOfId.get(prompt.id);
    if (earlier !== undefined) {
      throw new MistletoeError(
        'text',
        `${path}, line ${number}, has the id ${prompt.id}, which line ${earlier} has already.`,
        { hint: 'Results are kept by id; give each prompt its own.' },
      );
    }
    lineOfId.set(prompt.id, number);
    prompts.push(prompt);
  }
  return prompts;
}

/** One by one: a list of all would take far more memory than a text of short lines. */
function* listLines(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const found = text.indexOf('\n', start);
    const end = found < 0 ? text.length : found;
    yield text.slice(start, end).replace(/\r$/, '');
    start = end + 1;
  }
}

function parsePromptLine(line: string, fallbackId: string, place: string): Prompt {
  const parsed = lineSchema.safeParse(parseJson(line, place));
  if (!parsed.success) {
    throw new MistletoeError(
      'text',
      `${place} is not a prompt: expected "turns" (a list of texts, none empty), "prompt" (a text) or a JSON string, ` +
        `saw ${line.length > 80 ? `${line.slice(0, 80)}...` : line}`,
      { hint: 'examples/prompts.jsonl shows the shape.', cause: parsed.error },
    );
  }
  const fields: Partial<z.infer<(typeof lineSchema.options)[1]>> & { turns: string[] } = parsed.data;
  const { turns, category } = fields;
  const reference = typeof fields.reference === 'string' ? fields.reference : fields.reference?.[0];
  const id = fields.question_id ?? fields.id ?? fallbackId;
  return { id, text: turns[0]!, turns, category: category ?? undefined, reference };
}

function parsePlainPrompts(contents: string): readonly Prompt[] {
  const text = contents
    .replaceAll('\r\n', '\n')
    .replace(/^(?:[^\S\n]*\n)+/, '')
    .trimEnd();
  const separator = /\n[^\S\n]*\n/.test(text) ? /\n(?:[^\S\n]*\n)+/ : '\n';
  const parts = text.split(separator, maxPrompts + 1);
  return parts
    .filter((part) => part.trim() !== '')
    .map((part, index) => ({ id: `prompt-${index + 1}`, text: part, turns: [part] }));
}
