import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { isRunning } from '../core/processes.js';
import { DeviceLostError, OutOfMemoryError } from '../runtime/program.js';
import type { PoolOptions } from './unit-pool.js';
import { UnitPool } from './unit-pool.js';
import type { Unit, UnitPart } from './unit.js';

const program = join(import.meta.dirname, '../../test/support/unit-worker.js');
const pools: UnitPool[] = [];
afterEach(async () => {
  vi.unstubAllEnvs();
  for (const pool of pools.splice(0)) await pool.close();
});

const notices: string[] = [];
function open(workers: PoolOptions['workers'], more: Partial<PoolOptions> = {}): UnitPool {
  notices.length = 0;
  const pool = new UnitPool({ program, workers, onNotice: (message) => void notices.push(message), ...more });
  pools.push(pool);
  return pool;
}
const workers = (count: number, gpu?: number): PoolOptions['workers'] =>
  Array.from({ length: count }, (_, index) => ({ name: `worker-${index + 1}`, gpu, setup: {} }));

const unitOf = (key: string, input: unknown): Unit => ({
  key,
  input,
});

async function run(pool: UnitPool, key: string, input: unknown): Promise<UnitPart[]> {
  const parts: UnitPart[] = [];
  await pool.run(unitOf(key, input), { onPart: (part) => void parts.push(part) });
  return parts;
}
const dataOf = ({ data }: UnitPart) => data as { readonly worker: string; readonly hasSecret: boolean };

describe.each([
  { kind: 'processes', gpu: undefined, death: 'SIGKILL' },
  { kind: 'threads', gpu: 0, death: 'code 1' },
])('a pool of $kind', ({ gpu, death }) => {
  it('runs units in as many as it has workers, keeps them, and hides secrets from them', async () => {
    vi.stubEnv('TEST_SECRET', 'x');
    const pool = open(workers(2, gpu));
    expect(pool.capacity).toBe(2);
    const parts = await Promise.all(['a', 'b', 'c', 'd'].map((key) => run(pool, key, { parts: [key] })));
    expect(parts.flat().map(({ key }) => key)).toEqual(['a', 'b', 'c', 'd']);
    const started = [...new Set(parts.flat().map((part) => dataOf(part).worker))];
    expect(started).toHaveLength(2);
    expect(started.some((worker) => worker.startsWith(`${process.pid}.`))).toBe(gpu !== undefined);
    expect(parts.flat().some((part) => dataOf(part).hasSecret)).toBe(false);
  });

  it('replaces a worker that dies, keeps the parts it had finished, and names what it said last', async () => {
    const pool = open(workers(1, gpu));
    const parts = await run(pool, 'u', { parts: ['u/1', 'u/2'], then: 'die-once' });
    expect(parts.map(({ key }) => key)).toEqual(['u/1', 'u/2']);
    expect(notices).toEqual([
      'last words',
      `worker-1, u: the worker ended with ${death}: out of memory. Attempt 2 of 3 follows.`,
    ]);
    const [next] = await run(pool, 'v', { parts: ['v'] });
    expect(dataOf(next!).worker).not.toBe(dataOf(parts[0]!).worker);
  });

  it('gives up a unit that ended three workers, and runs the others', async () => {
    const pool = open(workers(2, gpu));
    const poisoned = expect(run(pool, 'poison', { then: 'die' })).rejects.toMatchObject({
      message: 'the worker ended with code 7 (3 attempts)',
    });
    expect(await run(pool, 'fine', { parts: ['fine'] })).toHaveLength(1);
    await poisoned;
    expect(notices).toHaveLength(2);
  });

  it('reports an error of a unit like a death', async () => {
    const pool = open(workers(1, gpu), { attempts: 1 });
    await expect(run(pool, 'u', { then: 'fail' })).rejects.toThrow('a bad unit (1 attempt)');
  });

  it('does without a worker that cannot do the work, and ends with the last one', async () => {
    const pool = open([
      { name: 'small', gpu, setup: { isUnfit: true } },
      { name: 'large', gpu, setup: {} },
    ]);
    expect(await run(pool, 'u', { parts: ['u'], then: 'unfit' })).toHaveLength(1);
    expect([pool.capacity, notices]).toEqual([1, ['small is not used any more: no memory']]);
    const none = open([{ name: 'small', gpu, setup: { isUnfit: true } }]);
    await expect(run(none, 'u', { then: 'unfit' })).rejects.toMatchObject({
      ...{ code: 'runtime', message: 'no memory', hint: 'Use fewer.' },
    });
  });

  it('passes a failure to record on, and does not take it for one of the unit', async () => {
    const pool = open(workers(1, gpu));
    const running = pool.run(unitOf('u', { parts: ['u'] }), {
      onPart() {
        throw new Error('disk full');
      },
    });
    await expect(running).rejects.toThrow('disk full');
  });

  it('answers questions', async () => {
    const pool = open([{ name: 'one', gpu, setup: { threads: 2 } }]);
    expect(await pool.ask('how large?')).toEqual({ asked: 'how large?', setups: [{ threads: 2 }] });
  });

  it('ends workers in the middle of a unit', async () => {
    const pool = open(workers(1, gpu));
    let outcome: Promise<void> | undefined;
    const pid = await new Promise<number>((resolve) => {
      const running = pool.run(unitOf('u', { then: 'wait' }), {
        onPart: () => undefined,
        onProgress: (_, worker) => {
          resolve(worker.pid!);
        },
      });
      outcome = expect(running).rejects.toThrow('The workers were closed.');
    });
    expect(isRunning(pid)).toBe(true);
    await pool.close();
    await outcome;
    expect(notices).toEqual([]);
    expect(isRunning(pid)).toBe(gpu !== undefined);
  });
});

describe('a GPU that fails', () => {
  it('is another one for the next process', async () => {
    const pool = open(workers(1), { attempts: 2 });
    await expect(run(pool, 'u', { then: 'lose' })).rejects.toThrow('lose the GPU (2 attempts)');
  });

  it('ends the run of its threads at once, with an error that can be resumed', async () => {
    const pool = open(workers(3, 0));
    const failure = await run(pool, 'u', { then: 'lose' }).catch((cause: unknown) => cause);
    expect(failure).toBeInstanceOf(DeviceLostError);
    expect(failure).toMatchObject({ message: 'lose the GPU', hint: 'Look.' });
    expect([pool.capacity, notices]).toEqual([0, []]);
  });

  it('leaves the threads of other GPUs alone', async () => {
    const pool = open([...workers(2, 0), { name: 'other', gpu: 1, setup: {} }]);
    await expect(run(pool, 'u', { then: 'lose' })).rejects.toThrow(DeviceLostError);
    expect(notices).toEqual(['worker-1, worker-2 are not used any more: lose the GPU']);
  });

  it('has room for fewer threads if one runs out of memory', async () => {
    const pool = open(workers(2, 0));
    await expect(run(pool, 'u', { then: 'fill' })).rejects.toThrow(OutOfMemoryError);
    expect(notices).toEqual(['worker-1 is not used any more: fill the GPU']);
  });
});
