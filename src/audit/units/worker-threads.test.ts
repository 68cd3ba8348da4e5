import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { bundledTarget } from '../../core/package-files.js';
import { identifyModel, readVersion } from '../../runs/identity.js';
import type { RunNotice } from '../../runs/queue/queue-messages.js';
import { type PoolOptions, UnitPool } from '../../runs/unit-pool.js';
import { briefSettings, TinyAudits } from '../../../test/support/tiny-audit.js';
import { shallow } from '../../../test/support/tiny-checkpoints.js';
import { createRequest } from '../audit-request.js';
import type { WorkerSetup } from './audit-worker.js';
import { openBackend } from './executors.js';
import { openAuditPool } from './queue-audits.js';

const audits = new TinyAudits(shallow);
afterAll(() => audits.dispose());
afterEach(() => void vi.restoreAllMocks());

interface Pool {
  readonly options: PoolOptions;
}

const threadsOf = (pool: unknown): readonly number[] =>
  (pool as Pool).options.workers.map(({ setup }) => (setup as WorkerSetup).threads);

describe('workers have the threads of their run', () => {
  it.each([2, 3])('%i on this machine', async (count) => {
    const drafter = audits.writeDrafter('Medusa, torch file');
    const plan = audits.plan([drafter], ['abcdefgh'], { settings: briefSettings, threads: 5 });
    vi.spyOn(UnitPool.prototype, 'ask').mockResolvedValue({ expectedMs: 1 });
    const backend = await openBackend(await createRequest(plan), { workers: { count } });
    expect(threadsOf(backend.executor)).toEqual(Array.from({ length: count }, () => 5));
    await backend.close();
  });

  it('on the machines of a queue', async () => {
    const { name, sha256 } = await identifyModel(bundledTarget, join(audits.cacheFolder, 'identities'));
    const notice: RunNotice = {
      ...{ schema: 'mistletoe.run/1', command: 'audit', version: readVersion() },
      models: [{ name, sha256 }],
      device: { kind: 'cpu', dtype: 'float32', name: '' },
      threads: 5,
    };
    const devices = [{ kind: 'cpu' }, { kind: 'cpu' }] as const;
    const own = { modelFolders: [], devices, cacheFolder: audits.cacheFolder, onNotice: () => undefined };
    expect(threadsOf(await openAuditPool(notice, own))).toEqual([5, 5]);
  });
});
