/** Where the units of an audit run: flags to workers and queues. */
import { applyPreset } from '../../audit/settings.js';
import { MistletoeError } from '../../core/errors.js';
import { countText } from '../../core/number-text.js';
import type { WorkerPlan } from '../../runs/worker-devices.js';
import { findDevices } from '../../runs/worker-devices.js';
import type { Terminal } from '../terminal.js';
import type { AuditFlags } from './audit-flags.js';
import { givenSettings } from './audit-flags.js';

type PlacedFlags = Pick<AuditFlags, 'workers' | 'device' | 'resume'>;

/** The device of the run itself: the first of several. */
export async function mainDevice({ device }: Pick<PlacedFlags, 'device'>): Promise<string | undefined> {
  const [first] = (await findDevices(device)) ?? [];
  return first === undefined ? device : `cuda:${first.ordinal}`;
}

/** Undefined for a run in this process. */
export async function planWorkers({ workers, device, resume }: PlacedFlags): Promise<WorkerPlan | undefined> {
  const devices = await findDevices(device);
  if (resume !== undefined && device !== undefined && devices === undefined) {
    throw new MistletoeError('usage', '--device cannot be changed when a run is resumed.', {
      hint: 'With several GPUs of the same kind, cuda:0,cuda:1 or cuda:all places workers on them.',
    });
  }
  const count = workers ?? devices?.length ?? 1;
  return count === 1 && (devices?.length ?? 1) === 1 ? undefined : { count, devices };
}

/** A password in the environment does not show in lists of processes. */
export function queueOf(
  { queue }: { readonly queue?: string | undefined },
  { environment }: Terminal,
): string | undefined {
  const url = queue ?? environment.MISTLETOE_QUEUE ?? '';
  return url === '' ? undefined : url;
}

/** Of prompts that are not here yet, as many as --limit says. */
export function describeUnits(flags: AuditFlags): string {
  const { repeats, controlSearches } = applyPreset(flags.preset, givenSettings(flags));
  const drafters = Math.max(1, flags.drafter.length);
  const perPrompt = 2 * repeats + (controlSearches ? 2 : 0);
  if (flags.limit === undefined) return `Each prompt has ${countText(drafters * perPrompt, 'search')}.`;
  const prompts = Math.max(1, flags.prompts.length) * flags.limit;
  const [searches, units] = [prompts * drafters * perPrompt, prompts * drafters * (1 + perPrompt)];
  return `${countText(prompts, 'prompt')} or fewer: ${countText(searches, 'search')} in ${countText(units, 'unit')}.`;
}
