import { Argument, type Command, Option } from 'commander';
import { MistletoeError } from '../core/errors.js';
import { addCacheFolder } from './common-flags.js';
import type { CommandContext } from './command.js';
import type { CacheFlags, CacheTask } from './flags.js';
import { cacheTasks } from './flags.js';
import { byteSize } from './option-values.js';

export function addCacheCommand(program: Command, context: CommandContext): void {
  const command = program
    .command('cache')
    .summary('see, trim, check or clear the converted weights')
    .description(
      'Weights are converted to float32 once and kept, so that later starts are quick. Lists what is kept; trim removes what was used longest ago, clear removes everything, verify reads every file and finds damage.',
    )
    .helpOption('-h, --help', 'print this help')
    .addArgument(new Argument('[task]', 'what to do').choices(cacheTasks).default('list'))
    .option(
      '--to <size>',
      'trim to this size, as 20GB (default: $MISTLETOE_CACHE_LIMIT or 64GB)',
      byteSize(0),
    );
  addCacheFolder(command)
    .addOption(
      new Option('--format <format>', 'text for people, json for programs')
        .choices(['text', 'json'])
        .default('text'),
    )
    .addHelpText('after', examples);
  command.action(async (task: CacheTask, flags: CacheFlags) => {
    if (flags.to !== undefined && task !== 'trim') {
      throw new MistletoeError('usage', `--to was given to cache ${task}, which has no size to reach.`, {
        hint: 'Use mistletoe cache trim --to SIZE.',
      });
    }
    const { runCache } = await import('./cache.js');
    context.exitCode = await runCache(task, flags, context.terminal);
  });
}

const examples = `
Examples:
  mistletoe cache                     what is kept, for which model, how large, when it was last used
  mistletoe cache trim --to 20GB      remove what was used longest ago until 20 GB are left
  mistletoe cache verify              read every file; those that are damaged are made anew when needed
  mistletoe cache clear               remove everything; the next start of each model is slow once

What a running command uses stays, and so does every file that is not Mistletoe’s.
MISTLETOE_CACHE_LIMIT (such as 50GB, or none; default 64GB) is kept without this command: before new weights are
written, those that were used longest ago go.

Exit code 0 if it is done, 1 if a file could not be removed, 2 if verify finds a damaged file.
`;
