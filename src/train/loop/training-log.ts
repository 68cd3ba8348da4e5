/** log.jsonl of a run: a line for each update and for each measurement on held-out texts, in order. */
import { z } from 'zod';
import { cutToLines, parseLine, readLines } from '../../runs/json-lines.js';
import { appendText, syncFile } from '../../runs/run-writes.js';

const updateSchema = z.strictObject({
  kind: z.literal('update'),
  /** How many there have been with this one. */
  update: z.int().positive(),
  /** A learnt token, with the objective's weights. */
  loss: z.number(),
  /** [level] mean cross-entropy of the rows that the level counts, in nats. */
  levels: z.array(z.number()),
  /** [level] how many those are. */
  levelRows: z.array(z.number()),
  /** Length of the gradient before clipping. */
  norm: z.number(),
  rate: z.number(),
  /** Tokens that were learnt from. */
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
    const lines = readLines(path);
    const kept: LogLine[] = [];
    for (const line of lines) {
      const parsed = parseLine(line);
      const checked = 'value' in parsed ? lineSchema.safeParse(parsed.value) : undefined;
      if (checked?.success !== true || checked.data.update > (update ?? -1)) break;
      kept.push(checked.data);
    }
    cutToLines(path, lines.slice(0, kept.length));
    return new TrainingLog(path, kept);
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
