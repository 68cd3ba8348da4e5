/**
 * Downloads a model into the shared cache: first all files, named by hash, then the snapshot's links (weights last),
 * then the reference. A killed download leaves files for the next attempt, and nothing that looks like a complete
 * model.
 */
import { stat, statfs, symlink } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { formatBytes } from '../../core/number-text.js';
import { MistletoeError } from '../../core/errors.js';
import { makeFolderBelow, replaceFile } from '../../core/durable-files.js';
import { fileLimits } from '../../core/limits.js';
import { chooseLayout, describingNames, readShardIndex } from '../checkpoint-folder.js';
import { quote, refuse } from '../stored-tensor.js';
import { fetchBlob, listPartialFiles, type BlobOptions } from './hub-blob.js';
import type { HubId, HubSettings } from './hub-settings.js';
import { formatHubId, readHubSettings, readReference, repositoryFolders } from './hub-settings.js';
import { HubRepository, type HubFile } from './hub-client.js';

export interface DownloadOptions extends Pick<BlobOptions, 'pause'> {
  /** Not called if nothing is missing. */
  readonly onStart?: ((totalBytes: number) => void) | undefined;
  readonly onProgress?:
    | ((progress: { readonly file: string; readonly doneBytes: number }) => void)
    | undefined;
  /** Free bytes of the disk under a folder; replaced in tests. */
  readonly measureRoom?: ((folder: string) => Promise<number>) | undefined;
}

/**
 * Returns the model's folder. Cached files are not fetched again.
 * @example const folder = await downloadModel(parseHubId('lmsys/vicuna-7b-v1.5')!);
 */
export async function downloadModel(
  id: HubId,
  settings: HubSettings = readHubSettings(),
  options: DownloadOptions = {},
): Promise<string> {
  const snapshot = await openSnapshot(id, settings);
  const { measureRoom, pause } = options;
  const files = await selectFiles(snapshot, async (index) => {
    await fetchMissing(snapshot, [index], { measureRoom, pause });
    const shards = new Set((await readShardIndex((await findFile(snapshot, index))!)).values());
    return [...shards].map((shard) => requireFile(snapshot, shard));
  });
  await download(snapshot, files, options);
  return snapshot.folder;
}

/** The same for one file of a data set, by its path there; returns the path in the cache. */
export async function downloadDataFile(
  id: HubId,
  isWanted: (path: string) => boolean,
  settings: HubSettings,
  options: DownloadOptions = {},
): Promise<string> {
  const snapshot = await openSnapshot(id, settings);
  const files = snapshot.listed.filter(({ path }) => isWanted(path));
  const [found] = files;
  if (found === undefined || files.length > 1) {
    throw new MistletoeError(
      'network',
      `${snapshot.name} on ${snapshot.repository.host} has ${files.length} files of the expected name; one was expected.`,
      { hint: 'Its layout has changed: download the set yourself and give --prompts-dir.' },
    );
  }
  await download(snapshot, files, options);
  return join(snapshot.folder, found.path);
}

/** Bytes that a download would fetch, without fetching any; `isWanted` chooses files of a data set. */
export async function measureDownload(
  id: HubId,
  settings: HubSettings,
  isWanted?: (path: string) => boolean,
): Promise<number> {
  const snapshot = await openSnapshot(id, settings);
  const { listed } = snapshot;
  // Which shards count is in the index, which is not fetched: all of its format do.
  const listShards = ({ path: index }: HubFile): Promise<readonly HubFile[]> => {
    const ending = index.replace(/^.*(\.\w+)\.index\.json$/, '$1');
    return Promise.resolve(listed.filter(({ path }) => !path.includes('/') && path.endsWith(ending)));
  };
  const wanted =
    isWanted === undefined
      ? await selectFiles(snapshot, listShards)
      : listed.filter(({ path }) => isWanted(path));
  return countBytes(await listMissing(snapshot, wanted));
}

/** A commit of a repository and its place in the cache. */
interface Snapshot {
  readonly name: string;
  readonly repository: HubRepository;
  readonly listed: readonly HubFile[];
  readonly folder: string;
  readonly blobs: string;
  readonly refs: string;
  /** Of all repositories. */
  readonly cacheFolder: string;
}

async function openSnapshot(id: HubId, settings: HubSettings): Promise<Snapshot> {
  const name = formatHubId(id);
  if (settings.isOffline) {
    throw new MistletoeError('usage', `${name} is not fetched while HF_HUB_OFFLINE is set.`, {
      hint: 'Unset it, or use what is in the cache.',
    });
  }
  const repository = await HubRepository.open(id, settings);
  const listed = await repository.listFiles();
  const { cacheFolder } = settings;
  const { snapshots, blobs, refs } = repositoryFolders(cacheFolder, id);
  const folder = join(snapshots, repository.commit);
  return { name, repository, listed, folder, blobs, refs, cacheFolder };
}

