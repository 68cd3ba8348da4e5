/**
 * Files of JSON lines, as bytes. Lengths and places are those on disk, never of decoded text: an invalid UTF-8 byte decodes
 * to a replacement character of three bytes, and a cut computed from that would be in the wrong place.
 */
import { createHash } from 'node:crypto';
import { createReadStream, existsSync, fstatSync, ftruncateSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import type * as z from '../core/schema.js';
import { changeFileSync } from '../core/durable-files.js';
import { readBoundedFileSync } from '../core/files.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import { parseJsonText } from '../core/json-text.js';
import { fileLimits } from '../core/limits.js';

const lineEnd = 0x0a;

/** Complete lines only: a kill cut whatever follows the last line end. No lines if there is no file. */
export function readLines(path: string): Buffer[] {
  if (!existsSync(path)) return [];
  const bytes = readRunFile(path);
  const lines: Buffer[] = [];
  let start = 0;
  for (let end = bytes.indexOf(lineEnd); end >= 0; end = bytes.indexOf(lineEnd, start)) {
    lines.push(bytes.subarray(start, end));
    start = end + 1;
  }
  return lines;
}

/** Keeps the first lines of the file, which are `lines`, and drops what follows them. */
export function cutToLines(path: string, lines: readonly Buffer[]): void {
  if (!existsSync(path)) return;
  const size = lines.reduce((total, { length }) => total + length + 1, 0);
  changeFileSync(path, (file) => {
    if (fstatSync(file).size !== size) ftruncateSync(file, size);
  });
}

/** The values of the first lines. The file is cut at the first line that is not valid or not accepted. */
export function readValidLines<Value>(
  path: string,
  schema: z.ZodType<Value>,
  accept: (value: Value) => boolean = () => true,
): Value[] {
  const lines = readLines(path);
  const values: Value[] = [];
  for (const line of lines) {
    const parsed = parseLine(line);
    const checked = 'value' in parsed ? schema.safeParse(parsed.value) : undefined;
    if (checked?.success !== true || !accept(checked.data)) break;
    values.push(checked.data);
  }
  cutToLines(path, lines.slice(0, values.length));
  return values;
}

function readRunFile(path: string): Buffer {
  try {
    return readBoundedFileSync(path, fileLimits.auditResult);
  } catch (cause) {
    throw new MistletoeError('usage', `${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Restore the file, or start a new run in another folder.',
      cause,
    });
  }
}

export type ParsedLine = { readonly value: unknown } | { readonly fault: string };

/** The line's value, or what is wrong with it, to follow its place in a sentence. */
export function parseLine(line: Buffer): ParsedLine {
  const text = decodeText(line);
  return text === undefined ? { fault: 'is not UTF-8 text' } : parseText(text);
}

function decodeText(bytes: Buffer, { dropByteOrderMark = false } = {}): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: !dropByteOrderMark }).decode(bytes);
  } catch {
    return undefined;
  }
}

function parseText(text: string): ParsedLine {
  try {
    return { value: parseJsonText(text) };
  } catch (cause) {
    return { fault: `is not valid JSON: ${describeCause(cause)}` };
  }
}

/** A line of a file that may be larger than a string can be. */
export interface FileLine {
  /** From 1. */
  readonly number: number;
  readonly bytes: Buffer;
  /** Bytes of the file up to the end of this line, including its line end. */
  readonly end: number;
  /** Whether it has a line end; only the last line can lack it. */
  readonly isClosed: boolean;
}

/** Undefined for a blank line. */
export function parseFileLine({ bytes, number }: FileLine): ParsedLine {
  const text = decodeText(bytes, { dropByteOrderMark: number === 1 });
  if (text === undefined) return { fault: 'is not UTF-8 text' };
  return text.trim() === '' ? { value: undefined } : parseText(text);
}

/** The file's size; throws a phrase if it is not a regular file or too large. */
async function measureFile(path: string, maxBytes: number): Promise<number> {
  const status = await stat(path);
  if (!status.isFile()) throw new Error('it is not a regular file');
  if (status.size > maxBytes) throw new Error(`it has ${status.size} bytes, and the maximum is ${maxBytes}`);
  return status.size;
}

export async function hashData(path: string): Promise<string> {
  try {
    const size = await measureFile(path, fileLimits.conversations);
    const hash = createHash('sha256');
    if (size > 0)
      for await (const chunk of createReadStream(path, { end: size - 1 }) as AsyncIterable<Buffer>)
        hash.update(chunk);
    return hash.digest('hex');
  } catch (cause) {
    throw new MistletoeError('usage', `${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Give a file with one conversation per line.',
      cause,
    });
  }
}

/** Throws the system's error, or a phrase that says what is wrong with the file. */
export async function* readFileLines(
  path: string,
  { maxBytes = fileLimits.conversations, maxLineBytes = fileLimits.conversation } = {},
): AsyncGenerator<FileLine> {
  const size = await measureFile(path, maxBytes);
  let parts: Buffer[] = [];
  let partBytes = 0;
  let number = 0;
  let end = 0;
  const take = (part: Buffer, isClosed: boolean): FileLine => {
    const bytes = Buffer.concat([...parts, part]);
    [parts, partBytes, number] = [[], 0, number + 1];
    end += bytes.length + (isClosed ? 1 : 0);
    return { number, bytes, end, isClosed };
  };
  if (size === 0) return;
  // If the file grows meanwhile, only its first `size` bytes are read.
  for await (const chunk of createReadStream(path, { end: size - 1 }) as AsyncIterable<Buffer>) {
    let start = 0;
    for (let found = chunk.indexOf(lineEnd); found >= 0; found = chunk.indexOf(lineEnd, start)) {
      yield take(chunk.subarray(start, found), true);
      start = found + 1;
    }
    const rest = chunk.subarray(start);
    if (rest.length > 0) parts.push(rest);
    partBytes += rest.length;
    if (partBytes > maxLineBytes)
      throw new Error(`line ${number + 1} has more than ${maxLineBytes} bytes, the maximum for a line`);
  }
  if (partBytes > 0) yield take(Buffer.alloc(0), false);
}
