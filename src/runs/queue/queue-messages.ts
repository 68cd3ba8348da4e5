/**
 * What travels through a queue. Whoever can write to the Redis server can write anything, so both sides read it like a
 * stranger's file: bounded, checked against a schema, and with nothing in it that names a path, a command or code.
 */
import { createHash } from 'node:crypto';
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import * as z from '../../core/schema.js';
import { describeCause } from '../../core/errors.js';
import { parseJsonText } from '../../core/json-text.js';
import { fileLimits } from '../../core/limits.js';
import { threadsSchema } from '../run-device.js';
import { partSchema, UnitFailed, type UnitPart } from '../unit.js';

/** A value takes up to 150 bytes and 3 µs once it is parsed. The trace of a search has some ten for each step. */
const maxValues = 1_000_000;

const nameSchema = z.string().min(1).max(200);
const sha256 = z.string().regex(/^[0-9a-f]{64}$/);

const jobSchema = z.strictObject({
  schema: z.literal('mistletoe.unit/1'),
  version: nameSchema,
  key: z.string().min(1).max(2000),
  /** JSON, or deflated JSON in base64. */
  input: z.string(),
});
export type QueueJob = Readonly<z.infer<typeof jobSchema>>;

const outputSchema = z.strictObject({
  schema: z.literal('mistletoe.output/1'),
  worker: nameSchema,
  output: z.string(),
});
export type QueueOutput = Readonly<z.infer<typeof outputSchema>>;

/** What a worker needs in order to serve a run. */
const noticeSchema = z.strictObject({
  schema: z.literal('mistletoe.run/1'),
  command: z.literal('audit'),
  version: nameSchema,
  models: z
    .array(z.strictObject({ name: nameSchema, sha256 }))
    .min(1)
    .max(1000),
  device: z.strictObject({ kind: z.enum(['cpu', 'cuda']), dtype: nameSchema, name: z.string().max(200) }),
  /** CPU threads of each process: sums depend on them. */
  threads: threadsSchema,
});
export type RunNotice = Readonly<z.infer<typeof noticeSchema>>;

export const progressSchema = z.object({ worker: nameSchema, progress: z.unknown() });

export function packJob(key: string, version: string, input: unknown): QueueJob {
  return { schema: 'mistletoe.unit/1', version, key, input: pack(input) };
}

/** The same input has the same id, whoever submits it and however often. */
export function jobId(input: unknown): string {
  return `unit-${createHash('sha256').update(JSON.stringify(input)).digest('hex').slice(0, 40)}`;
}

export function packOutput(worker: string, parts: readonly UnitPart[]): QueueOutput {
  return { schema: 'mistletoe.output/1', worker, output: pack(parts) };
}

/** Of failures that workers report. */
export const maxReasonLength = 500;
/** Of names that are shown. */
export const maxNameLength = 200;

/** An output that is not one fails its unit. */
export function unpackOutput(value: unknown): {
  readonly worker: string;
  readonly parts: readonly UnitPart[];
} {
  try {
    const { worker, output } = z.readAs(outputSchema, value);
    return {
      worker,
      parts: z.readAs(z.array(partSchema), unpack(output, fileLimits.unitOutput)),
    };
  } catch (cause) {
    const reason = `a worker sent an output that cannot be read: ${describeCause(cause)}`;
    throw new UnitFailed(reason.slice(0, maxReasonLength));
  }
}

/** Throws a phrase that says what is wrong. */
export function readJob(value: unknown): QueueJob {
  return z.readAs(jobSchema, value);
}

/** A notice of 1,000 models has 300 kB. */
const maxNoticeLength = 2 ** 20;

export function readNotice(text: string): RunNotice {
  if (text.length > maxNoticeLength)
    throw new Error(`it has ${text.length} characters; at most ${maxNoticeLength} were expected`);
  return z.readAs(noticeSchema, parseJsonText(text));
}

export function unpackInput({ input }: QueueJob): unknown {
  return unpack(input, fileLimits.unitInput);
}

/** Shorter texts travel as they are: compressing them costs more time than it saves. */
const minDeflated = 1024;
/** Base64 has no brackets. */
const isPlain = (text: string): boolean => /^[[{]/.test(text);

function pack(value: unknown): string {
  const text = JSON.stringify(value);
  const isShort = text.length < minDeflated && isPlain(text);
  return isShort ? text : deflateRawSync(text).toString('base64');
}

function unpack(text: string, maxBytes: number): unknown {
  if (isPlain(text)) {
    if (text.length <= maxBytes) return parseJsonText(text, maxValues);
    throw new Error(`it has ${text.length} characters; at most ${maxBytes} were expected`);
  }
  let bytes: Buffer;
  try {
    bytes = inflateRawSync(Buffer.from(text, 'base64'), { maxOutputLength: maxBytes });
  } catch (cause) {
    throw new Error(`it cannot be unpacked: ${describeCause(cause)}`);
  }
  return parseJsonText(new TextDecoder('utf-8', { fatal: true }).decode(bytes), maxValues);
}
