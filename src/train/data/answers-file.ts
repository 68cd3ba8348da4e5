/**
 * answers.jsonl of a run: one line per conversation, in the order in which they finished. Lines are only appended. A kill
 * can leave a partial last line, which is cut when the file is opened again.
 */
import { existsSync, ftruncateSync } from 'node:fs';
import { join, resolve } from 'node:path';
import * as z from '../../core/schema.js';
import { changeFileSync, copyFileSync, replaceFileSync } from '../../core/durable-files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { isMissing } from '../../core/files.js';
import { parseJsonText } from '../../core/json-text.js';
import { type FileLine, parseFileLine, readFileLines } from '../../runs/json-lines.js';
import { configFile } from '../../runs/run-units.js';
import { appendText, explainFailure, readIfThere, syncFile } from '../../runs/run-writes.js';
import { parseDay, today } from '../../text/template/calendar-day.js';

const isTokenIds = (value: unknown): value is number[] =>
  Array.isArray(value) && value.every((id) => Number.isInteger(id) && id >= 0 && id < 2 ** 31);
const tokenIds = z
  .custom<number[]>(isTokenIds, 'a list of token ids was expected')
  .transform((ids) => Int32Array.from(ids));
const turnSchema = z.object({
  /** How many ids the prompt shares with the previous turn and its answer, from the beginning. */
  kept: z.int().nonnegative(),
  prompt: tokenIds,
  /** As generated, including the stop token. */
  answer: tokenIds,
  /** How decoding ended the answer, or `given` if the data had it. */
  ended: z.enum(['stop', 'length', 'context', 'given']),
});
export type AnsweredTurn = Readonly<z.infer<typeof turnSchema>>;

const lineSchema = z.object({
  id: z.string().min(1),
  /** Digest of the question and the settings. */
  asked: z.string().min(1),
  turns: z.array(turnSchema),
  /** Whether the last turns are missing because the context was full. */
  cut: z.boolean(),
});
type AnswerLine = z.infer<typeof lineSchema>;
export type AnsweredConversation = Readonly<Omit<AnswerLine, 'asked'>>;

/** Lines between two fsyncs: a power cut can lose these, a kill none. */
const linesPerSync = 64;

export class AnswersFile {
  private unsynced = 0;
  private hasFailed = false;

  private constructor(
    private readonly path: string,
    private readonly answered: Map<string, AnsweredConversation>,
  ) {}

  /** `asked`: ids of the wanted conversations with their digests. Lines of other conversations stay in the file. */
  static async open(path: string, asked: ReadonlyMap<string, string>): Promise<AnswersFile> {
    const { answered, end } = await readAnswers(path, asked);
    explainFailure(path, 'train', () => {
      appendText(path, '', { command: 'train' });
      changeFileSync(path, (file) => {
        ftruncateSync(file, end);
      });
    });
    return new AnswersFile(path, answered);
  }

  get(id: string): AnsweredConversation | undefined {
    return this.answered.get(id);
  }

  add(conversation: AnsweredConversation, asked: string): void {
    const { id, cut } = conversation;
    const turns = conversation.turns.map((turn) => {
      return { ...turn, prompt: Array.from(turn.prompt), answer: Array.from(turn.answer) };
    });
    // After a partial line, another line would be lost with it.
    if (this.hasFailed) return;
    this.hasFailed = true;
    const durable = ++this.unsynced % linesPerSync === 0;
    const line = JSON.stringify({ id, asked, turns, cut });
    appendText(this.path, `${line}\n`, { durable, command: 'train' });
    this.hasFailed = false;
    this.answered.set(id, conversation);
  }

  close(): void {
    syncFile(this.path, 'train');
  }
}

