/** The cache in words. */
import { basename } from 'node:path';
import type { CacheContents, CheckedWeights, DescribedWeights } from '../checkpoint/cache/cache-contents.js';
import type { CachedWeights, Removal } from '../checkpoint/cache/cache-removal.js';
import { formatBytes } from '../core/byte-size.js';
import { asOneLine } from './clean-text.js';

/** As many as a person reads; a program gets them all. */
const shownFiles = 50;

export function contentsLines(contents: CacheContents): readonly string[] {
  const { folder, limitBytes, totalBytes, weights, temporaryCount, foreignCount } = contents;
  const limit = Number.isFinite(limitBytes) ? formatBytes(limitBytes) : 'none';
  const hidden = weights.length - shownFiles;
  return [
    `folder  ${asOneLine(folder)}`,
    `limit   ${limit} (MISTLETOE_CACHE_LIMIT)`,
    `used    ${formatBytes(totalBytes)} in ${countFiles(weights.length)} of weights`,
    ...(weights.length === 0
      ? []
      : [
          '',
          formatRow(['file', 'size', 'weights', 'last used', 'made from']),
          ...weights.slice(0, shownFiles).map(describeRow),
        ]),
    ...(hidden > 0 ? [`... and ${hidden} more; --format json lists them all.`] : []),
    ...(temporaryCount + foreignCount === 0 ? [] : ['']),
    ...(temporaryCount === 0 ? [] : [`${countFiles(temporaryCount)} being written, or left behind.`]),
    ...(foreignCount === 0
      ? []
      : [
          `${foreignCount} other ${foreignCount === 1 ? 'entry' : 'entries'} in the folder that Mistletoe leaves alone.`,
        ]),
  ];
}

const widths = [14, 9, 7, 17];

function formatRow(cells: readonly string[]): string {
  return cells
    .map((cell, index) => cell.padEnd(widths[index] ?? 0))
    .join('  ')
    .trimEnd();
}

function describeRow(weights: DescribedWeights): string {
  const { path, sizeBytes, content = 'unknown', lastUsed, checkpoint, isInUse } = weights;
  const origin = checkpoint === undefined ? 'unknown' : asOneLine(checkpoint);
  const when = isInUse ? 'now' : `${lastUsed.toISOString().slice(0, 16).replace('T', ' ')}Z`;
  return formatRow([shortName(path), formatBytes(sizeBytes), content, when, origin]);
}

/** Twelve of its 64 digits tell files apart. */
const shortName = (path: string): string => `${basename(path).slice(0, 12)}…`;

export function removalLines({ removed, inUse, failures, leftBytes }: Removal): readonly string[] {
  const freedBytes = removed.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  return [
    removed.length === 0
      ? 'No weights removed.'
      : `Removed ${countFiles(removed.length)} of weights, ${formatBytes(freedBytes)}.`,
    ...inUse.map((each) => `${describeOne(each)} is used by a running command and stays.`),
    ...failures.map(({ path, reason }) => asOneLine(`${path} could not be removed: ${reason}`)),
    `${formatBytes(leftBytes)} left.`,
  ];
}

const resultWords: Readonly<Record<CheckedWeights['result'], string>> = {
  whole: 'whole',
  damaged: 'damaged; it is made anew when it is next needed',
  'other-format':
    'not checked: it was made by another version of Mistletoe, and is removed when room is needed',
};

export function verificationLine(checked: CheckedWeights): string {
  return `${describeOne(checked)}  ${resultWords[checked.result]}`;
}

export function verificationSummary(checked: readonly CheckedWeights[]): readonly string[] {
  if (checked.length === 0) return ['There are no converted weights to check.'];
  const damaged = checked.filter(({ result }) => result === 'damaged').length;
  return [damaged === 0 ? 'No damage found.' : `${countFiles(damaged)} damaged.`];
}

const describeOne = ({ path, sizeBytes }: CachedWeights): string =>
  `${shortName(path)}  ${formatBytes(sizeBytes)}`;

const countFiles = (count: number): string => `${count} ${count === 1 ? 'file' : 'files'}`;
