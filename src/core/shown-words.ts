/** Paths and words of the user's machine as others may see them. */
import { basename, isAbsolute, relative } from 'node:path';

/**
 * For files that are passed on: a report must not tell where its author's folders lie. An absolute path inside the
 * current folder is named from there, of any other its last part; a relative one stays as it was typed.
 */
export function shortenPath(path: string): string {
  if (!isAbsolute(path)) return path;
  const inside = relative('.', path);
  if (inside === '') return '.';
  return inside.startsWith('..') || isAbsolute(inside) ? `.../${basename(path)}` : inside;
}

/** One word of a command line that can be pasted into a shell. */
export function quoteWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
