/**
 * Downloads a model into the shared cache: first all files, named by hash, then the snapshot's links (weights last),
 * then the reference. A killed download leaves files for the next attempt, and nothing that looks like a complete
 * model.
 */
import { readFile, rename, rm, stat, statfs, symlink, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { formatBytes } from '../../core/byte-size.js';
import { MistletoeError } from '../../core/errors.js';
import { makeFolderSync } from '../../core/files.js';
import { fileLimits } from '../../core/limits.js';
import { makeProcessTag } from '../../core/processes.js';
import type { WeightLayout } from '../checkpoint-folder.js';
import { chooseLayout, describingNames, readShardIndex } from '../checkpoint-folder.js';
import { quote, refuse } from '../stored-tensor.js';
import type { BlobRequest } from './hub-blob.js';
import { fetchBlob, listPartialFiles } from './hub-blob.js';
import type { RepositoryFolders } from './hub-cache.js';
import { repositoryFolders } from './hub-cache.js';
import type { HubClient, HubFile } from './hub-client.js';
import { createHubClient } from './hub-client.js';
import type { HubId, HubSettings } from './hub-settings.js';
import { formatHubId, readHubSettings } from './hub-settings.js';

/** Files to download: config and tokenizer files by name, and one format of the weights. */
interface ModelFiles {
  readonly describing: readonly HubFile[];
  readonly layout: WeightLayout;
}

function selectFiles(id: HubId, files: readonly HubFile[]): ModelFiles {
  const name = formatHubId(id);
  const describing = files.filter(({ path }) => describingNames.includes(path));
  const large = describing.find(({ sizeBytes }) => sizeBytes > fileLimits.tokenizer);
  if (large !== undefined) {
    throw refuse(
      `${large.path} of ${name} has ${large.sizeBytes} bytes, at most ${fileLimits.tokenizer} are read`,
      'Check that it is the right model.',
    );
  }
  const names = files.map(({ path }) => path).filter((path) => !path.includes('/'));
  return { describing, layout: chooseLayout(name, names) };
}

function requireFile(id: HubId, files: readonly HubFile[], path: string): HubFile {
  const file = files.find((each) => each.path === path);
  if (file !== undefined) return file;
  throw new MistletoeError(
    'checkpoint',
    `The index of ${formatHubId(id)} names the file ${quote(path)}, which the repository does not have.`,
    { hint: 'The upload is incomplete: use another revision, or tell its author.' },
  );
}

interface SnapshotPlace {
  readonly folders: RepositoryFolders;
  readonly commit: string;
}

function snapshotFolder({ folders, commit }: SnapshotPlace): string {
  return join(folders.snapshots, commit);
}

/** The file's path in the snapshot or under its hash. A file of another size is damaged. */
async function findFile(place: SnapshotPlace, file: HubFile): Promise<string | undefined> {
  for (const path of [join(snapshotFolder(place), file.path), join(place.folders.blobs, file.hash)]) {
    const status = await stat(path).catch(() => undefined);
    if (status?.isFile() === true && status.size === file.sizeBytes) return path;
  }
  return undefined;
}

/** Relative links, as the hub's libraries make them, so the cache can be moved. */
async function linkFile(place: SnapshotPlace, file: HubFile): Promise<void> {
  const link = join(snapshotFolder(place), file.path);
  if ((await findFile(place, file)) === link) return;
  makeFolderSync(dirname(link));
  const blob = join(place.folders.blobs, file.hash);
  await replace(link, (temporary) => symlink(relative(dirname(link), blob), temporary));
}

/** Not written if it is already correct: the cache may be read-only. */
async function writeReference(path: string, commit: string): Promise<void> {
  if ((await readFile(path, 'utf8').catch(() => undefined)) === commit) return;
  makeFolderSync(dirname(path));
  await replace(path, (temporary) => writeFile(temporary, commit));
}

/** By renaming: other processes see the old file or the new one. */
async function replace(path: string, make: (temporary: string) => Promise<void>): Promise<void> {
  const temporary = `${path}.${makeProcessTag()}.tmp`;
  try {
    await make(temporary);
    await rename(temporary, path);
  } catch (failure) {
    await rm(temporary, { force: true });
    throw failure;
  }
}

export interface DownloadProgress {
  readonly file: string;
  readonly doneBytes: number;
}

export interface DownloadOptions extends Pick<BlobRequest, 'pause'> {
  /** Not called if nothing is missing. */
  readonly onStart?: ((totalBytes: number) => void) | undefined;
  readonly onProgress?: ((progress: DownloadProgress) => void) | undefined;
  /** Free bytes of the disk under a folder; replaced in tests. */
  readonly measureRoom?: ((folder: string) => Promise<number>) | undefined;
}

/**
 * Returns the model's folder. Cached files are not fetched again.
 * @example const folder = await downloadModel(parseHubId('lmsys/vicuna-7b-v1.5')!);
 */
export function downloadModel(
  id: HubId,
  settings: HubSettings = readHubSettings(),
  options: DownloadOptions = {},
): Promise<string> {
  return downloadFiles(id, chooseFiles, settings, options);
}

/** The same for one file of a data set, by its path there; returns the path in the cache. */
export async function downloadDataFile(
  id: HubId,
  isWanted: (path: string) => boolean,
  settings: HubSettings,
  options: DownloadOptions = {},
): Promise<string> {
  let found: HubFile | undefined;
  const folder = await downloadFiles(
    id,
    async ({ client, commit }) => {
      const files = (await client.listFiles(id, commit)).filter(({ path }) => isWanted(path));
      [found] = files;
      if (found !== undefined && files.length === 1) return [found];
      throw new MistletoeError(
        'network',
        `${formatHubId(id)} on ${client.host} has ${files.length} files of the expected name; one was expected.`,
        { hint: 'Its layout has changed: download the set yourself and give --prompts-dir.' },
      );
    },
    settings,
    options,
  );
  return join(folder, found!.path);
}

/** Bytes that a download would fetch, without fetching any; `isWanted` chooses files of a data set. */
export async function measureDownload(
  id: HubId,
  settings: HubSettings,
  isWanted?: (path: string) => boolean,
): Promise<number> {
  const client = createHubClient({ endpoint: settings.endpoint, token: await settings.readToken() });
  const commit = await client.findCommit(id);
  const place = { commit, folders: repositoryFolders(settings.cacheFolder, id) };
  const listed = await client.listFiles(id, commit);
  const wanted =
    isWanted === undefined ? listModelFiles(id, listed) : listed.filter(({ path }) => isWanted(path));
  let bytes = 0;
  for (const file of wanted) if ((await findFile(place, file)) === undefined) bytes += file.sizeBytes;
  return bytes;
}

/** Which shards count is in the index, which is not fetched: all of its format do. */
function listModelFiles(id: HubId, listed: readonly HubFile[]): readonly HubFile[] {
  const { describing, layout } = selectFiles(id, listed);
  if (layout.kind === 'single') return [...describing, requireFile(id, listed, layout.file)];
  const ending = layout.index.replace(/^.*(\.\w+)\.index\.json$/, '$1');
  const shards = listed.filter(({ path }) => !path.includes('/') && path.endsWith(ending));
  return [...describing, requireFile(id, listed, layout.index), ...shards];
}

async function downloadFiles(
  id: HubId,
  choose: (place: Place, options: DownloadOptions) => Promise<readonly HubFile[]>,
  settings: HubSettings,
  options: DownloadOptions,
): Promise<string> {
  if (settings.isOffline) {
    throw new MistletoeError('usage', `${formatHubId(id)} is not fetched while HF_HUB_OFFLINE is set.`, {
      hint: 'Unset it, or use what is in the cache.',
    });
  }
  const client = createHubClient({ endpoint: settings.endpoint, token: await settings.readToken() });
  const commit = await client.findCommit(id);
  const place: Place = { id, client, commit, folders: repositoryFolders(settings.cacheFolder, id) };
  const files = await choose(place, options);
  await fetchMissing(place, files, options);
  for (const file of files) await linkFile(place, file);
  if (id.revision !== commit) await writeReference(join(place.folders.refs, id.revision), commit);
  return snapshotFolder(place);
}

interface Place extends SnapshotPlace {
  readonly id: HubId;
  readonly client: HubClient;
}

/** The index comes before its shards. */
async function chooseFiles(
  place: Place,
  { measureRoom, pause }: DownloadOptions,
): Promise<readonly HubFile[]> {
  const { id, client, commit } = place;
  const listed = await client.listFiles(id, commit);
  const { describing, layout } = selectFiles(id, listed);
  if (layout.kind === 'single') return [...describing, requireFile(id, listed, layout.file)];
  const index = requireFile(id, listed, layout.index);
  await fetchMissing(place, [index], { measureRoom, pause });
  const shards = new Set((await readShardIndex((await findFile(place, index))!)).values());
  return [...describing, index, ...[...shards].map((shard) => requireFile(id, listed, shard))];
}

async function fetchMissing(
  place: Place,
  files: readonly HubFile[],
  options: DownloadOptions,
): Promise<void> {
  const { id, client, commit, folders } = place;
  const missing = new Map<string, HubFile>(); // by hash: equal files are fetched once
  for (const file of files) if ((await findFile(place, file)) === undefined) missing.set(file.hash, file);
  if (missing.size === 0) return;
  const totalBytes = [...missing.values()].reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  makeFolderSync(folders.blobs);
  await requireRoom(place, [...missing.values()], options.measureRoom ?? measureFreeBytes);
  options.onStart?.(totalBytes);
  let finishedBytes = 0;
  for (const file of missing.values()) {
    await fetchBlob({
      folder: folders.blobs,
      file,
      host: client.host,
      pause: options.pause,
      openBody: (firstByte) => client.openFile(id, commit, file.path, firstByte),
      onBytes: (bytes) => options.onProgress?.({ file: file.path, doneBytes: finishedBytes + bytes }),
    });
    finishedBytes += file.sizeBytes;
  }
}

async function requireRoom(
  { id, folders }: Place,
  missing: readonly HubFile[],
  measureRoom: (folder: string) => Promise<number>,
): Promise<void> {
  let neededBytes = 0;
  for (const { hash, sizeBytes } of missing) {
    const [partial] = await listPartialFiles(folders.blobs, hash);
    neededBytes += Math.max(0, sizeBytes - (partial?.sizeBytes ?? 0));
  }
  const freeBytes = await measureRoom(folders.blobs);
  if (neededBytes <= freeBytes) return;
  throw new MistletoeError(
    'usage',
    `${formatHubId(id)} needs ${formatBytes(neededBytes)} more in ${folders.blobs}, where ${formatBytes(freeBytes)} are free.`,
    { hint: 'Make room, or set HF_HUB_CACHE to a folder on another disk.' },
  );
}

/** Free for non-root users. Some network file systems report no blocks. */
async function measureFreeBytes(folder: string): Promise<number> {
  const { blocks, bavail, bsize } = await statfs(folder);
  return blocks === 0 ? Infinity : bavail * bsize;
}
