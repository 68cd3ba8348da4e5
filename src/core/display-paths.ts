/** Paths and command-line words in files that a user may share. */
import { basename, isAbsolute, relative } from 'node:path';

/**
 * A report must not reveal its author's folders. An absolute path inside the current folder becomes relative, any
 * other is cut to its last part, and a relative path stays as typed.
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
