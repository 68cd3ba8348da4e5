/**
 * Files of JSON lines as bytes. Lengths are counted on what is on the disk, never on decoded text: a byte that is no
 * UTF-8 decodes to a replacement character of three bytes, and a cut computed from that lands in the wrong place.
 */
import { existsSync, statSync, truncateSync } from 'node:fs';
import { readBoundedFileSync } from '../core/files.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import { fileLimits } from '../core/limits.js';
import { parseJsonText } from '../core/json-text.js';

const lineEnd = 0x0a;

/** Complete lines only: what follows the last line end was cut by a kill. No lines where there is no file. */
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
  if (statSync(path).size !== size) truncateSync(path, size);
}

function readRunFile(path: string): Buffer {
  try {
    return readBoundedFileSync(path, fileLimits.auditResult);
  } catch (cause) {
    throw new MistletoeError('usage', `${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Put the file itself there, or start the audit anew in another folder.',
      cause,
    });
  }
}

export type ParsedLine = { readonly value: unknown } | { readonly fault: string };

/** The line's value, or what is wrong with it as the end of a sentence that begins with its place. */
export function parseLine(line: Buffer): ParsedLine {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(line);
  } catch {
    return { fault: 'is not UTF-8 text' };
  }
  try {
    return { value: parseJsonText(text) };
  } catch (cause) {
    return { fault: `is not JSON: ${describeCause(cause)}` };
  }
}