/** Config and tokenizer files by name, and one format of the weights; an index comes before its shards. */
async function selectFiles(
  snapshot: Snapshot,
  listShards: (index: HubFile) => Promise<readonly HubFile[]>,
): Promise<readonly HubFile[]> {
  const { name, listed } = snapshot;
  const describing = listed.filter(({ path }) => describingNames.includes(path));
  const large = describing.find(({ sizeBytes }) => sizeBytes > fileLimits.tokenizer);
  if (large !== undefined) {
    throw refuse(
      `${large.path} of ${name} has ${large.sizeBytes} bytes, at most ${fileLimits.tokenizer} are read`,
      'Check that it is the right model.',
    );
  }
  const layout = chooseLayout(
    name,
    listed.map(({ path }) => path).filter((path) => !path.includes('/')),
  );
  const first = requireFile(snapshot, layout.file);
  return [...describing, first, ...(layout.isIndex ? await listShards(first) : [])];
}

function requireFile({ name, listed }: Snapshot, path: string): HubFile {
  const file = listed.find((each) => each.path === path);
  if (file !== undefined) return file;
  throw refuse(
    `The index of ${name} names the file ${quote(path)}, which the repository does not have.`,
    'The upload is incomplete: use another revision, or tell its author.',
  );
}

async function download(
  snapshot: Snapshot,
  files: readonly HubFile[],
  options: DownloadOptions,
): Promise<void> {
  await fetchMissing(snapshot, files, options);
  for (const file of files) await linkFile(snapshot, file);
  const { id, commit } = snapshot.repository;
  if (id.revision !== commit) await writeReference(snapshot, id.revision, commit);
}

/** The file's path in the snapshot or under its hash. A file of another size is damaged. */
async function findFile({ folder, blobs }: Snapshot, file: HubFile): Promise<string | undefined> {
  for (const path of [join(folder, file.path), join(blobs, file.hash)]) {
    const status = await stat(path).catch(() => undefined);
    if (status?.isFile() === true && status.size === file.sizeBytes) return path;
  }
  return undefined;
}

/** Equal files count once. */
async function listMissing(snapshot: Snapshot, files: readonly HubFile[]): Promise<readonly HubFile[]> {
  const missing = new Map<string, HubFile>(); // by hash
  for (const file of files) if ((await findFile(snapshot, file)) === undefined) missing.set(file.hash, file);
  return [...missing.values()];
}

const countBytes = (files: readonly HubFile[]): number =>
  files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);

async function fetchMissing(
  snapshot: Snapshot,
  files: readonly HubFile[],
  { measureRoom = measureFreeBytes, onStart, onProgress, pause }: DownloadOptions,
): Promise<void> {
  const { name, repository, blobs, cacheFolder } = snapshot;
  const missing = await listMissing(snapshot, files);
  if (missing.length === 0) return;
  makeFolderBelow(cacheFolder, blobs);
  let neededBytes = 0;
  for (const { hash, sizeBytes } of missing) {
    const [partial] = await listPartialFiles(blobs, hash);
    neededBytes += Math.max(0, sizeBytes - (partial?.sizeBytes ?? 0));
  }
  const freeBytes = await measureRoom(blobs);
  if (neededBytes > freeBytes) {
    throw new MistletoeError(
      'usage',
      `${name} needs ${formatBytes(neededBytes)} more in ${blobs}, where ${formatBytes(freeBytes)} are free.`,
      { hint: 'Make room, or set HF_HUB_CACHE to a folder on another disk.' },
    );
  }
  onStart?.(countBytes(missing));
  let finishedBytes = 0;
  for (const file of missing) {
    const onBytes = (bytes: number) => onProgress?.({ file: file.path, doneBytes: finishedBytes + bytes });
    await fetchBlob(repository, file, blobs, { pause, onBytes });
    finishedBytes += file.sizeBytes;
  }
}

/** Free for non-root users. Some network file systems report no blocks. */
async function measureFreeBytes(folder: string): Promise<number> {
  const { blocks, bavail, bsize } = await statfs(folder);
  return blocks === 0 ? Infinity : bavail * bsize;
}

/** Relative links, as the hub's libraries make them, so the cache can be moved. */
async function linkFile(snapshot: Snapshot, file: HubFile): Promise<void> {
  const link = join(snapshot.folder, file.path);
  if ((await findFile(snapshot, file)) === link) return;
  makeFolderBelow(snapshot.cacheFolder, dirname(link));
  const blob = relative(dirname(link), join(snapshot.blobs, file.hash));
  await replaceFile(link, (temporary) => symlink(blob, temporary));
}

/** Not written if it is already correct: the cache may be read-only. */
async function writeReference(
  { refs, cacheFolder }: Snapshot,
  revision: string,
  commit: string,
): Promise<void> {
  const path = join(refs, revision);
  if ((await readReference(path)) === commit) return;
  makeFolderBelow(cacheFolder, dirname(path));
  await replaceFile(path, commit);
}
