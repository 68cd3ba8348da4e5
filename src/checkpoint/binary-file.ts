import { open, stat, type FileHandle } from 'node:fs/promises';
import { codeOf, describeCause, MistletoeError } from '../core/errors.js';
import { refuse } from './stored-tensor.js';

/** System calls move less than 2 GiB at a time. */
export const maximumTransferBytes = 1024 * 1024 * 1024;

export interface BinaryFile {
  readonly path: string;
  readonly sizeBytes: number;
  readonly handle: FileHandle;
}

/** Opens a regular file; a pipe or device could block forever. Errors of `use` are not wrapped. */
export async function withFile<Result>(
  path: string,
  use: (file: BinaryFile) => Promise<Result>,
): Promise<Result> {
  const file = await openFile(path);
  try {
    return await use(file);
  } finally {
    await file.handle.close();
  }
}

/** Like `withFile`, for callers that close the handle themselves. */
export async function openFile(path: string): Promise<BinaryFile> {
  try {
    // Checked before opening, because opening a pipe without a writer already blocks.
    const status = await stat(path);
    if (!status.isFile()) throw refuse(`${path} is not a regular file`, 'Put the weight file itself there.');
    const handle = await open(path, 'r');
    return { path, sizeBytes: status.size, handle };
  } catch (cause) {
    throw asCheckpointError(path, cause);
  }
}

export function asCheckpointError(path: string, cause: unknown): MistletoeError {
  if (cause instanceof MistletoeError) return cause;
  const code = codeOf(cause);
  if (code === 'ENOENT') {
    return refuse(`${path} does not exist`, 'Check the path, or download the missing file.', cause);
  }
  if (code === undefined) throw cause; // a bug, not a failure of the file
  return refuse(
    `${path} cannot be read: ${describeCause(cause)}`,
    'Check that it is a file you may read.',
    cause,
  );
}

/** Fills `target` from `position`. Throws if the file ends before. */
export async function readExactly(file: BinaryFile, position: number, target: Uint8Array): Promise<void> {
  let filled = 0;
  while (filled < target.byteLength) {
    const rest = target.subarray(filled);
    const length = Math.min(rest.byteLength, maximumTransferBytes);
    const { bytesRead } = await file.handle
      .read(rest, 0, length, position + filled)
      .catch((cause: unknown) => Promise.reject(asCheckpointError(file.path, cause)));
    if (bytesRead === 0) {
      throw refuse(
        `${file.path} ends at byte ${position + filled}, expected ${target.byteLength - filled} bytes more`,
      );
    }
    filled += bytesRead;
  }
}

/** Checked against the file's size before anything is allocated. */
export async function readBytes(file: BinaryFile, position: number, sizeBytes: number): Promise<Buffer> {
  if (position < 0 || sizeBytes < 0 || position + sizeBytes > file.sizeBytes) {
    throw refuse(
      `${file.path} has ${file.sizeBytes} bytes, but bytes ${position} to ${position + sizeBytes} are needed`,
    );
  }
  const bytes = Buffer.allocUnsafe(sizeBytes);
  await readExactly(file, position, bytes);
  return bytes;
}

/** A repository cloned without Git LFS has small text files in place of large ones. */
export function refuseGitPointer(file: BinaryFile, opening: Uint8Array): void {
  if (Buffer.from(opening).toString('latin1').startsWith('version https://git-lfs')) {
    throw refuse(
      `${file.path} is a Git LFS pointer, not the weights themselves`,
      'Run `git lfs pull` in the repository, or download the file from its page.',
    );
  }
}
