/**
 * API keys. They are kept as hashes; a given key is compared with all of them in constant time.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { MistletoeError } from '../core/errors.js';
import { readTextFile } from '../text/text-file.js';
import { ApiError } from './api-error.js';

export interface Access {
  /** False if no key is needed. */
  readonly isKeyed: boolean;
  /** The name of the key in the header. Throws if there is none or it is unknown. */
  admit(authorization: string | null): string;
}

export interface NamedKey {
  /** For logs. */
  readonly name: string;
  readonly key: string;
}

const anybody = 'anonymous';
const minKeyLength = 8;
const maxFileBytes = 2 ** 20;

export function createAccess(keys: readonly NamedKey[]): Access {
  const known = keys.map(({ name, key }) => ({ name, hash: hashOf(key) }));
  if (known.length === 0) return { isKeyed: false, admit: () => anybody };
  return {
    isKeyed: true,
    admit(authorization) {
      const [, shown] = /^Bearer +(\S+) *$/i.exec(authorization ?? '') ?? [];
      const hash = hashOf(shown ?? '');
      let found: string | undefined;
      for (const entry of known) if (timingSafeEqual(entry.hash, hash)) found = entry.name;
      if (found !== undefined && shown !== undefined) return found;
      throw new ApiError(
        shown === undefined
          ? 'No key was given; an Authorization header with a bearer key was expected.'
          : 'The key is unknown.',
        { status: 401, code: 'invalid_api_key', headers: { 'www-authenticate': 'Bearer' } },
      );
    },
  };
}

/** One key per line, or a name and a key; lines that begin with # are comments. */
export function parseKeys(text: string, place: string): readonly NamedKey[] {
  const lines = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  const keys = lines.map((line, index) => {
    const words = line.split(/\s+/);
    const [name, key] = words.length === 1 ? [`key-${index + 1}`, words[0]!] : [words[0]!, words[1]!];
    if (words.length > 2 || key.length < minKeyLength) {
      throw new MistletoeError(
        'usage',
        `Key ${index + 1} of ${place} ${words.length > 2 ? `has ${words.length} words` : `has ${key.length} characters`}; a key of ${minKeyLength} characters or more, alone or after a name, was expected.`,
        { hint: 'Make one with: openssl rand -hex 24' },
      );
    }
    return { name, key };
  });
  if (keys.length > 0) return keys;
  throw new MistletoeError('usage', `${place} has no key.`, {
    hint: 'Write one key a line; make one with: openssl rand -hex 24',
  });
}

export async function readKeys(path: string): Promise<readonly NamedKey[]> {
  const text = await readTextFile(path, maxFileBytes);
  if (text !== undefined) return parseKeys(text, path);
  throw new MistletoeError('usage', `The key file ${path} does not exist.`, {
    hint: 'Give a file with one key a line.',
  });
}

function hashOf(key: string): Buffer {
  return createHash('sha256').update(key).digest();
}
