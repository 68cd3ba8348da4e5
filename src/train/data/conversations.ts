/**
 * Conversations from a JSON lines file. Each line has one of these shapes:
 * - `{"messages": [{"role": "system" | "user" | "assistant", "content": text}, ...]}`
 * - `{"conversations": [{"from": "system" | "human" | "gpt", "value": text}, ...]}` (ShareGPT)
 * - `{"turns": [text, ...]}`, the user's turns without answers (MT-Bench)
 * - `{"prompt": text, "answer"?: text}`, or `question` instead of `prompt`; or the prompt as a JSON string
 * Optional: `id` or `question_id`, unique in the file; the default is the line number. Other keys are ignored. An
 * answer at the start of a ShareGPT conversation is dropped.
 */
import * as z from '../../core/schema.js';
import { isMissing } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { showValue } from '../../core/json-text.js';
import { idSchema, textSchema } from '../../text/prompts/prompt-set.js';
import type { ChatMessage } from '../../text/template/chat-template.js';
import { type FileLine, parseFileLine, readFileLines } from '../../runs/json-lines.js';

export interface Conversation {
  readonly id: string;
  /**
   * An optional system message, then user and assistant in turn. A user message without an assistant message after it
   * has no answer yet.
   */
  readonly messages: readonly ChatMessage[];
}

const ids = { id: idSchema.nullish(), question_id: idSchema.nullish() };
const roleSchema = z.enum(['system', 'user', 'assistant']);
const speakerRoles = { system: 'system', human: 'user', gpt: 'assistant' } as const;
const speakerSchema = z.enum(['system', 'human', 'gpt']).transform((speaker) => speakerRoles[speaker]);

interface ParsedLine {
  readonly id?: string | null | undefined;
  readonly question_id?: string | null | undefined;
  readonly messages: readonly ChatMessage[];
}

interface Shape {
  readonly schema: z.ZodType<ParsedLine>;
  readonly expected: string;
}

const single = (key: 'prompt' | 'question'): Shape => ({
  schema: z.object({ ...ids, [key]: textSchema, answer: textSchema.nullish() }).transform((line) => {
    const { id, question_id, answer, [key]: asked } = line as Partial<Record<string, string | null>>;
    const messages: ChatMessage[] = [{ role: 'user', content: asked! }];
    if (answer != null) messages.push({ role: 'assistant', content: answer });
    return { id, question_id, messages };
  }),
  expected: 'a text, and "answer" a text where there is one, both not empty',
});

/** By the key that identifies it, so that errors refer to the intended shape. */
const shapes: Readonly<Record<string, Shape>> = {
  messages: {
    schema: z.object({ ...ids, messages: z.array(z.object({ role: roleSchema, content: textSchema })) }),
    expected: 'a list of {"role": "system", "user" or "assistant", "content": a text that is not empty}',
  },
  conversations: {
    schema: z
      .object({ ...ids, conversations: z.array(z.object({ from: speakerSchema, value: textSchema })) })
      .transform(({ conversations, ...rest }) => ({
        ...rest,
        messages: conversations.map(({ from, value }) => ({ role: from, content: value })),
      })),
    expected: 'a list of {"from": "system", "human" or "gpt", "value": a text that is not empty}',
  },
  turns: {
    schema: z.object({ ...ids, turns: z.array(textSchema).min(1) }).transform(({ turns, ...rest }) => ({
      ...rest,
      messages: turns.map((content) => ({ role: 'user' as const, content })),
    })),
    expected: 'a list of what the user says, at least one text and none empty',
  },
  prompt: single('prompt'),
  question: single('question'),
};
const shapeNames = Object.keys(shapes)
  .map((key) => `"${key}"`)
  .join(', ');