async function readAnswers(
  path: string,
  asked: ReadonlyMap<string, string>,
): Promise<{ answered: Map<string, AnsweredConversation>; end: number }> {
  const answered = new Map<string, AnsweredConversation>();
  let end = 0;
  try {
    for await (const line of readFileLines(path)) {
      if (!line.isClosed) break;
      end = line.end;
      const place = `${path}, line ${line.number},`;
      const conversation = parseAnswer(line, place, asked);
      if (conversation === undefined) continue;
      if (answered.has(conversation.id))
        throw damaged(`${place} answers the conversation ${conversation.id} a second time.`);
      answered.set(conversation.id, conversation);
    }
  } catch (cause) {
    if (isMissing(cause)) return { answered, end: 0 };
    if (cause instanceof MistletoeError) throw cause;
    throw new MistletoeError('usage', `${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Put the file itself there, or begin the run anew in another folder.',
      cause,
    });
  }
  return { answered, end };
}

/** Undefined for a conversation that is not wanted. */
function parseAnswer(
  line: FileLine,
  place: string,
  asked: ReadonlyMap<string, string>,
): AnsweredConversation | undefined {
  const read = parseFileLine(line);
  if ('fault' in read) throw damaged(`${place} ${read.fault}.`);
  const parsed = lineSchema.safeParse(read.value);
  if (!parsed.success || !parsed.data.turns.every(beginsInTurnBefore)) {
    const fault = parsed.error ? z.phraseFault(parsed.error) : 'a turn keeps more than there is';
    throw damaged(`${place} is not an answered conversation: ${fault}.`);
  }
  const { asked: digest, ...conversation } = parsed.data;
  const { id } = conversation;
  const wanted = asked.get(id);
  if (wanted === undefined) return undefined;
  if (wanted === digest) return conversation;
  throw new MistletoeError(
    'usage',
    `${place} answers the conversation ${id}, but its text or the way in which it is asked has changed since.`,
    { hint: 'Go on with the data and the settings of the run, or begin a new one in another folder.' },
  );
}

function beginsInTurnBefore({ kept }: AnsweredTurn, index: number, turns: readonly AnsweredTurn[]): boolean {
  const before = turns[index - 1];
  return kept <= (before === undefined ? 0 : before.kept + before.prompt.length + before.answer.length);
}

function damaged(message: string): MistletoeError {
  return new MistletoeError('usage', message, {
    hint: 'Remove that line, and the conversation is asked again; or begin the run anew in another folder.',
  });
}

/**
 * Reuses the answers of an earlier run with the same target and the same settings; generating them is a large part of the
 * cost of training. They are copied into the new run. Missing answers are generated.
 */
export const answersFile = 'answers.jsonl';

/** What determines answers besides their questions, which are compared one by one when the file is read. */
const earlierSchema = z.object({
  target: z.object({ sha256: z.string() }),
  date: z.iso.date(),
  chatTemplate: z.object({ source: z.string() }).optional(),
});
type Earlier = z.infer<typeof earlierSchema>;

export function readEarlierRun(folder: string): Earlier & { readonly folder: string } {
  try {
    const config = earlierSchema.parse(parseJsonText(readIfThere(join(folder, configFile)) ?? ''));
    if (existsSync(join(folder, answersFile))) return { ...config, folder: resolve(folder) };
  } catch {
    // Whatever is wrong with it, the hint helps.
  }
  throw new MistletoeError('usage', `${folder} is no run with answers of a target.`, {
    hint: `Name the folder of a run of train or harden: it has a ${configFile} and an ${answersFile}.`,
  });
}

/** The run's date, and the folder whose answers it reuses. */
export function settleAnswers(
  wanted: { readonly answers?: string | undefined; readonly date?: string | undefined },
  own: Omit<Earlier, 'date'>,
): { readonly date: string; readonly answers?: string } {
  const earlier = wanted.answers === undefined ? undefined : readEarlierRun(wanted.answers);
  const date = wanted.date === undefined ? (earlier?.date ?? today()) : parseDay(wanted.date, '--date');
  if (earlier === undefined) return { date };
  refuseOtherAnswers(earlier, { ...own, date });
  return { date, answers: earlier.folder };
}

export function refuseOtherAnswers(earlier: Earlier & { readonly folder: string }, own: Earlier): void {
  let apart;
  if (earlier.target.sha256 !== own.target.sha256) apart = 'another target';
  else if (earlier.chatTemplate?.source !== own.chatTemplate?.source) apart = 'another chat template';
  else if (earlier.date !== own.date) apart = `the date ${earlier.date}`;
  else return;
  throw new MistletoeError(
    'usage',
    `The answers in ${earlier.folder} were written with ${apart}; this run would have others.`,
    { hint: 'Let the target write them anew, or ask for the same.' },
  );
}

/** Copies them once: a resumed run already has them. */
export function takeAnswers(from: string, run: string, command: 'train' | 'harden'): void {
  const own = join(run, answersFile);
  if (existsSync(own)) return;
  explainFailure(own, command, () => {
    replaceFileSync(own, (temporary) => {
      copyFileSync(join(from, answersFile), temporary);
    });
  });
}
