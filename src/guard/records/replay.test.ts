import { describe, expect, it } from 'vitest';
import { createRandom } from '../core/random.js';
import { Monitor } from './monitor.js';
import { describeReplay, replayRecords } from './replay.js';
import type { RequestRecord } from './request-record.js';
import { createRecord, drawBenign, drawSteps, rateFor } from './testing/traffic.js';

const random = createRandom(1, 'replay');
const records: readonly RequestRecord[] = Array.from({ length: 900 }, (_, index) => {
  const isAttack = index > 700 && index % 10 === 0;
  const kind = isAttack ? { rate: rateFor(1.05), steps: 80 } : drawBenign(random);
  const tenant = isAttack ? 'attacker' : `tenant-${index % 9}`;
  return createRecord(drawSteps(random, kind), { id: `r${index}`, endedMs: index * 60_000, tenant });
});

describe('a replay', () => {
  it('rings what a monitor would have rung, from bare records and from a log', async () => {
    const monitor = new Monitor();
    const rang = records.flatMap((record) => monitor.observe(record).alarms);
    expect(rang.length).toBeGreaterThan(10);
    const bare = records.map((record) => JSON.stringify(record));
    expect((await replayRecords(bare)).alarms).toEqual(rang);
    const log = records.flatMap((record) => [
      JSON.stringify({ kind: 'request', record, verdict: 'usual' }),
      JSON.stringify({ kind: 'alarm', alarm: {} }),
    ]);
    const replay = await replayRecords(log);
    expect(replay.alarms).toEqual(rang);
    expect(replay.unread).toBe(0);
  });

  it('passes over lines that are none, and says so', async () => {
    const [first] = records;
    const lines = [
      JSON.stringify(first),
      '',
      '{"id": 7',
      '{"id":"x"}',
      JSON.stringify({ ...first, status: 'x' }),
    ];
    const replay = await replayRecords(lines);
    expect(replay).toMatchObject({ requests: 1, unread: 3 });
    expect(replay.firstFault).toMatch(/^line 3, /);
    expect(describeReplay(replay).join('\n')).toContain('3 lines are no records');
  });

  it('says what it came to', async () => {
    const replay = await replayRecords(records.map((record) => JSON.stringify(record)));
    const text = describeReplay(replay, 2);
    expect(text[0]).toMatch(/^900 requests: \d+ usual, \d+ low, 0 high, \d+ not judged$/);
    expect(text[1]).toMatch(/^m \/v1\/chat\/completions: 1\.\d\d to \d\.\d\d usual/);
    expect(text.at(-1)).toMatch(/^and \d+ more$/);
    expect(text.at(-2)).toMatch(/^1970-01-01T.*Z (collapse|hard-text) \((request|tenant) attacker/);
  });

  it('refuses a file without a record', async () => {
    await expect(replayRecords(['nonsense'])).rejects.toThrow(/no record to replay in 1 lines \(line 1/);
    await expect(replayRecords([])).rejects.toThrow(/no record/);
  });
});
