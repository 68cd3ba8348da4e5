/** The folder of a run that trains: begun once, open in one process at a time, and only gone on with as it was begun. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { z } from 'zod';
import { identifyModel, readVersion } from '../runs/identity.js';
import type { RunPlace } from '../audit/run-audit.js';
import type { RunLock } from '../runs/run-lock.js';
import { lockRun } from '../runs/run-lock.js';
import { asCreation, claimNumber, refuseUsedFolder, removeIfEmpty } from '../runs/run-place.js';
import { configFile } from '../runs/run-units.js';
import type { RunCommand } from '../runs/run-writes.js';
import {
  codeOf,
  explainFailure,
  lostFolder,
  readIfThere,
  syncFolder,
  writeAtomically,
} from '../runs/run-writes.js';
import { describeCause, MistletoeError } from '../core/errors.js';
import { parseJsonText } from '../core/json-text.js';
import { makeFolderSync } from '../core/files.js';
import { quoteWord } from '../core/display-paths.js';
import { hashData } from './train-request.js';

/** What all such runs record: the models and the data that they were begun with. */
interface RunRequest {
  readonly version: string;
  readonly targetFolder: string;
  readonly target: { readonly sha256: string };
  readonly from?: { readonly folder: string; readonly sha256: string };
  readonly data: { readonly file: string; readonly sha256: string };
}

type TrainingCommand = Extract<RunCommand, 'train' | 'harden'>;

export interface OpenedRun {
  readonly path: string;
  readonly lock: RunLock;
}

/** Refuses a folder that holds anything; of a name, the first number that nobody has. */
export function createRunFolder(place: RunPlace, request: RunRequest, command: TrainingCommand): OpenedRun {
  if (typeof place === 'string') return fillFolder(place, request, command);
  const { parent, name } = place;
  const path = asCreation(parent, () => {
    makeFolderSync(parent);
    return claimNumber(parent, name);
  });
  try {
    return fillFolder(path, request, command);
  } catch (cause) {
    removeIfEmpty(path);
    throw cause;
  }
}

function fillFolder(path: string, request: RunRequest, command: TrainingCommand): OpenedRun {
  refuseUsedFolder(path, command);
  return asCreation(path, () => {
    makeFolderSync(path);
    syncFolder(join(path, '..'));
    const lock = lockRun(path);
    try {
      refuseUsedFolder(path, command); // again: another process may have come and gone before the lock was ours
      writeAtomically(join(path, configFile), `${JSON.stringify(request, null, 1)}\n`, command);
    } catch (cause) {
      lock.release();
      throw cause;
    }
    return { path, lock };
  });
}

export interface OpenOptions<Request> {
  readonly command: TrainingCommand;
  /** Of its config.json. */
  readonly schema: z.ZodType<Request>;
  readonly cacheFolder?: string | undefined;
}

/**
 * The request as a resumed run reads it back: keys in the order of the schema. Results quote parts of it, and are the same
 * bytes whether a run was interrupted or not.
 */
export function asSaved<Request>(schema: z.ZodType<Request>, request: Request): Request {
  return schema.parse(JSON.parse(JSON.stringify(request)));
}

/** With everything checked that can be told without loading anything. */
export async function openRunFolder<Request extends RunRequest>(
  path: string,
  { command, schema, cacheFolder }: OpenOptions<Request>,
): Promise<{ readonly request: Request; readonly open: () => OpenedRun }> {
  const request = readRequest(path, schema, command);
  const own = readVersion();
  if (request.version !== own) {
    throw changed(path, `was begun by Mistletoe ${request.version}; this is ${own}`);
  }
  const models = [
    { folder: request.targetFolder, sha256: request.target.sha256 },
    ...(request.from === undefined ? [] : [request.from]),
  ];
  for (const { folder, sha256 } of models) {
    const now = await identifyModel(folder, cacheFolder);
    if (now.sha256 !== sha256) throw changed(path, `was begun with another model in ${folder}`);
  }
  const { file, sha256 } = request.data;
  if ((await hashData(file)) !== sha256) throw changed(path, `was begun with other data in ${file}`);
  const open = (): OpenedRun => ({
    path,
    lock: explainFailure(join(path, configFile), command, () => lockRun(path)),
  });
  return { request, open };
}

/** What the disk refused under a run that has begun: it can go on where it was. */
export function withResumption(path: string, command: TrainingCommand, failure: unknown): unknown {
  const isOfDisk =
    failure instanceof MistletoeError && failure.code === 'runtime' && codeOf(failure.cause) !== undefined;
  if (!isOfDisk || (failure.hint ?? '').includes('--resume')) return failure;
  const config = join(path, configFile);
  if (!existsSync(config)) return lostFolder(config, failure.cause);
  const isMissing = codeOf(failure.cause) === 'ENOENT'; // a part of the run's folder
  const { hint = 'Mend that.' } = failure;
  return new MistletoeError(
    'runtime',
    isMissing ? failure.message : `${failure.message.replace(/\.$/, '')}; what was saved before is safe.`,
    {
      hint: `${hint} Then go on with: mistletoe ${command} --resume ${quoteWord(path)}`,
      cause: failure.cause,
    },
  );
}

function readRequest<Request>(path: string, schema: z.ZodType<Request>, command: TrainingCommand): Request {
  const text = readIfThere(join(path, configFile));
  if (text === undefined) {
    throw new MistletoeError('usage', `${path} is no run of mistletoe ${command}: it has no ${configFile}.`, {
      hint: 'Name the folder that --out named.',
    });
  }
  const wrong = (fault: string, cause: unknown): MistletoeError =>
    new MistletoeError(
      'usage',
      `${configFile} of ${path} is not that of a run of mistletoe ${command}: ${fault}.`,
      { hint: 'Begin a new run in another folder.', cause },
    );
  let value: unknown;
  try {
    value = parseJsonText(text);
  } catch (cause) {
    throw wrong(describeCause(cause), cause);
  }
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  throw wrong(
    `"${issue?.path.join('.') ?? ''}" is wrong, ${issue?.message ?? 'it cannot be used'}`,
    parsed.error,
  );
}

function changed(path: string, what: string): MistletoeError {
  return new MistletoeError('usage', `The run in ${path} ${what}.`, {
    hint: 'Put the old one back, or begin a new run in another folder: two of them in one run are neither.',
  });
}
