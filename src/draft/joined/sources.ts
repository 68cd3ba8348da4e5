/** How users write drafters that draft together: `ngram+eagle3`, `ngram:1,4+./my-head+sps`. */
import { existsSync } from 'node:fs';
import { formatNgram, parseNgram } from '../ngram/ngram.js';

/** Joined lookups look for longer matches: they weigh short ones themselves. */
const joinedLengths = { min: 1, max: 16 };

/** The drafters of a source, in order; one for a drafter alone. A folder whose name has a plus is one drafter. */
export function splitSource(source: string): readonly string[] {
  const end = source.indexOf('+');
  if (end <= 0 || end === source.length - 1 || existsSync(source)) return [source];
  const parts = [source.slice(0, end), ...splitSource(source.slice(end + 1))];
  return parts.map((part) => (isLookup(part) ? formatNgram(parseNgram(part, joinedLengths)) : part));
}

export const joinSources = (parts: readonly string[]): string => parts.join('+');

const isLookup = (part: string): boolean => part === 'ngram' || part.startsWith('ngram:');

/** Each drafter of a source changed. */
export async function mapSource(source: string, change: (part: string) => Promise<string>): Promise<string> {
  return joinSources(await Promise.all(splitSource(source).map(change)));
}
