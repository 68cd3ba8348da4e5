/**
 * Downloads one file into the hub's cache: into a partial file, resuming an earlier attempt, hashed as it arrives,
 * and renamed once size and hash are correct. The name is the hash, so a file with that name is complete.
 * Partial files are named HASH.PID.HOST.RANDOM.incomplete and have one writer. A process takes over a dead one's file
 * by renaming it. Partial files of other libraries (HASH.incomplete) are left alone.
 */
import { createHash, type Hash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { open, readdir, rename, rm, stat, type FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { MistletoeError } from '../../core/errors.js';
import { beginWriting, endWriting, hostTag, isBeingWritten, makeProcessTag } from '../../core/processes.js';
import { resumeHint, type HubBody, type HubFile } from './hub-client.js';

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
    const status = await stat(path).catch(() => undefined);
    if (status?.isFile() !== true) continue;
    const isSilent = Date.now() - status.mtimeMs > maxSilenceMs;
    if (isSilent || (host === hostTag() && !isBeingWritten(path, Number(pid))))
      found.push({ path, sizeBytes: status.size });
  }
  return found.sort((left, right) => right.sizeBytes - left.sizeBytes);
}

async function claimPartialFile(folder: string, hash: string): Promise<string | undefined> {
  let own: string | undefined;
  for (const { path } of await listPartialFiles(folder, hash)) {
    if (own !== undefined) {
      await rm(path, { force: true }).catch(() => undefined);
      continue;
    }
    const taken = claimNew(folder, hash);
    const isTaken = await rename(path, taken).then(
      () => true,
      () => false, // another process was quicker
    );
    if (isTaken) own = taken;
    else endWriting(taken);
  }
  return own;
}

function claimNew(folder: string, hash: string): string {
  const path = join(folder, `${hash}.${makeProcessTag()}.incomplete`);
  beginWriting(path);
  return path;
}

export interface BlobRequest {
  readonly folder: string;
  readonly file: HubFile;
  readonly host: string;
  readonly openBody: (firstByte: number) => Promise<HubBody>;
  readonly onBytes?: ((doneBytes: number) => void) | undefined;
  /** Waits between attempts; replaced in tests. */
  readonly pause?: ((milliseconds: number) => Promise<unknown>) | undefined;
}

export async function fetchBlob(request: BlobRequest): Promise<void> {
  const { folder, file } = request;
  const partial = await claimPartialFile(folder, file.hash);
  if (partial !== undefined && (await finish(request, partial, true))) return;
  await finish(request, claimNew(folder, file.hash), false);
}

/** Returns false if the bytes of an earlier attempt were wrong; they are then removed. */
async function finish(request: BlobRequest, path: string, isResumed: boolean): Promise<boolean> {
  const blob = join(request.folder, request.file.hash);
  const output = await openOutput(path, request.file, isResumed);
  try {
    await receiveAll(output, request);
    const { file, host } = request;
    const found = output.hash.digest('hex');
    if (found !== file.hash)
      throw new WrongFile(host, file, `has the hash ${found}; ${file.hash} was expected`);
    await output.handle.sync();
    await output.handle.close();
    await rename(path, blob).catch((cause: unknown) => {
      if (!existsSync(blob)) throw cause; // else another process took it over and finished it
    });
    return true;
  } catch (failure) {
    if (!(failure instanceof WrongFile)) throw failure;
    await rm(path, { force: true });
    if (isResumed) return false;
    throw failure;
  } finally {
    endWriting(path);
    await output.handle.close();
  }
}

interface Output {
  readonly handle: FileHandle;
  readonly hash: Hash;
  sizeBytes: number;
}

async function openOutput(path: string, file: HubFile, isResumed: boolean): Promise<Output> {
  const handle = await open(path, isResumed ? 'r+' : 'wx');
  const output: Output = { handle, hash: beginHash(file), sizeBytes: 0 };
  if (!isResumed) return output;
  const buffer = new Uint8Array(4 * 1024 * 1024);
  for (;;) {
    const { bytesRead } = await handle.read(buffer, 0, buffer.byteLength, output.sizeBytes);
    if (bytesRead === 0) return output;
    output.hash.update(buffer.subarray(0, bytesRead));
    output.sizeBytes += bytesRead;
  }
}

/** 64 digits are sha256; 40 digits are git's blob hash, a sha1 with the size in front. */
function beginHash({ hash, sizeBytes }: HubFile): Hash {
  return hash.length === 64 ? createHash('sha256') : createHash('sha1').update(`blob ${sizeBytes}\0`);
}

const maxFailures = 4;
const firstPauseMs = 1000;

/** Resumes after a broken connection, and gives up after several attempts without progress. */
async function receiveAll(output: Output, request: BlobRequest): Promise<void> {
  const { file, pause = sleep } = request;
  let failures = 0;
  while (output.sizeBytes < file.sizeBytes) {
    const before = output.sizeBytes;
    try {
      await receive(output, request);
    } catch (failure) {
      const isNetwork = failure instanceof MistletoeError && failure.code === 'network';
      if (!isNetwork || failure instanceof WrongFile) throw failure;
      failures = output.sizeBytes > before ? 1 : failures + 1;
      if (failures >= maxFailures) throw failure;
      await pause(firstPauseMs * 2 ** (failures - 1));
    }
  }
}

async function receive(output: Output, { file, host, openBody, onBytes }: BlobRequest): Promise<void> {
  onBytes?.(output.sizeBytes);
  const { firstByte, chunks } = await openBody(output.sizeBytes);
  let position = firstByte;
  for await (const chunk of chunks) {
    // A server without range support starts from the beginning: skip the bytes that are already there.
    const fresh = chunk.subarray(Math.max(0, output.sizeBytes - position));
    position += chunk.byteLength;
    if (position > file.sizeBytes || position - fresh.byteLength > output.sizeBytes) {
      throw new WrongFile(host, file, `is not the ${file.sizeBytes} bytes that it was announced with`);
    }
    await write(output, fresh);
    onBytes?.(output.sizeBytes);
  }
  if (output.sizeBytes < file.sizeBytes) {
    throw new MistletoeError(
      'network',
      `${host} ended ${file.path} at ${output.sizeBytes} of ${file.sizeBytes} bytes.`,
      { hint: resumeHint },
    );
  }
}

async function write(output: Output, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.byteLength;) {
    const rest = bytes.subarray(written);
    written += (await output.handle.write(rest, 0, rest.byteLength, output.sizeBytes + written)).bytesWritten;
  }
  output.hash.update(bytes);
  output.sizeBytes += bytes.byteLength;
}

class WrongFile extends MistletoeError {
  constructor(host: string, { path }: HubFile, what: string) {
    super('network', `${path} from ${host} ${what}; nothing of it is kept.`, {
      hint: 'Try again; if it stays so, something between here and the hub changes files.',
    });
  }
}
