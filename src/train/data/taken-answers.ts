/**
 * Reuses the answers of an earlier run with the same target and the same settings; generating them is a large part of the
 * cost of training. They are copied into the new run. Missing answers are generated.
 */
import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { z } from 'zod';
import { configFile } from '../../runs/run-units.js';
import { explainFailure, readIfThere } from '../../runs/run-writes.js';
import { MistletoeError } from '../../core/errors.js';
import { parseJsonText } from '../../core/json-text.js';
import { parseDay, today } from '../../text/template/calendar-day.js';

export const answersFile = 'answers.jsonl';

/** What determines answers besides their questions, which are compared one by one when the file is read. */
const earlierSchema = z.object({
  target: z.object({ sha256: z.string() }),
  date: z.iso.date(),
  chatTemplate: z.object({ source: z.string() }).optional(),
});
type Earlier = z.infer<typeof earlierSchema>;

export function readEarlierRun(folder: string): Earlier & { readonly folder: string } {
  const parsed = earlierSchema.safeParse(readConfig(folder));
  if (parsed.success && existsSync(join(folder, answersFile)))
    return { ...parsed.data, folder: resolve(folder) };
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
  const apart =
    earlier.target.sha256 !== own.target.sha256
      ? 'another target'
      : earlier.chatTemplate?.source !== own.chatTemplate?.source
        ? 'another chat template'
        : earlier.date !== own.date
          ? `the date ${earlier.date}`
          : undefined;
  if (apart === undefined) return;
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
  const unfinished = `${own}.tmp`;
  explainFailure(own, command, () => {
    rmSync(unfinished, { force: true });
    copyFileSync(join(from, answersFile), unfinished);
    renameSync(unfinished, own);
  });
}

function readConfig(folder: string): unknown {
  const text = readIfThere(join(folder, configFile));
  if (text === undefined) return undefined;
  try {
    return parseJsonText(text);
  } catch {
    return undefined;
  }
}
