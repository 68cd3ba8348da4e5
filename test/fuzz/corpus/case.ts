/** One malicious input: files below a folder of its own, and the command line that meets them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { tiny, writeDecoder, writeLetterTokenizer } from '../../support/tiny-checkpoints.js';

export interface MaliciousCase {
  readonly name: string;
  /** Writes the files and gives back the arguments. */
  write(folder: string): string[];
}

export type Files = Readonly<Record<string, string | Uint8Array | object>>;

export function writeFiles(folder: string, files: Files): string {
  mkdirSync(folder, { recursive: true });
  for (const [name, contents] of Object.entries(files)) {
    const isRaw = typeof contents === 'string' || contents instanceof Uint8Array;
    writeFileSync(join(folder, name), isRaw ? contents : JSON.stringify(contents));
  }
  return folder;
}

/** A tiny target that works, with some files in place of its own. */
export function writeTarget(folder: string, files: Files = {}): string {
  const target = writeDecoder(join(folder, 'target'), tiny);
  writeLetterTokenizer(target, tiny);
  return writeFiles(target, files);
}

export const inspect = (folder: string): string[] => ['inspect', folder];

export const generate = (target: string, ...more: string[]): string[] => [
  ...['generate', '--target', target, '--max-new-tokens', '2', '--threads', '1'],
  ...(more.length === 0 ? ['--prompt', 'abc'] : more),
];

export const nest = (depth: number): string => '['.repeat(depth) + ']'.repeat(depth);
