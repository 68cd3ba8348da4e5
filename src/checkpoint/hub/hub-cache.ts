/**
 * The cache shared by all Hugging Face libraries (https://huggingface.co/docs/hub/local-cache):
 * models--ORG--NAME/refs/REVISION: a commit, as text
 * models--ORG--NAME/snapshots/COMMIT/...: links to models--ORG--NAME/blobs/HASH
 * Other programs may fetch only part of a model, so a snapshot counts only if all its weights are present.
 */
import { existsSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { isFolder, readBoundedFile } from '../../core/files.js';
import { MistletoeError } from '../../core/errors.js';
import { chooseLayout, isWeightName, listFolder, readShardIndex } from '../checkpoint-folder.js';
import { formatHubId, isCommit, readHubSettings, type HubId, type HubSettings } from './hub-settings.js';

export interface RepositoryFolders {
  readonly refs: string;
  readonly snapshots: string;
  readonly blobs: string;
}

export function repositoryFolders(cacheFolder: string, { repository, kind }: HubId): RepositoryFolders {
  const root = resolve(cacheFolder, `${kind ?? 'model'}s--${repository.replace('/', '--')}`);
  return { refs: join(root, 'refs'), snapshots: join(root, 'snapshots'), blobs: join(root, 'blobs') };
}

/**
 * The folder of a model in the cache. Throws if it is absent or incomplete. Uses no network.
 * @example const folder = await findCachedModel(parseHubId('lmsys/vicuna-7b-v1.5')!);
 */
export async function findCachedModel(id: HubId, settings: HubSettings = readHubSettings()): Promise<string> {
  const { cacheFolder, isOffline } = settings;
  const folders = repositoryFolders(cacheFolder, id);
  const commit = isCommit(id.revision) ? id.revision : await readReference(join(folders.refs, id.revision));
  const snapshot = commit === undefined ? undefined : join(folders.snapshots, commit);
  const fetching = `--download fetches it from ${new URL(settings.endpoint).host}`;
  const offline = isOffline ? ' HF_HUB_OFFLINE is set: unset it for that.' : '';
  if (snapshot === undefined || !isFolder(snapshot)) {
    throw new MistletoeError(
      'usage',
      `There is no folder ${formatHubId(id)}, and no model of that name in the Hugging Face cache in ${cacheFolder}.`,
      { hint: `${fetching}; how large it is, the hub says then.${offline} A folder is given by its path.` },
    );
  }
  const missing = await findMissing(snapshot);
  if (missing === undefined) return snapshot;
  throw new MistletoeError(
    'usage',
    `Of ${formatHubId(id)} only a part is in the Hugging Face cache: ${missing} not in ${snapshot}.`,
    { hint: `${fetching.replace(' it ', ' the rest ')}.${offline}` },
  );
}

/** Undefined if the file is missing or holds no commit. */
export async function readReference(path: string): Promise<string | undefined> {
  try {
    const commit = (await readBoundedFile(path, 1024)).toString('utf8').trim();
    return isCommit(commit) ? commit : undefined;
  } catch {
    return undefined;
  }
}

/** As the subject of a sentence. Dangling links count as missing. */
async function findMissing(snapshot: string): Promise<string | undefined> {
  const names = await listFolder(snapshot);
  if (!names.some(isWeightName)) return 'its weights are';
  const layout = chooseLayout(snapshot, names);
  const isThere = (name: string): boolean => existsSync(join(snapshot, name));
  const first = layout.kind === 'single' ? layout.file : layout.index;
  if (!isThere(first)) return `${first} is`;
  if (layout.kind === 'single') return undefined;
  const shards = new Set((await readShardIndex(join(snapshot, first))).values());
  const missing = [...shards].filter((shard) => !isThere(shard));
  return missing.length === 0 ? undefined : missing.length === 1 ? `${missing[0]!} is` : listMissing(missing);
}

function listMissing(names: readonly string[]): string {
  return `${names.length} of its files (${names.slice(0, 3).join(', ')}${names.length > 3 ? ', ...' : ''}) are`;
}

/** The repository's name in the hub's cache, else the folder's. */
export function nameModel(folder: string): string {
  const path = resolve(folder);
  const [, name] = /[/\\]models--[^/\\]+?--([^/\\]+)[/\\]snapshots[/\\][^/\\]+$/.exec(path) ?? [];
  return name ?? basename(path);
}
