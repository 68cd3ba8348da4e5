/** Workers for the searches of a hardening run. */
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { CacheOptions } from '../../checkpoint/cache/weight-cache.js';
import { findSameDevice, requireRoom, seatWorkers, type WorkerPlan } from '../../runs/run-device.js';
import { UnitPool } from '../../runs/unit-pool.js';
import type { RecordedDevice } from '../../runtime/device-choice.js';
import type { HardenRequest } from './harden-request.js';
import type { SuffixSource } from './suffix-hunt.js';
import type { HuntInput } from './suffixed-texts.js';

/** What a worker is started with. */
export interface HuntSetup {
  readonly request: HardenRequest;
  readonly folder: string;
  readonly device: RecordedDevice;
  readonly threads: number;
  readonly cacheFolder: string | null;
  readonly verifyCache: boolean;
}

/** Compiled beside this module. */
const program = fileURLToPath(new URL('./hunt-process.js', import.meta.url));

export async function openHuntPool(
  plan: WorkerPlan,
  folder: string,
  request: HardenRequest,
  { cacheFolder, verifyCache, onNotice }: CacheOptions,
): Promise<UnitPool<HuntInput>> {
  const seats = seatWorkers(plan, await findSameDevice(request), request.threads);
  await requireRoom(
    seats.map(({ device }) => device),
    [request.targetFolder, request.from.folder],
  );
  return new UnitPool<HuntInput>({
    program,
    workers: seats.map(({ name, gpu, device, threads }) => {
      const cache = { cacheFolder: cacheFolder ?? null, verifyCache: verifyCache ?? false };
      const setup: HuntSetup = { request, folder, device, threads, ...cache };
      return { name, gpu, setup };
    }),
    onNotice,
  });
}

export const roundFolder = (folder: string, role: string, round: number): string =>
  join(folder, role, `round-${round}`);

/** The drafter that a round, counted from 0, attacks: that of the round before. */
export function attackedDrafter(
  request: HardenRequest,
  folder: string,
  source: SuffixSource,
  round: number,
): string {
  const role = source === 'searched' ? 'hardened' : source;
  return round === 0 ? request.from.folder : join(roundFolder(folder, role, round), 'last');
}