/** In the order of the file; the first invalid line is refused. */
export async function readConversations(path: string): Promise<readonly Conversation[]> {
  const conversations: Conversation[] = [];
  const lineOfId = new Map<string, number>();
  try {
    for await (const line of readFileLines(path)) {
      const conversation = parseConversation(line, `${path}, line ${line.number},`);
      if (conversation === undefined) continue;
      const earlier = lineOfId.get(conversation.id);
      if (earlier !== undefined) {
        throw refuse(
          `${path}, line ${line.number}, has the id ${conversation.id}, which line ${earlier} has already.`,
          { hint: 'Answers are kept by id; give each conversation its own.' },
        );
      }
      lineOfId.set(conversation.id, line.number);
      conversations.push(conversation);
    }
  } catch (cause) {
    if (cause instanceof MistletoeError) throw cause;
    const [fault, hint] = isMissing(cause)
      ? [`The file ${path} does not exist.`, 'Check the path.']
      : [
          `${path} cannot be read: ${describeCause(cause)}.`,
          'Give a file that you may read, with one conversation a line.',
        ];
    throw refuse(fault, { hint, cause });
  }
  if (conversations.length > 0) return conversations;
  throw refuse(`${path} has no conversation in it.`, { hint: 'Write at least one line into it.' });
}

/** Undefined for a blank line. */
function parseConversation(line: FileLine, place: string): Conversation | undefined {
  const read = parseFileLine(line);
  if ('fault' in read) throw refuse(`${place} ${read.fault}.`);
  const { value } = read;
  if (value === undefined) return undefined;
  const object = typeof value === 'string' ? { prompt: value } : value;
  const key = Object.keys(shapes).find(
    (name) => typeof object === 'object' && object !== null && Object.hasOwn(object, name),
  );
  if (key === undefined)
    throw refuse(
      `${place} is not a conversation: expected an object with one of ${shapeNames}, saw ${showValue(value)}.`,
    );
  const { schema, expected } = shapes[key]!;
  const parsed = schema.safeParse(object);
  if (!parsed.success) {
    const path = parsed.error.issues[0]?.path ?? [];
    const found = path.reduce<unknown>(
      (inner, step) => (inner as Readonly<Record<PropertyKey, unknown>> | undefined)?.[step],
      object,
    );
    throw refuse(
      `${place} is not a conversation: "${key}" should be ${expected}; ${path.join('.')} is ${showValue(found)}.`,
      { cause: parsed.error },
    );
  }
  const { id, question_id: questionId, messages } = parsed.data;
  return {
    id: id ?? questionId ?? `line-${line.number}`,
    messages: key === 'turns' ? messages : takeTurns(messages, place),
  };
}

/** Drops an answer at the start; refuses messages that do not alternate. */
function takeTurns(messages: readonly ChatMessage[], place: string): readonly ChatMessage[] {
  const system = messages[0]?.role === 'system' ? messages.slice(0, 1) : [];
  const rest = messages.slice(system.length);
  const turns = rest[0]?.role === 'assistant' ? rest.slice(1) : rest;
  if (turns.length === 0) throw refuse(`${place} is not a conversation: no message of a user is in it.`);
  const isOdd = ({ role }: ChatMessage, index: number): boolean =>
    role !== (index % 2 === 0 ? 'user' : 'assistant');
  const odd = turns.findIndex(isOdd);
  if (odd < 0) return [...system, ...turns];
  const number = odd + 1 + messages.length - turns.length;
  throw refuse(
    `${place} is not a conversation: message ${number} is of the role ${turns[odd]!.role}, ` +
      `but one of the ${odd % 2 === 0 ? 'user' : 'assistant'} was expected there.`,
    { hint: 'After an optional system message, user and assistant take turns; join or remove messages.' },
  );
}

function refuse(message: string, details: { hint?: string; cause?: unknown } = {}): MistletoeError {
  return new MistletoeError('text', message, {
    hint: `Write one conversation a line, as a JSON object with one of ${shapeNames}; or remove the line.`,
    ...details,
  });
}
