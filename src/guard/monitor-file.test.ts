import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { restoreMonitor, saveMonitor } from './monitor-file.js';
import { Monitor } from './monitor.js';
import type { RequestRecord } from './request-record.js';
import { createRecord, drawBenign, drawSteps, rateFor } from '../../test/support/guard/traffic.js';

let folder = '';
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'monitor-'));
});
afterEach(async () => {
  await rm(folder, { recursive: true });
});

class Traffic {
  private readonly random = createRandom(1, 'monitor-file');
  private count = 0;

  draw(tenant: string, mean?: number): RequestRecord {
    const { random } = this;
    const kind = mean === undefined ? drawBenign(random) : { rate: rateFor(mean), steps: 40 };
    this.count += 1;
    const more = { id: `r${this.count}`, tenant, endedMs: this.count * 60_000 };
    return createRecord(drawSteps(random, kind), more);
  }
}

/** In the middle of an attack, with every test under way. */
function createBusy(traffic: Traffic): Monitor {
  const monitor = new Monitor();
  for (let request = 0; request < 1000; request++) monitor.observe(traffic.draw(`tenant-${request % 12}`));
  for (let request = 0; request < 6; request++) {
    monitor.observe(traffic.draw('attacker', 1.3));
    for (let tenant = 0; tenant < 8; tenant++) monitor.observe(traffic.draw(`tenant-${tenant}`, 1.25));
  }
  return monitor;
}

async function reopen(notices: string[] = []): Promise<Monitor> {
  const monitor = new Monitor();
  await restoreMonitor(monitor, folder, (message) => notices.push(message));
  return monitor;
}

describe('what a monitor keeps on disk', () => {
  it('lets every test go on where it stood', async () => {
    const traffic = new Traffic();
    const monitor = createBusy(traffic);
    expect(await saveMonitor(monitor, folder)).toBe(true);
    expect(await readdir(folder)).toEqual(['monitor.json']);
    const saved = monitor.save();
    for (const part of [saved.everyone, saved.levels.tenants, saved.levels.latest, saved.tenants])
      expect(part.length).toBeGreaterThan(0);
    expect(saved.tenants.some(([, { bets }]) => bets.some((bet) => bet > 0))).toBe(true);
    expect(saved.everyone[0]![1].evidence).toBeGreaterThan(0);
    expect(saved.sensitivity[0]![1].flagged).toBeGreaterThan(0);
    expect(saved.caution.length).toBeGreaterThan(0);
    const copy = await reopen();
    expect(copy.save()).toEqual(saved);
    for (let request = 0; request < 12; request++) {
      const record = traffic.draw(`tenant-${request}`, 1.05);
      expect(copy.observe(record)).toEqual(monitor.observe(record));
    }
  });

  it('is read in its first version, and what that did not know begins anew', async () => {
    const traffic = new Traffic();
    const monitor = createBusy(traffic);
    const { caution, levels, everyone, tenants, sensitivity, ...rest } = monitor.save();
    expect([caution.length, levels.tenants.length, everyone.length].every(Boolean)).toBe(true);
    // What a standing held then, and the threshold of a stream as a bare number.
    const known = ['evidence', 'requests', 'steps', 'accepted', 'since', 'heldUntil'];
    const older = tenants.map(([name, standing]) => [
      name,
      Object.fromEntries(Object.entries(standing).filter(([key]) => known.includes(key))),
    ]);
    const first = { ...rest, version: 1, tenants: older };
    const thresholds = sensitivity.map(([name, { log }]) => [name, log]);
    await writeFile(join(folder, 'monitor.json'), JSON.stringify({ ...first, sensitivity: thresholds }));
    const notices: string[] = [];
    const copy = await reopen(notices);
    expect(notices).toEqual([]);
    expect(copy.save().baseline).toEqual(monitor.save().baseline);
    expect(copy.save()).toMatchObject({ version: 2, caution: [], everyone: [], levels: { tenants: [] } });
    expect(copy.observe(traffic.draw('attacker', 1.02)).verdict).toBe('low');
  });

  it.each(['{', '{"version":3}', '[]', '{"version":2,"baseline":{"cells":[["x",{}]]}}'])(
    'is not used where it is %s, which a note says',
    async (text) => {
      await writeFile(join(folder, 'monitor.json'), text);
      const notices: string[] = [];
      const monitor = await reopen(notices);
      expect(notices.join()).toMatch(/^What was learnt before is not used, the baseline begins anew: /);
      expect(monitor.save().baseline.cells).toEqual([]);
      expect(await readFile(join(folder, 'monitor.json'), 'utf8')).toBe(text);
    },
  );

  it('is nothing at first, and stays in memory where the disk refuses', async () => {
    const notices: string[] = [];
    const monitor = await reopen(notices);
    expect(notices).toEqual([]);
    expect(await saveMonitor(monitor, join(folder, 'missing'))).toBe(false);
  });
});
