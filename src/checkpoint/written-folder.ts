/**
 * A checkpoint's folder that is replaced as a whole. It is written beside the old one, NAME.PID.HOST.RANDOM.new, and put
 * in its place by two renames, because no file system that is at hand swaps folders in one: the old one steps aside as
 * .old, the new one steps in. A process that is killed between the two leaves an .old that `restoreFolder` puts back;
 * at any other moment the folder is there, old or new. What dead processes left is removed at the next write.
 */
import { mkdir, open, readdir, realpath, rename, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { describeCause, MistletoeError } from '../core/errors.js';
import { makeFolderSync } from '../core/files.js';
import { hostTag, isRunning, makeProcessTag } from '../core/processes.js';
import { errnoOf } from './binary-file.js';
import { describingNames } from './hub/hub-files.js';
import { quote } from './stored-tensor.js';

/**
 * A file that is there whole or not at all: written under a name of its own, synced, renamed. What the disk refuses is
 * told in one sentence, and nothing half-written stays.
 */
/** Where the bytes go; tests put a full disk here. */
export interface FileOutput {
  write(bytes: Uint8Array): Promise<void>;
  /** After this the bytes are on the disk. */
  finish(): Promise<void>;
  /** Gives up; must not throw. */
  abandon(): Promise<void>;
}

export interface WriteOptions {
  /** Opens a file that does not exist yet; replaced in tests. */
  readonly openOutput?: (path: string) => Promise<FileOutput>;
}

export type Append = (bytes: Uint8Array) => Promise<void>;

export async function writeWholeFile(
  path: string,
  fill: (append: Append) => Promise<void>,
  { openOutput = openFileOutput }: WriteOptions = {},
): Promise<void> {
  const temporary = `${path}.${makeProcessTag()}.tmp`;
  try {
    const output = await explainWriting(path, () => openOutput(temporary));
    try {
      await fill((bytes) => explainWriting(path, () => output.write(bytes)));
      await explainWriting(path, () => output.finish());
    } catch (failure) {
      await output.abandon();
      throw failure;
    }
    await explainWriting(path, () => rename(temporary, path));
  } catch (failure) {
    await rm(temporary, { force: true }).catch(() => undefined);
    throw failure;
  }
  await syncFolder(dirname(path));
}

export async function openFileOutput(path: string): Promise<FileOutput> {
  const handle = await open(path, 'wx');
  return {
    write: (bytes) => handle.appendFile(bytes),
    async finish() {
      await handle.sync();
      await handle.close();
    },
    async abandon() {
      await handle.close().catch(() => undefined);
    },
  };
}

/** A new name is safe once its folder is on the disk, too; some systems neither need nor know that. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}

const remedies: Readonly<Record<string, string>> = {
  ENOSPC: 'Make room on the disk, or write to another one.',
  EDQUOT: 'Make room in your quota, or write to another disk.',
  EFBIG: 'The file system takes no file of that size: write to another disk.',
  EACCES: 'Make the folder writable, or choose another one.',
  EPERM: 'Make the folder writable, or choose another one.',
  EROFS: 'The disk is read-only: choose a folder on another one.',
  ENOENT: 'The folder is gone: make it again, or choose another one.',
  ENOTDIR: 'A file stands where a folder is needed: choose another folder.',
  EEXIST: 'A file stands where a folder is needed: choose another folder.',
};

/** For what only the disk can refuse; what else is thrown passes unchanged. */
export async function explainWriting<Result>(path: string, write: () => Promise<Result>): Promise<Result> {
  try {
    return await write();
  } catch (cause) {
    const code = errnoOf(cause);
    if (code === undefined || cause instanceof MistletoeError) throw cause;
    throw new MistletoeError(
      'runtime',
      `${basename(path)} could not be written to ${dirname(path)}: ${describeCause(cause)}.`,
      { hint: remedies[code] ?? 'Choose another folder, or mend that and try again.', cause },
    );
  }
}

/** Of this process, by what their names begin with: its own id says nothing where it is always the same. */
const beingWritten = new Set<string>();

/** Refuses a folder that holds anything else than a checkpoint: it would be lost. */
export async function writeWholeFolder(path: string, fill: (folder: string) => Promise<void>): Promise<void> {
  const given = resolve(path);
  const place = await realpath(given).catch(() => given); // a link stays, what it leads to is replaced
  await restoreFolder(place);
  await requireReplaceable(place);
  const tagged = `${place}.${makeProcessTag()}`;
  const [fresh, aside] = [`${tagged}.new`, `${tagged}.old`];
  beingWritten.add(tagged);
  try {
    await explainWriting(place, async () => {
      makeFolderSync(dirname(place));
      await mkdir(fresh);
    });
    await fill(fresh);
    await syncFolder(fresh);
    await explainWriting(place, () => stepIn(place, fresh, aside));
  } catch (failure) {
    await rm(fresh, { recursive: true, force: true }).catch(() => undefined);
    throw inWordsOf(place, fresh, failure);
  } finally {
    beingWritten.delete(tagged);
  }
  await syncFolder(dirname(place));
  // Only room is lost where this fails.
  await rm(aside, { recursive: true, force: true }).catch(() => undefined);
}

/** Whoever reads a failure knows the folder by the name that it was given. */
function inWordsOf(place: string, fresh: string, failure: unknown): unknown {
  if (!(failure instanceof MistletoeError) || !failure.message.includes(fresh)) return failure;
  const { code, message, hint, cause } = failure;
  return new MistletoeError(code, message.replaceAll(fresh, place), {
    ...(hint === undefined ? {} : { hint }),
    cause,
  });
}

async function stepIn(place: string, fresh: string, aside: string): Promise<void> {
  const isThere = await rename(place, aside).then(
    () => true,
    async (cause: unknown) => {
      if (await exists(place)) throw cause;
      return false;
    },
  );
  try {
    await rename(fresh, place);
  } catch (cause) {
    if (isThere) await rename(aside, place);
    throw cause;
  }
}

/** Puts back what a process that was killed had moved aside, and removes what it left unfinished. */
export async function restoreFolder(path: string): Promise<void> {
  const place = resolve(path);
  for (const { remains, kind, isForeign } of await listRemains(place)) {
    if (kind === 'old' && !(await exists(place))) await explainWriting(place, () => rename(remains, place));
    else if (!isForeign) await rm(remains, { recursive: true, force: true }).catch(() => undefined);
  }
}

interface Remains {
  readonly remains: string;
  readonly kind: 'old' | 'new';
  /** Of another host, whose processes cannot be asked. */
  readonly isForeign: boolean;
}

/** Without those of processes that are known to run. */
async function listRemains(place: string): Promise<readonly Remains[]> {
  const names = await readdir(dirname(place)).catch(() => []);
  const opening = `${basename(place)}.`;
  const form = /^((\d+)\.([0-9a-f]{16})\.[0-9a-f]{16})\.(old|new)$/;
  return names.flatMap((name): Remains[] => {
    const [, tag, pid, host, kind] =
      form.exec(name.startsWith(opening) ? name.slice(opening.length) : '') ?? [];
    if (tag === undefined) return [];
    const isForeign = host !== hostTag();
    if (!isForeign && isWriting(Number(pid), `${place}.${tag}`)) return [];
    return [{ remains: join(dirname(place), name), kind: kind as Remains['kind'], isForeign }];
  });
}

function isWriting(pid: number, tagged: string): boolean {
  return pid === process.pid ? beingWritten.has(tagged) : isRunning(pid);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}

async function requireReplaceable(place: string): Promise<void> {
  const status = await stat(place).catch(() => undefined);
  if (status === undefined) return;
  const hint = 'Choose a folder that does not exist yet.';
  if (!status.isDirectory()) {
    throw new MistletoeError('usage', `${place} is a file; a folder for a drafter was expected.`, { hint });
  }
  const entries = await explainWriting(place, () => readdir(place, { withFileTypes: true }));
  const other = entries.find((entry) => entry.isDirectory() || !isOfCheckpoint(entry.name));
  if (other === undefined) return;
  throw new MistletoeError(
    'usage',
    `${place} holds ${quote(other.name)}, which is no part of a drafter, and would be replaced as a whole.`,
    { hint },
  );
}

const isOfCheckpoint = (name: string): boolean =>
  describingNames.includes(name) || /\.(safetensors|bin|pt)(\.index\.json)?$/.test(name);
