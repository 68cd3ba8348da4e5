import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { isRunning } from '../core/processes.js';
import type { PoolOptions } from './unit-pool.js';
import { UnitPool } from './unit-pool.js';
import type { Unit, UnitPart } from './unit.js';

const program = join(import.meta.dirname, '../../test/support/unit-worker.js');
const pools: UnitPool[] = [];
afterEach(async () => {
  for (const pool of pools.splice(0)) await pool.close();
});

const notices: string[] = [];
function open(workers: PoolOptions['workers'], more: Partial<PoolOptions> = {}): UnitPool {
  notices.length = 0;
  const pool = new UnitPool({ program, workers, onNotice: (message) => void notices.push(message), ...more });
  pools.push(pool);
  return pool;
}
const workers = (count: number): PoolOptions['workers'] =>
  Array.from({ length: count }, (_, index) => ({ name: `worker-${index + 1}`, setup: {} }));

const unitOf = (key: string, input: unknown): Unit => ({
  key,
  input,
  models: [],
  estimate: { memoryBytes: null, ms: null },
});

async function run(pool: UnitPool, key: string, input: unknown): Promise<UnitPart[]> {
  const parts: UnitPart[] = [];
  await pool.run(unitOf(key, input), { onPart: (part) => void parts.push(part) });
  return parts;
}
const pidOf = ({ data }: UnitPart): number => (data as { pid: number }).pid;

describe('a pool of worker processes', () => {
  it('runs units in as many processes as it has workers, and keeps them', async () => {
    const pool = open(workers(2));
    expect(pool.capacity).toBe(2);
    const parts = await Promise.all(['a', 'b', 'c', 'd'].map((key) => run(pool, key, { parts: [key] })));
    expect(parts.flat().map(({ key }) => key)).toEqual(['a', 'b', 'c', 'd']);
    expect(new Set(parts.flat().map(pidOf)).size).toBe(2);
  });

  it('replaces a worker that dies, keeps the parts it had finished, and names what it said last', async () => {
    const pool = open(workers(1));
    const parts = await run(pool, 'u', { parts: ['u/1', 'u/2'], then: 'die-once' });
    expect(parts.map(({ key }) => key)).toEqual(['u/1', 'u/2']);
    expect(notices).toEqual([
      'last words',
      'worker-1, u: the worker ended with SIGKILL: out of memory. Attempt 2 of 3 follows.',
    ]);
    const [next] = await run(pool, 'v', { parts: ['v'] });
    expect(pidOf(next!)).not.toBe(pidOf(parts[0]!));
  });

  it('gives up a unit that ended three workers, and runs the others', async () => {
    const pool = open(workers(2));
    const poisoned = expect(run(pool, 'poison', { then: 'die' })).rejects.toMatchObject({
      message: 'the worker ended with code 7 (3 attempts)',
    });
    expect(await run(pool, 'fine', { parts: ['fine'] })).toHaveLength(1);
    await poisoned;
    expect(notices).toHaveLength(2);
  });

  it('reports an error of a unit like a death', async () => {
    const pool = open(workers(1), { attempts: 1 });
    await expect(run(pool, 'u', { then: 'fail' })).rejects.toThrow('a bad unit (1 attempt)');
  });

  it('does without a worker that cannot do the work, and ends with the last one', async () => {
    const pool = open([
      { name: 'small', setup: { isUnfit: true } },
      { name: 'large', setup: {} },
    ]);
    expect(await run(pool, 'u', { parts: ['u'], then: 'unfit' })).toHaveLength(1);
    expect([pool.capacity, notices]).toEqual([1, ['small is not used any more: no memory']]);
    const none = open([{ name: 'small', setup: { isUnfit: true } }]);
    await expect(run(none, 'u', { then: 'unfit' })).rejects.toMatchObject({
      ...{ code: 'runtime', message: 'no memory', hint: 'Use fewer.' },
    });
  });

  it('passes a failure to record on, and does not take it for one of the unit', async () => {
    const pool = open(workers(1));
    const running = pool.run(unitOf('u', { parts: ['u'] }), {
      onPart() {
        throw new Error('disk full');
      },
    });
    await expect(running).rejects.toThrow('disk full');
  });

  it('answers questions', async () => {
    const pool = open([{ name: 'one', setup: { threads: 2 } }]);
    expect(await pool.ask('how large?')).toEqual({ asked: 'how large?', setups: [{ threads: 2 }] });
  });

  it('leaves no process behind', async () => {
    const pool = open(workers(1));
    let outcome: Promise<void> | undefined;
    const pid = await new Promise<number>((resolve) => {
      const running = pool.run(unitOf('u', { then: 'wait' }), {
        onPart: () => undefined,
        onProgress: (_, worker) => {
          resolve(worker.pid!);
        },
      });
      outcome = expect(running).rejects.toThrow();
    });
    expect(isRunning(pid)).toBe(true);
    await pool.close();
    await outcome;
    expect(isRunning(pid)).toBe(false);
  });
});
