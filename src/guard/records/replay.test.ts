import { describe, expect, it } from 'vitest';
import { createRandom } from '../../core/random.js';
import { Judge } from '../judge/judge.js';
import type { Observation } from '../observation.js';
import { createRecord, drawBenign, drawSteps, rateFor } from '../../../test/support/guard/traffic.js';
import { describeReplay, replayRecords } from './replay.js';

const random = createRandom(1, 'replay');
const records: readonly Observation[] = Array.from({ length: 900 }, (_, index) => {
  const isAttack = index > 700 && index % 10 === 0;
  const kind = isAttack ? { rate: rateFor(1.05), steps: 80 } : drawBenign(random);
  const tenant = isAttack ? 'attacker' : `tenant-${index % 9}`;
  return createRecord(drawSteps(random, kind), { id: `r${index}`, endedMs: index * 60_000, tenant });
});

describe('a replay', () => {
  it('gives the judgments of the live judge, record by record, from bare records and from a log', async () => {
    const judge = new Judge();
    const live = records.map((record) => judge.judge(record));
    const alerts = live.flatMap((judgment) => judgment.alerts);
    expect(alerts.length).toBeGreaterThan(0);
    const bare = records.map((record) => JSON.stringify(record));
    const again: unknown[] = [];
    await replayRecords(bare, { onJudged: (_, judgment) => again.push(judgment) });
    expect(again).toEqual(live);
    const log = records.flatMap((record, index) => [
      JSON.stringify({ kind: 'request', record, verdict: live[index]!.verdict }),
      JSON.stringify({ kind: 'alert', alert: {} }),
      JSON.stringify({ kind: 'alarm', alarm: {} }),
    ]);
    const replay = await replayRecords(log);
    expect(replay).toMatchObject({ alerts, unread: 0, different: 0 });
    const stricter = await replayRecords(log, { breakEven: 3 });
    expect(stricter.different).toBeGreaterThan(10);
    expect(describeReplay(stricter).join('\n')).toContain('verdicts differ from the recorded ones');
  });

  it('skips lines that are not records, and reports them', async () => {
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
    expect(describeReplay(replay).join('\n')).toContain('3 lines are not records');
  });

  it('summarizes verdicts, baselines and alerts', async () => {
    const replay = await replayRecords(records.map((record) => JSON.stringify(record)));
    const text = describeReplay(replay);
    expect(text[0]).toMatch(/^900 requests: \d+ normal, \d+ low, \d+ collapsed, \d+ learning, 0 unreadable$/);
    expect(text[1]).toMatch(/^m \/v1\/chat\/completions: accepted length 1\.\d\d to \d\.\d\d, median/);
    expect(text.at(-1)).toMatch(/^1970-01-01T.*Z (collapsed|low|drift) \(attacker, request r\d+\): /);
  });

  it('refuses a file without a record', async () => {
    await expect(replayRecords(['nonsense'])).rejects.toThrow(/no record to replay in 1 lines \(line 1/);
    await expect(replayRecords([])).rejects.toThrow(/no record/);
  });
});
