import type { CheckedWeights } from '../checkpoint/cache/cache-contents.js';
import { describeCache, verifyCache } from '../checkpoint/cache/cache-contents.js';
import { readCacheLimit } from '../checkpoint/cache/cache-folder.js';
import { defaultCacheFolder } from '../core/default-cache-folder.js';
import type { CachedWeights, Removal } from '../checkpoint/cache/cache-removal.js';
import { clearCache, trimCache } from '../checkpoint/cache/cache-removal.js';
import type { CacheFlags, CacheTask } from './command-flags.js';
import { contentsLines, removalLines, verificationLine, verificationSummary } from './cache-text.js';
import { exitCodes } from './failure.js';
import type { Terminal } from './terminal.js';

export async function runCache(task: CacheTask, flags: CacheFlags, { stdout }: Terminal): Promise<number> {
  const folder = flags.cacheDir ?? defaultCacheFolder();
  const isJson = flags.format === 'json';
  const print = (value: object, lines: readonly string[]): void => {
    if (isJson) stdout.writeData(`${JSON.stringify(value, undefined, 2)}\n`);
    else stdout.write(lines.map((line) => `${line}\n`).join(''));
  };
  switch (task) {
    case 'list': {
      const contents = await describeCache(folder);
      const { limitBytes, weights } = contents;
      print(
        {
          ...contents,
          limitBytes: Number.isFinite(limitBytes) ? limitBytes : null,
          weights: weights.map((each) => ({
            ...toJson(each),
            checkpoint: each.checkpoint ?? null,
            content: each.content ?? null,
          })),
        },
        contentsLines(contents),
      );
      return exitCodes.success;
    }
    case 'trim':
    case 'clear': {
      const removal =
        task === 'clear' ? await clearCache(folder) : await trimCache(folder, flags.to ?? readCacheLimit());
      const { removed, inUse, failures, leftBytes } = removal;
      print(
        { removed: removed.map(toJson), inUse: inUse.map(toJson), failures, leftBytes },
        removalLines(removal),
      );
      return exitCodeOf(removal);
    }
    case 'verify': {
      const showOne = (checked: CheckedWeights): void => {
        if (!isJson) stdout.write(`${verificationLine(checked)}\n`);
      };
      const checked = await verifyCache(folder, showOne);
      print(
        { weights: checked.map((each) => ({ ...toJson(each), result: each.result })) },
        verificationSummary(checked),
      );
      return checked.some(({ result }) => result === 'damaged') ? exitCodes.badInput : exitCodes.success;
    }
  }
}

function exitCodeOf({ failures }: Removal): number {
  return failures.length === 0 ? exitCodes.success : exitCodes.failure;
}

function toJson({ path, sizeBytes, lastUsed, isInUse }: CachedWeights): object {
  return { path, sizeBytes, lastUsed: lastUsed.toISOString(), isInUse };
}
