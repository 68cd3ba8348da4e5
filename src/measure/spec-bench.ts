/**
 * Answer files in the shape that Spec-Bench's tools read, one JSON object per question. Where published scripts differ,
 * these numbers mean:
 * - decoding_steps: verification passes, counted, not the last loop index. Plain decoding counts a step per token.
 * - new_tokens: tokens of the answer. What an accepted path holds beyond the answer's end is not in it.
 * - wall_time: seconds of prefill and decoding together, as Spec-Bench times a whole answer.
 * - accept_lengths: per step, with the bonus token, so their pooled mean is the mean accepted length.
 */
import { createHash } from 'node:crypto';
import type { RequestRecord } from './benchmark-summary.js';

/** One file for each prompt set and system: question ids are unique only inside a set. */
export function toSpecBenchFiles(records: readonly RequestRecord[], target: string, timeMs: number) {
  const files = new Map<
    string,
    { set: string; modelId: string; answers: ReturnType<typeof toSpecBenchAnswer>[] }
  >();
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

function toSpecBenchAnswer(record: RequestRecord, modelId: string, timeMs: number) {
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
        // [turn]
        decoding_steps: [acceptLengths.length],
        new_tokens: [tokenIds.length],
        wall_time: [(prefillMs + decodeMs) / 1000],
        accept_lengths: acceptLengths, // [step], all turns in a row
      },
    ] as const,
    tstamp: timeMs / 1000,
  };
}
