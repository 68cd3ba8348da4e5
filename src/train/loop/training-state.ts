/**
 * A run's state in one file: parameters, AdamW's moments and progress. It is replaced atomically, so a killed run
 * resumes from the last complete state. Later log lines are cut.
 */
import { existsSync } from 'node:fs';
import * as z from '../../core/schema.js';
import { readFloat32, readIntegers } from '../../checkpoint/read-tensor.js';
import { readSafetensorsHeader } from '../../checkpoint/safetensors/safetensors.js';
import { writeSafetensors } from '../../checkpoint/safetensors/write-safetensors.js';
import type { StoredTensor } from '../../checkpoint/stored-tensor.js';
import { floatSource, integerSource } from '../../checkpoint/tensor-source.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { readValidLines } from '../../runs/json-lines.js';
import { appendText, syncFile } from '../../runs/run-writes.js';

const progressSchema = z.strictObject({
  update: z.int().min(0),
  best: z.strictObject({ update: z.int().min(0), length: z.number() }).nullable(),
  sinceBest: z.int().min(0),
  elapsedMs: z.number().min(0),
});
export type TrainingProgress = z.infer<typeof progressSchema>;

export const freshProgress: TrainingProgress = { update: 0, best: null, sinceBest: 0, elapsedMs: 0 };

interface TrainingState {
  readonly progress: TrainingProgress;
  readonly values: ReadonlyMap<string, Float32Array>;
}

const progressName = 'progress';

export async function saveState(path: string, { progress, values }: TrainingState): Promise<void> {
  const text = Int32Array.from(Buffer.from(JSON.stringify(progress)));
  await writeSafetensors(path, [
    integerSource(progressName, 'I64', text),
    ...[...values].map(([name, data]) =>
      floatSource({ name, shape: [data.length], dtype: 'F32' }, () => data),
    ),
  ]);
}

export async function loadState(path: string): Promise<TrainingState | undefined> {
  if (!existsSync(path)) return undefined;
  try {
    const values = new Map<string, Float32Array>();
    let progress: TrainingProgress | undefined;
    for (const tensor of await readSafetensorsHeader(path)) {
      if (tensor.name === progressName) progress = await readProgress(tensor);
      else values.set(tensor.name, await readFloat32(tensor));
    }
    if (progress === undefined) throw new Error('it has no progress');
    return { progress, values };
  } catch (cause) {
    throw new MistletoeError('checkpoint', `${path} cannot be resumed: ${describeCause(cause)}.`, {
      hint: 'Remove it to begin the run anew with the answers that it has; the drafters in best/ and last/ can be used as they are.',
      cause,
    });
  }
}

async function readProgress(tensor: StoredTensor): Promise<TrainingProgress> {
  const text = Buffer.from(Uint8Array.from(await readIntegers(tensor))).toString('utf8');
  const parsed = progressSchema.safeParse(JSON.parse(text));
  if (parsed.success) return parsed.data;
  const { place, fault } = z.describeFault(parsed.error);
  throw new Error(`its progress is wrong${place === '' ? '' : ` at "${place}"`}, ${fault}`);
}

/** A line of log.jsonl: there is one for each update and for each measurement on held-out texts, in order. */
const updateSchema = z.strictObject({
  kind: z.literal('update'),
  update: z.int().positive(),
  /** A learnt token, with the objective's weights. */
  loss: z.number(),
  /** [level] mean cross-entropy of the rows that the level counts, in nats. */
  levels: z.array(z.number()),
  levelRows: z.array(z.number()),
  /** Mean L1 distance to the target's distribution over those rows, from 0 to 2; if it is in the objective. */
  distance: z.number().exactOptional(),
  /** Mean cross-entropy of the confidence head over those rows, in nats; if it is in the objective. */
  confidence: z.number().exactOptional(),
  norm: z.number(),
  rate: z.number(),
  tokens: z.number(),
});
export type UpdateLine = z.infer<typeof updateSchema>;

const lengthSchema = z.strictObject({
  kind: z.literal('length'),
  update: z.int().min(0),
  /** Mean accepted length on held-out texts, with the target's own token. */
  length: z.number(),
  steps: z.number(),
  /** [level] share of steps that accepted the draft up to this level. */
  reached: z.array(z.number()),
});
export type LengthLine = z.infer<typeof lengthSchema>;

export type LogLine = UpdateLine | LengthLine;
const lineSchema = z.discriminatedUnion('kind', [updateSchema, lengthSchema]);

export class TrainingLog {
  private constructor(
    private readonly path: string,
    private readonly kept: LogLine[],
  ) {}

  /**
   * Lines behind the given update are those of a process that was killed: they are written again, and so are all where
   * no state was saved yet.
   */
  static open(path: string, update: number | undefined): TrainingLog {
    const isSaved = (line: LogLine): boolean => line.update <= (update ?? -1);
    return new TrainingLog(path, readValidLines(path, lineSchema, isSaved));
  }

  get lines(): readonly LogLine[] {
    return this.kept;
  }

  add(line: LogLine): void {
    this.kept.push(line);
    appendText(this.path, `${JSON.stringify(line)}\n`, { command: 'train' });
  }

  sync(): void {
    syncFile(this.path, 'train');
  }
}
