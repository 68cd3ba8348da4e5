import { isMissing, readBoundedFile } from '../core/files.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import { parseJsonText } from '../core/json-text.js';

/** The file's text without a byte order mark, or undefined when there is no such file; a model's folder may be a GGUF file. */
export async function readTextFile(path: string, maxBytes: number): Promise<string | undefined> {
  let bytes: Buffer;
  try {
    bytes = await readBoundedFile(path, maxBytes);
  } catch (cause) {
    if (isMissing(cause) || isBelowFile(cause)) return undefined;
    throw new MistletoeError('text', `${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Give a file that you may read, of the size that such files have.',
      cause,
    });
  }
  return decodeText(bytes, path);
}

function isBelowFile(cause: unknown): boolean {
  return cause instanceof Error && 'code' in cause && cause.code === 'ENOTDIR';
}

export function decodeText(bytes: Uint8Array, place: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (cause) {
    throw new MistletoeError('text', `${place} is not UTF-8 text.`, {
      hint: 'Convert it to UTF-8, or fetch it again if it was cut short.',
      cause,
    });
  }
}

export function parseJson(text: string, place: string): unknown {
  try {
    return parseJsonText(text);
  } catch (cause) {
    throw new MistletoeError('text', `${place} is not valid JSON: ${describeCause(cause)}.`, {
      hint: 'The file may be truncated or edited by hand; compare it with its origin.',
      cause,
    });
  }
}
