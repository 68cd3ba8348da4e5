/**
 * Downloads one file into the hub's cache: into a partial file, resuming an earlier attempt, hashed as it arrives,
 * and renamed once size and hash are correct. The name is the hash, so a file with that name is complete.
 * Partial files are named HASH.PID.HOST.RANDOM.incomplete and have one writer. A process takes over a dead one's file
 * by renaming it. Partial files of other libraries (HASH.incomplete) are left alone.
 */
import { createHash, type Hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { lstat, readdir, rename, rm, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openToWrite } from '../../core/durable-files.js';
import { MistletoeError } from '../../core/errors.js';
import { beginWriting, endWriting, hostTag, isBeingWritten, makeProcessTag } from '../../core/processes.js';
import { resumeHint, type HubFile, type HubRepository } from './hub-client.js';

/** fetch gives up after five silent minutes. */
const maxSilenceMs = 15 * 60 * 1000;

interface PartialFile {
  readonly path: string;
  readonly sizeBytes: number;
}

/** Without a writer, the largest first. */
export async function listPartialFiles(folder: string, hash: string): Promise<readonly PartialFile[]> {
  const form = new RegExp(`^${hash}\\.(\\d+)\\.([0-9a-f]{16})\\.[0-9a-f]{16}\\.incomplete$`);
  const found: PartialFile[] = [];
  for (const name of await readdir(folder).catch(() => [])) {
    const [, pid, host] = form.exec(name) ?? [];
    if (pid === undefined) continue;
    const path = join(folder, name);
    const status = await lstat(path).catch(() => undefined);
    if (status?.isFile() !== true || status.nlink > 1) continue; // no process made such a file
    const isSilent = Date.now() - status.mtimeMs > maxSilenceMs;
    if (isSilent || (host === hostTag() && !isBeingWritten(path, Number(pid))))
      found.push({ path, sizeBytes: status.size });
  }
  return found.sort((left, right) => right.sizeBytes - left.sizeBytes);
}

/** Renames the largest file that has no writer to a name of this process, and removes the others. */
async function takeOver(folder: string, hash: string): Promise<string | undefined> {
  let own: string | undefined;
  for (const { path } of await listPartialFiles(folder, hash)) {
    if (own !== undefined) {
      await rm(path, { force: true }).catch(() => undefined);
      continue;
    }
    own = claimNew(folder, hash);
    const claimed = own;
    await rename(path, claimed).catch(() => {
      endWriting(claimed); // another process was quicker
      own = undefined;
    });
  }
  return own;
}

function claimNew(folder: string, hash: string): string {
  const path = join(folder, `${hash}.${makeProcessTag()}.incomplete`);
  beginWriting(path);
  return path;
}

export interface BlobOptions {
  readonly onBytes: (doneBytes: number) => void;
  /** Waits between attempts; replaced in tests. */
  readonly pause?: ((milliseconds: number) => Promise<unknown>) | undefined;
}

export async function fetchBlob(
  repository: HubRepository,
  file: HubFile,
  folder: string,
  options: BlobOptions,
): Promise<void> {
  const download: Download = { ...options, repository, file, blob: join(folder, file.hash) };
  const partial = await takeOver(folder, file.hash);
  try {
    await finish(download, partial ?? claimNew(folder, file.hash));
  } catch (failure) {
    if (partial === undefined || !(failure instanceof WrongFile)) throw failure;
    await finish(download, claimNew(folder, file.hash)); // the bytes of an earlier attempt were wrong
  }
}

interface Download extends BlobOptions {
  readonly repository: HubRepository;
  readonly file: HubFile;
  readonly blob: string;
}

interface Output {
  readonly handle: FileHandle;
  readonly hash: Hash;
  sizeBytes: number;
}

/** Continues the file at the path, or begins it. If its bytes are wrong, it is removed. */
async function finish(download: Download, path: string): Promise<void> {
  const { file, blob } = download;
  const handle = await openToWrite(path, 'append');
  const output: Output = { handle, hash: beginHash(file), sizeBytes: 0 };
  try {
    const written = handle.createReadStream({ start: 0, autoClose: false, highWaterMark: 2 ** 20 });
    for await (const bytes of written as AsyncIterable<Uint8Array>) count(output, bytes);
    await receiveAll(output, download);
    const found = output.hash.digest('hex');
    if (found !== file.hash)
      throw new WrongFile(download, `has the hash ${found}; ${file.hash} was expected`);
    await handle.sync();
    await rename(path, blob).catch((cause: unknown) => {
      if (!existsSync(blob)) throw cause; // else another process took it over and finished it
    });
  } catch (failure) {
    if (failure instanceof WrongFile) await rm(path, { force: true });
    throw failure;
  } finally {
    endWriting(path);
    await handle.close();
  }
}

function count(output: Output, bytes: Uint8Array): void {
  output.hash.update(bytes);
  output.sizeBytes += bytes.byteLength;
}

/** 64 digits are sha256; 40 digits are git's blob hash, a sha1 with the size in front. */
function beginHash({ hash, sizeBytes }: HubFile): Hash {
  return hash.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${sizeBytes}\0`);
}

const maxFailures = 4;
const firstPauseMs = 1000;

/** Resumes after a broken connection, and gives up after several attempts without progress. */
async function receiveAll(output: Output, download: Download): Promise<void> {
  const { file, pause = sleep } = download;
  let failures = 0;
  while (output.sizeBytes < file.sizeBytes) {
    const before = output.sizeBytes;
    try {
      await receive(output, download);
    } catch (failure) {
      const isNetwork = failure instanceof MistletoeError && failure.code === 'network';
      if (!isNetwork || failure instanceof WrongFile) throw failure;
      failures = output.sizeBytes > before ? 1 : failures + 1;
      if (failures >= maxFailures) throw failure;
      await pause(firstPauseMs * 2 ** (failures - 1));
    }
  }
}

async function receive(output: Output, download: Download): Promise<void> {
  const { repository, file, onBytes } = download;
  onBytes(output.sizeBytes);
  const { firstByte, chunks } = await repository.openFile(file.path, output.sizeBytes);
  let position = firstByte;
  for await (const chunk of chunks) {
    // A server without range support starts from the beginning: skip the bytes that are already there.
    const fresh = chunk.subarray(Math.max(0, output.sizeBytes - position));
    position += chunk.byteLength;
    if (position > file.sizeBytes || position - fresh.byteLength > output.sizeBytes)
      throw new WrongFile(download, `is not the ${file.sizeBytes} bytes that it was announced with`);
    await output.handle.appendFile(fresh);
    count(output, fresh);
    onBytes(output.sizeBytes);
  }
  if (output.sizeBytes < file.sizeBytes) {
    throw new MistletoeError(
      'network',
      `${repository.host} ended ${file.path} at ${output.sizeBytes} of ${file.sizeBytes} bytes.`,
      { hint: resumeHint },
    );
  }
}

class WrongFile extends MistletoeError {
  constructor({ file: { path }, repository: { host } }: Download, what: string) {
    super('network', `${path} from ${host} ${what}; nothing of it is kept.`, {
      hint: 'Try again; if it stays so, something between here and the hub changes files.',
    });
  }
}
