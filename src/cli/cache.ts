import { basename } from 'node:path';
import type {
  CacheContents,
  CachedWeights,
  DescribedWeights,
  Removal,
} from '../checkpoint/cache/cache-contents.js';
import { clearCache, describeCache, trimCache } from '../checkpoint/cache/cache-contents.js';
import { readCacheLimit } from '../checkpoint/cache/cache-folder.js';
import { defaultCacheFolder } from '../core/files.js';
import { byteSize as bytes } from '../core/settings.js';
import { countText, formatBytes } from '../core/number-text.js';
import { MistletoeError } from '../core/errors.js';
import { type Row, tableText } from '../report/table.js';
import { type Invocation, defineCommand } from './command.js';
import { cacheFolderFlag, formatFlag } from './common-flags.js';
import { exitCodes } from './failure.js';
import { type FlagsOf, flag } from './flags.js';
import { joinLines, printResult } from './long-runs.js';
import { asOneLine } from './terminal.js';

const tasks = ['list', 'trim', 'clear'] as const;

const flags = {
  to: flag('trim to this size, as 20GB', bytes(0), 'size', {
    shownDefault: '$MISTLETOE_CACHE_LIMIT or 64GB',
  }),
  cacheFolder: { ...cacheFolderFlag.cacheFolder, rare: false },
  ...formatFlag,
};
type CacheFlags = FlagsOf<typeof flags>;

export const cache = defineCommand({
  name: 'cache',
  description:
    'Weights are converted to float32 once and kept, so later starts are fast. Lists them; trim removes the least recently used, clear removes all.',
  arguments: [['[task]', `${tasks.join(', ')} (default: list)`]],
  flags,
  examples: [
    ['mistletoe cache', 'list files, models, sizes and last use'],
    ['mistletoe cache trim --to 20GB', 'remove the least recently used until 20 GB are left'],
    ['mistletoe cache clear', 'remove all; each model starts slowly once'],
  ],
  notes:
    'Weights that a running command uses stay, and so do files that are not Mistletoe’s. The limit MISTLETOE_CACHE_LIMIT (50GB, none; default 64GB) applies without this command: before new weights are written, the least recently used are removed.\n\nExit codes: 0 done, 1 a file could not be removed, 2 invalid input.',
  run: runCache,
});

async function runCache(flags: CacheFlags, { terminal, args }: Invocation): Promise<number> {
  const task = readTask(args[0] ?? 'list');
  if (flags.to !== undefined && task !== 'trim') {
    throw new MistletoeError('usage', `--to was given to cache ${task}, which removes nothing by size.`, {
      hint: 'Use mistletoe cache trim --to SIZE.',
    });
  }
  const folder = flags.cacheFolder ?? defaultCacheFolder();
  const print = (value: object, lines: readonly string[]): void => {
    printResult(flags.format, terminal, { json: () => value, text: () => joinLines(lines) });
  };
  if (task === 'list') {
    const contents = await describeCache(folder);
    const { limitBytes } = contents;
    const weights = contents.weights.map((each) => ({
      ...toJson(each),
      checkpoint: each.checkpoint ?? null,
      content: each.content ?? null,
    }));
    const limit = Number.isFinite(limitBytes) ? limitBytes : null;
    print({ ...contents, limitBytes: limit, weights }, contentsLines(contents));
    return exitCodes.success;
  }
  const removal =
    task === 'clear' ? await clearCache(folder) : await trimCache(folder, flags.to ?? readCacheLimit());
  const { removed, inUse, failures, leftBytes } = removal;
  const data = { removed: removed.map(toJson), inUse: inUse.map(toJson), failures, leftBytes };
  print(data, removalLines(removal));
  return failures.length === 0 ? exitCodes.success : exitCodes.failure;
}

function readTask(given: string): (typeof tasks)[number] {
  const task = tasks.find((name) => name === given);
  if (task !== undefined) return task;
  throw new MistletoeError('usage', `cache cannot ${given}; one of ${tasks.join(', ')} was expected.`, {
    hint: 'Without a task, it lists the cache.',
  });
}

function toJson({ path, sizeBytes, lastUsed, isInUse }: CachedWeights): object {
  return { path, sizeBytes, lastUsed: lastUsed.toISOString(), isInUse };
}

/** Rows of the list; --format json has all. */
const shownFiles = 50;

function contentsLines(contents: CacheContents): readonly string[] {
  const { folder, limitBytes, totalBytes, weights, temporaryCount, foreignCount } = contents;
  const limit = Number.isFinite(limitBytes) ? formatBytes(limitBytes) : 'none';
  const hidden = weights.length - shownFiles;
  return [
    `folder  ${asOneLine(folder)}`,
    `limit   ${limit} (MISTLETOE_CACHE_LIMIT)`,
    `used    ${formatBytes(totalBytes)} in ${countFiles(weights.length)} of weights`,
    ...(weights.length === 0
      ? []
      : ['', ...tableText({ columns, rows: weights.slice(0, shownFiles).map(describeRow) })]),
    ...(hidden > 0 ? [`... and ${hidden} more; --format json lists them all.`] : []),
    ...(temporaryCount + foreignCount === 0 ? [] : ['']),
    ...(temporaryCount === 0 ? [] : [`${countFiles(temporaryCount)} being written, or incomplete.`]),
    ...(foreignCount === 0 ? [] : [`Other files that Mistletoe does not touch: ${foreignCount}.`]),
  ];
}

const columns = ['file', 'size', 'weights', 'last used', 'made from'].map((name) => ({
  name,
  align: 'left' as const,
}));

function describeRow(weights: DescribedWeights): Row {
  const { path, sizeBytes, content = 'unknown', lastUsed, checkpoint, isInUse } = weights;
  const origin = checkpoint === undefined ? 'unknown' : asOneLine(checkpoint);
  const when = isInUse ? 'now' : `${lastUsed.toISOString().slice(0, 16).replace('T', ' ')}Z`;
  return { cells: [shortName(path), formatBytes(sizeBytes), content, when, origin] };
}

/** Twelve of its 64 digits identify a file. */
const shortName = (path: string): string => `${basename(path).slice(0, 12)}…`;

function removalLines({ removed, inUse, failures, leftBytes }: Removal): readonly string[] {
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

const describeOne = ({ path, sizeBytes }: CachedWeights): string =>
  `${shortName(path)}  ${formatBytes(sizeBytes)}`;

const countFiles = (count: number): string => countText(count, 'file');
