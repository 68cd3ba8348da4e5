/**
 * Files of JSON lines that may be larger than a string can be: they are read line by line, as bytes, so that a place in
 * the file is one on the disk. A file and each of its lines have a bound, and what is no regular file is not opened.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { describeCause } from '../core/errors.js';
import { parseJsonText } from '../core/json-text.js';
import { fileLimits } from '../core/limits.js';

export interface FileLine {
  /** From 1. */
  readonly number: number;
  readonly bytes: Buffer;
  /** Bytes of the file up to the end of this line, its line end included. */
  readonly end: number;
  /** Whether a line end closes it; only the last line can lack it. */
  readonly isClosed: boolean;
}

export interface LineBounds {
  readonly mostBytes?: number;
  readonly mostLineBytes?: number;
}

const lineEnd = 0x0a;

/** Its bytes; throws a phrase where it is no file that is read. */
async function measureFile(path: string, mostBytes: number): Promise<number> {
  const status = await stat(path);
  if (!status.isFile()) throw new Error('it is not a regular file');
  if (status.size > mostBytes)
    throw new Error(`it has ${status.size} bytes, and ${mostBytes} are the most that is read`);
  return status.size;
}

/** SHA-256 of the whole file, in hexadecimal; throws as readFileLines does. */
export async function hashFile(path: string, mostBytes = fileLimits.conversations): Promise<string> {
  const size = await measureFile(path, mostBytes);
  const hash = createHash('sha256');
  if (size > 0)
    for await (const chunk of createReadStream(path, { end: size - 1 }) as AsyncIterable<Buffer>)
      hash.update(chunk);
  return hash.digest('hex');
}

/** Throws what the system says, or a phrase that says what is wrong with the file. */
export async function* readFileLines(
  path: string,
  { mostBytes = fileLimits.conversations, mostLineBytes = fileLimits.conversation }: LineBounds = {},
): AsyncGenerator<FileLine> {
  const size = await measureFile(path, mostBytes);
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
  // A file that grows while it is read is read as far as it was looked at.
  if (size === 0) return;
  for await (const chunk of createReadStream(path, { end: size - 1 }) as AsyncIterable<Buffer>) {
    let start = 0;
    for (let found = chunk.indexOf(lineEnd); found >= 0; found = chunk.indexOf(lineEnd, start)) {
      yield take(chunk.subarray(start, found), true);
      start = found + 1;
    }
    const rest = chunk.subarray(start);
    if (rest.length > 0) parts.push(rest);
    partBytes += rest.length;
    if (partBytes > mostLineBytes)
      throw new Error(
        `line ${number + 1} has more than ${mostLineBytes} bytes, the most that is read of one`,
      );
  }
  if (partBytes > 0) yield take(Buffer.alloc(0), false);
}

export type LineValue = { readonly value: unknown } | { readonly fault: string };

/** The line's JSON, undefined for a blank line; or what is wrong with it, as the end of a sentence. */
export function parseFileLine({ bytes, number }: FileLine): LineValue {
  let text: string;
  try {
    // A byte order mark belongs to the file, not to what stands in its first line.
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: number > 1 }).decode(bytes);
  } catch {
    return { fault: 'is not UTF-8 text' };
  }
  if (text.trim() === '') return { value: undefined };
  try {
    return { value: parseJsonText(text) };
  } catch (cause) {
    return { fault: `is not valid JSON: ${describeCause(cause)}` };
  }
}
