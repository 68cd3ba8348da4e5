/** A worker of a queue: finds the models of a run on this machine by their hashes and runs its units in processes. */
import { describeFault } from '../../core/schema.js';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { nameModel, readHubSettings } from '../../checkpoint/hub/hub-settings.js';
import { bundledDrafterFolder, bundledDrafters, bundledTarget } from '../../core/package-files.js';
import { joinSources, splitSource } from '../../draft/joined/sources.js';
import { findWeightless, foldersOf } from '../../draft/systems.js';
import { identifyModel } from '../../runs/identity.js';
import type { RunNotice } from '../../runs/queue/queue-messages.js';
import { deviceSchema, noteCrowding, requireRoom } from '../../runs/run-device.js';
import type { Refusal } from '../../runs/queue/queue-worker.js';
import type { UnitExecutor } from '../../runs/unit.js';
import { UnitPool } from '../../runs/unit-pool.js';
import { type AuditUnitInput, strangeUnitSchema } from './audit-unit.js';
import { unitProcess } from './executors.js';
import type { WorkerSetup } from './audit-worker.js';

export interface QueueAuditOptions {
  /** Folders with models: each is one, or has some. */
  readonly modelFolders: readonly string[];
  /** One for each worker process; all are the CPU, or GPUs of one kind. */
  readonly devices: readonly Device[];
  readonly cacheFolder: string | undefined;
  readonly onNotice: (message: string) => void;
}

type NeededModel = RunNotice['models'][number];

/** The type is the run's choice. */
type Device =
  | { readonly kind: 'cpu' }
  | { readonly kind: 'cuda'; readonly ordinal: number; readonly name: string };

/** Reads a unit from the queue; throws a phrase. */
export function parseAuditUnit(input: unknown): AuditUnitInput {
  const parsed = strangeUnitSchema.safeParse(input);
  if (parsed.success) return parsed.data;
  const { place, fault } = describeFault(parsed.error);
  throw new Error(`it is not a unit of an audit: "${place}", ${fault}`);
}

/** Processes that can run the units of this run, or why there are none. */
export async function openAuditPool(
  { models, device, threads }: RunNotice,
  options: QueueAuditOptions,
): Promise<UnitExecutor<AuditUnitInput> | Refusal> {
  const { devices, cacheFolder, onNotice } = options;
  const unfit = devices.find(
    (own) => own.kind !== device.kind || (own.kind === 'cuda' && own.name !== device.name),
  );
  if (unfit !== undefined) {
    const [wanted, own] = [nameKind(device), nameKind(unfit)];
    const hint = 'Results of both cannot be mixed; --device chooses another.';
    return { refusal: `it computes on ${wanted}, and this worker on ${own}`, hint };
  }
  const folders: Record<string, string> = {};
  for (const model of models) {
    const folder = await findModel(model, options);
    if (folder === undefined) return describeMissing(model, options);
    folders[model.sha256] = folder;
  }
  const placed = devices.flatMap((own) => deviceSchema.safeParse({ ...own, dtype: device.dtype }).data ?? []);
  if (placed.length < devices.length)
    return { refusal: `it computes in ${device.dtype}, which this worker cannot`, hint: '' };
  await requireRoom(placed, Object.values(folders));
  noteCrowding(
    placed.map((place) => ({ device: place })),
    threads,
    onNotice,
  );
  return new UnitPool<AuditUnitInput>({
    program: unitProcess,
    attempts: 1,
    workers: placed.map((place, index) => {
      const setup: WorkerSetup = { folders, threads, device: place, cacheFolder };
      return { name: `process ${index + 1}`, setup };
    }),
    onNotice,
  });
}

const nameKind = (device: { readonly kind: string; readonly name?: string }): string =>
  device.kind === 'cpu' ? 'the CPU' : (device.name ?? 'a GPU');

function describeMissing({ name, sha256 }: NeededModel, { modelFolders }: QueueAuditOptions): Refusal {
  const [first] = modelFolders;
  const own = foldersOf(name).join(', ') || name;
  const where = first === undefined ? 'this machine and name the folder with --models' : join(first, own);
  return {
    refusal: `this worker does not have the model ${name} with the identity ${sha256.slice(0, 16)}`,
    hint: `Copy the submitter's folder of ${own} to ${where}.`,
  };
}

/**
 * The source of the model with this hash. The hash of joined drafters covers those of all, so each choice of folders is
 * tried. Folders of the right name come first: identifying a model means reading all of it once.
 */
async function findModel(
  { name, sha256 }: NeededModel,
  options: QueueAuditOptions,
): Promise<string | undefined> {
  const choices = splitSource(name).map((part) => listCandidates(part, options));
  for (const parts of combine(choices)) {
    const source = joinSources(parts);
    const identity = await identifyModel(source, options.cacheFolder).catch(() => undefined);
    if (identity?.sha256 === sha256) return source;
  }
  return undefined;
}

function listCandidates(own: string, { modelFolders }: QueueAuditOptions): readonly string[] {
  if (findWeightless(own) !== undefined) return [own];
  const given = modelFolders.flatMap((folder) => [folder, ...listFolders(folder)]);
  const bundled = [bundledTarget, ...bundledDrafters.map(bundledDrafterFolder)];
  const isNamed = (folder: string): boolean => nameModel(folder) === own;
  const found = [...given, ...bundled, ...listSnapshots(own)].filter(isNamed);
  return [...found, ...given.filter((folder) => !isNamed(folder))];
}

function* combine(choices: readonly (readonly string[])[]): Generator<readonly string[]> {
  const [first, ...rest] = choices;
  if (first === undefined) yield [];
  else for (const choice of first) for (const others of combine(rest)) yield [choice, ...others];
}

function listFolders(folder: string): string[] {
  try {
    const entries = readdirSync(folder, { withFileTypes: true });
    return entries
      .filter((entry) => entry.isDirectory() || entry.isSymbolicLink())
      .map(({ name }) => join(folder, name));
  } catch {
    return [];
  }
}

/** Snapshots in the hub's cache of repositories with this name. */
function listSnapshots(name: string): string[] {
  const { cacheFolder } = readHubSettings();
  const repositories = listFolders(cacheFolder).filter((folder) => folder.endsWith(`--${name}`));
  return repositories.flatMap((folder) => listFolders(join(folder, 'snapshots')));
}
