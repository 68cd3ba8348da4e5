/** Settings of the Hugging Face hub, from the environment variables of its own libraries. */
import { homedir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { type HostEnvironment, isFolder, isMissing, readBoundedFile } from '../../core/files.js';
import { describeCause, MistletoeError } from '../../core/errors.js';
import { existsSync } from 'node:fs';
import { chooseLayout, isWeightName, listFolder, readShardIndex } from '../checkpoint-folder.js';

/** A model on the hub: `lmsys/vicuna-7b-v1.5`, optionally with @ and a branch, tag or commit. */
export interface HubId {
  readonly repository: string;
  readonly revision: string;
  readonly kind?: 'dataset' | undefined;
}

/**
 * The hub's own rules. Two dashes separate the parts in the cache, and two dots lead to other folders. Paths such as
 * ./model or ../model do not match.
 */
const part = '(?!\\S*(?:--|\\.\\.))[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?';
const repositoryForm = new RegExp(`^${part}/${part}$`);
const revisionForm = /^(?!.*(?:\.\.|\/\/))[A-Za-z0-9_](?:[A-Za-z0-9._/-]{0,198}[A-Za-z0-9_])?$/;

export const hubIdForm = 'ORG/NAME or ORG/NAME@REVISION';

/** Undefined if the text cannot be a name on the hub. */
export function parseHubId(text: string): HubId | undefined {
  const at = text.indexOf('@');
  const repository = at < 0 ? text : text.slice(0, at);
  if (!repositoryForm.test(repository)) return undefined;
  const revision = at < 0 ? 'main' : text.slice(at + 1);
  if (revisionForm.test(revision)) return { repository, revision };
  throw new MistletoeError(
    'usage',
    `The revision of ${repository} is ${JSON.stringify(revision.slice(0, 200))}; a branch, a tag or a commit was expected.`,
    { hint: 'Write letters, digits, dots, dashes and slashes behind the @, or leave it out for main.' },
  );
}

export function formatHubId({ repository, revision }: HubId): string {
  return revision === 'main' ? repository : `${repository}@${revision}`;
}

export const isCommit = (revision: string): boolean => /^[0-9a-f]{40}$/.test(revision);

export interface HubSettings {
  readonly cacheFolder: string;
  readonly endpoint: string;
  readonly isOffline: boolean;
  /** Read only when needed and not stored, so that it cannot be printed. */
  readonly readToken: () => Promise<string | undefined>;
}

const maxTokenBytes = 4096;

/** @example const { cacheFolder } = readHubSettings(); // $HF_HUB_CACHE, else $HF_HOME/hub, ... */
export function readHubSettings(
  { environment, home }: Pick<HostEnvironment, 'environment' | 'home'> = {
    environment: process.env,
    home: homedir(),
  },
): HubSettings {
  const read = (name: string): string | undefined => {
    const value = environment[name];
    return value === '' ? undefined : value;
  };
  const readFolder = (name: string): string | undefined => read(name)?.replace(/^~(?=$|[/\\])/, () => home);
  const hubHome =
    readFolder('HF_HOME') ?? join(readFolder('XDG_CACHE_HOME') ?? join(home, '.cache'), 'huggingface');
  return {
    cacheFolder: readFolder('HF_HUB_CACHE') ?? join(hubHome, 'hub'),
    endpoint: checkEndpoint(read('HF_ENDPOINT') ?? 'https://huggingface.co'),
    isOffline: /^(?:1|on|yes|true)$/i.test(read('HF_HUB_OFFLINE') ?? ''),
    readToken: async () => {
      const token = read('HF_TOKEN');
      if (token !== undefined) return checkToken(token, 'HF_TOKEN');
      const path = readFolder('HF_TOKEN_PATH') ?? join(hubHome, 'token');
      return checkToken(await readTokenFile(path), path);
    },
  };
}

function checkEndpoint(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isUsable =
    (url?.protocol === 'https:' || url?.protocol === 'http:') && url.search === '' && url.hash === '';
  if (url?.username !== '' || url.password !== '' || !isUsable) {
    // The value is not shown: it may contain a password.
    throw new MistletoeError(
      'usage',
      'HF_ENDPOINT is no address of a hub; http:// or https://, a host and at most a path were expected.',
      {
        hint: 'Set it to for example https://huggingface.co, or unset it. A password belongs into HF_TOKEN.',
      },
    );
  }
  return url.href.replace(/\/+$/, '');
}

/** Headers cannot hold other characters, and fetch's error would print the token. */
function checkToken(text: string | undefined, origin: string): string | undefined {
  const token = text?.trim() ?? '';
  if (token === '') return undefined;
  if (/^[\x21-\x7e]+$/.test(token)) return token;
  throw new MistletoeError('usage', `${origin} holds blanks or characters that no token has.`, {
    hint: 'Set it to one token of your account on the hub, or unset it.',
  });
}

async function readTokenFile(path: string): Promise<string | undefined> {
  try {
    return (await readBoundedFile(path, maxTokenBytes)).toString('utf8');
  } catch (cause) {
    if (isMissing(cause)) return undefined;
    throw new MistletoeError('usage', `The token in ${path} cannot be read: ${describeCause(cause)}.`, {
      hint: 'Set HF_TOKEN, or give yourself the right to read the file.',
      cause,
    });
  }
}

// The cache shared by all Hugging Face libraries (https://huggingface.co/docs/hub/local-cache):
// models--ORG--NAME/refs/REVISION: a commit, as text
// models--ORG--NAME/snapshots/COMMIT/...: links to models--ORG--NAME/blobs/HASH
// Other programs may fetch only part of a model, so a snapshot counts only if all its weights are present.
export function repositoryFolders(cacheFolder: string, { repository, kind }: HubId) {
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
  const missing = await listMissing(snapshot);
  if (missing.length === 0) return snapshot;
  const shown = missing.slice(0, 3).join(', ') + (missing.length > 3 ? ', ...' : '');
  throw new MistletoeError(
    'usage',
    `Of ${formatHubId(id)} only a part is in the Hugging Face cache: ${snapshot} lacks ${shown}.`,
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

/** Dangling links count as missing. */
async function listMissing(snapshot: string): Promise<readonly string[]> {
  const names = await listFolder(snapshot);
  if (!names.some(isWeightName)) return ['weights'];
  const { file, isIndex } = chooseLayout(snapshot, names);
  const isMissingFile = (name: string): boolean => !existsSync(join(snapshot, name));
  if (!isIndex || isMissingFile(file)) return [file].filter(isMissingFile);
  return [...new Set((await readShardIndex(join(snapshot, file))).values())].filter(isMissingFile);
}

/** The repository's name in the hub's cache, else the folder's. */
export function nameModel(folder: string): string {
  const path = resolve(folder);
  const [, name] = /[/\\]models--[^/\\]+?--([^/\\]+)[/\\]snapshots[/\\][^/\\]+$/.exec(path) ?? [];
  return name ?? basename(path);
}
