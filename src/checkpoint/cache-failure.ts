import { describeCause } from '../core/errors.js';

/** The cache cannot take the weights; they can still be used from memory. A checkpoint that cannot be read is none. */
export class CacheFailure extends Error {
  constructor(
    message: string,
    readonly remedy: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

export function unwritable(folder: string, reason: string, cause?: unknown): CacheFailure {
  return new CacheFailure(
    `The weight cache in ${folder} cannot be written (${reason})`,
    'Set MISTLETOE_CACHE to a folder with room.',
    cause,
  );
}

/** For what only the disk under the cache can refuse. */
export async function onDisk<Result>(folder: string, action: () => Promise<Result>): Promise<Result> {
  try {
    return await action();
  } catch (cause) {
    throw unwritable(folder, describeCause(cause), cause);
  }
}
