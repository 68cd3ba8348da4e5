/**
 * Answer files in the shape that Spec-Bench's tools read, one JSON object per question. Where published scripts differ,
 * these numbers mean:
 * - decoding_steps: verification passes, counted, not the last loop index. Plain decoding counts a step per token.
 * - new_tokens: tokens of the answer. What an accepted path holds beyond the answer's end is not in it.
 * - wall_time: seconds of prefill and decoding together, as Spec-Bench times a whole answer.
 * - accept_lengths: per step, with the bonus token, so their pooled mean is the mean accepted length.
 */
import { createHash } from 'node:crypto';
import type { RequestRecord } from './benchmark-record.js';

export interface SpecBenchAnswer {
  readonly question_id: string | number;
  readonly category: string;
  readonly answer_id: string;
  readonly model_id: string;
  readonly choices: readonly [SpecBenchChoice];
  /** Seconds since 1970. */
  readonly tstamp: number;
}

export interface SpecBenchChoice {
  readonly index: number;
  readonly turns: readonly string[];
  readonly decoding_steps: readonly number[]; // [turn]
  readonly new_tokens: readonly number[]; // [turn]
  readonly wall_time: readonly number[]; // [turn]
  readonly accept_lengths: readonly number[]; // [step], all turns in a row
}

export interface SpecBenchFile {
  readonly set: string;
  readonly modelId: string;
  readonly answers: readonly SpecBenchAnswer[];
}

/** One file for each prompt set and system: question ids are unique only inside a set. */
export function toSpecBenchFiles(
  records: readonly RequestRecord[],
  target: string,
  timeMs: number,
): readonly SpecBenchFile[] {
  const files = new Map<string, { set: string; modelId: string; answers: SpecBenchAnswer[] }>();
  for (const record of records) {
    const modelId = modelIdOf(record, target);
    const key = JSON.stringify([record.set, modelId]);
    const file = files.get(key) ?? { set: record.set, modelId, answers: [] };
    files.set(key, file);
    file.answers.push(toSpecBenchAnswer(record, modelId, timeMs));
  }
  return [...files.values()];
}

/** Also the name of the file, so only letters that every file system takes. */
function modelIdOf({ system, policy, speculation }: RequestRecord, target: string): string {
  const parts = speculation === undefined ? [target, system] : [target, system, policy];
  return parts.map((part) => part.replace(/[^\w.]+/g, '-').replace(/^[-.]+|[-.]+$/g, '')).join('-');
}

function toSpecBenchAnswer(record: RequestRecord, modelId: string, timeMs: number): SpecBenchAnswer {
  const { set, promptId, category, tokenIds, text, prefillMs, decodeMs, speculation } = record;
  const acceptLengths = speculation?.acceptance.acceptedLengths ?? tokenIds.map(() => 1);
  return {
    question_id: /^(0|[1-9]\d{0,14})$/.test(promptId) ? Number(promptId) : promptId,
    category: category ?? set,
    answer_id: createHash('sha256')
      .update(JSON.stringify([modelId, set, promptId, tokenIds]))
      .digest('base64url')
      .slice(0, 22),
    model_id: modelId,
    choices: [
      {
        index: 0,
        turns: [text],
        decoding_steps: [acceptLengths.length],
        new_tokens: [tokenIds.length],
        wall_time: [(prefillMs + decodeMs) / 1000],
        accept_lengths: acceptLengths,
      },
    ],
    tstamp: timeMs / 1000,
  };
}
