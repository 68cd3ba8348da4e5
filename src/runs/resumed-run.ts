/** Resuming a run: with the version, the models and the data that it was started with, or not at all. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describeFault } from '../core/schema.js';
import type * as z from '../core/schema.js';
import { codeOf, MistletoeError } from '../core/errors.js';
import { quoteWord } from '../core/files.js';
import { identifyModel, readVersion } from './identity.js';
import { hashData } from './json-lines.js';
import { lockRun } from './run-lock.js';
import type { OpenedRun } from './run-place.js';
import { configFile, readRunConfig } from './run-units.js';
import { type RunCommand, explainFailure, lostFolder } from './run-writes.js';

/**
 * The request as a resumed run reads it back, keys in the order of the schema. Results quote parts of it, so that they are
 * the same bytes whether a run was interrupted or not.
 */
export function asSaved<Request>(schema: z.ZodType<Request>, request: Request): Request {
  return schema.parse(JSON.parse(JSON.stringify(request)));
}

export function readRequest<Request>(path: string, schema: z.ZodType<Request>, command: RunCommand): Request {
  const parsed = schema.safeParse(readRunConfig(path, command));
  if (parsed.success) return parsed.data;
  const { place, fault } = describeFault(parsed.error);
  throw new MistletoeError(
    'usage',
    `${configFile} of ${path} is not of a run of mistletoe ${command}: "${place}" is wrong, ${fault}.`,
    {
      hint: 'Another version wrote it, or it was changed; start a new run in another folder.',
      cause: parsed.error,
    },
  );
}

export interface RunInputs {
  readonly version: string;
  readonly models: readonly { readonly folder: string; readonly sha256: string }[];
  readonly data?: { readonly file: string; readonly sha256: string } | undefined;
}

export async function requireSameInputs(
  path: string,
  { version, models, data }: RunInputs,
  cacheFolder: string | undefined,
): Promise<void> {
  const own = readVersion();
  if (version !== own) throw changed(path, `Mistletoe ${version}; this is ${own}`);
  for (const { folder, sha256 } of models) {
    const now = await identifyModel(folder, cacheFolder);
    if (now.sha256 !== sha256) throw changed(path, `another model in ${folder}`);
  }
  if (data !== undefined && (await hashData(data.file)) !== data.sha256)
    throw changed(path, `other data in ${data.file}`);
}

function changed(path: string, startedWith: string): MistletoeError {
  return new MistletoeError('usage', `The run in ${path} was started with ${startedWith}.`, {
    hint: 'Restore what it was started with, or start a new run in another folder: results of both cannot be compared.',
  });
}

/** What `train` and `harden` record. */
interface TrainingInputs {
  readonly version: string;
  readonly targetFolder: string;
  readonly target: { readonly sha256: string };
  readonly from?: { readonly folder: string; readonly sha256: string };
  readonly data: { readonly file: string; readonly sha256: string };
}

export interface OpenOptions<Request> {
  readonly command: RunCommand;
  readonly schema: z.ZodType<Request>;
  readonly cacheFolder?: string | undefined;
}

/** Checks everything that can be checked without loading a model; `open` locks the run. */
export async function openTrainingRun<Request extends TrainingInputs>(
  path: string,
  { command, schema, cacheFolder }: OpenOptions<Request>,
): Promise<{ readonly request: Request; readonly open: () => OpenedRun }> {
  const request = readRequest(path, schema, command);
  const { version, targetFolder, target, from, data } = request;
  const models = [{ folder: targetFolder, sha256: target.sha256 }, ...(from === undefined ? [] : [from])];
  await requireSameInputs(path, { version, models, data }, cacheFolder);
  const open = (): OpenedRun => ({
    path,
    lock: explainFailure(join(path, configFile), command, () => lockRun(path)),
  });
  return { request, open };
}

/** Adds to a failed write of a started run how to resume it. */
export function withResumption(path: string, command: RunCommand, failure: unknown): unknown {
  const isOfDisk =
    failure instanceof MistletoeError && failure.code === 'runtime' && codeOf(failure.cause) !== undefined;
  if (!isOfDisk || (failure.hint ?? '').includes('--resume')) return failure;
  const config = join(path, configFile);
  if (!existsSync(config)) return lostFolder(config, failure.cause);
  const isMissing = codeOf(failure.cause) === 'ENOENT'; // a part of the run's folder
  const { hint = 'Fix that.' } = failure;
  return new MistletoeError(
    'runtime',
    isMissing ? failure.message : `${failure.message.replace(/\.$/, '')}; what was saved before is safe.`,
    {
      hint: `${hint} Then resume with: mistletoe ${command} --resume ${quoteWord(path)}`,
      cause: failure.cause,
    },
  );
}
