import { describe, expect, it } from 'vitest';
import type { Unit, UnitExecutor, UnitHooks, UnitSchedule } from './unit.js';
import { driveUnits, UnitFailed } from './unit.js';

const unitOf = (key: string): Unit => ({
  key,
  input: null,
});
const nobody = { name: '', pid: null };

/** Units in two phases: the second is ready once all of the first are recorded. */
function twoPhases(first: readonly string[], second: readonly string[]) {
  const recorded: string[] = [];
  const left = [...first];
  const later = [...second];
  const schedule: UnitSchedule = {
    next() {
      if (left.length > 0) return unitOf(left.shift()!);
      if (!first.every((key) => recorded.includes(key)) || later.length === 0) return undefined;
      return unitOf(later.shift()!);
    },
  };
  return { schedule, recorded };
}

/** Ends units in the order in which the test says so. */
function manual(capacity: number) {
  const open = new Map<string, { hooks: UnitHooks; resolve: () => void; reject: (cause: Error) => void }>();
  let closed = 0;
  const executor: UnitExecutor = {
    capacity,
    run: ({ key }, hooks) =>
      new Promise((resolve, reject) => {
        open.set(key, { hooks, resolve, reject });
      }),
    close() {
      closed += 1;
      for (const { reject } of open.values()) reject(new Error('closed'));
      return Promise.resolve();
    },
  };
  const settle = async (key: string, cause?: Error): Promise<void> => {
    const { hooks, resolve, reject } = open.get(key)!;
    open.delete(key);
    try {
      if (cause !== undefined) throw cause;
      hooks.onPart({ key, data: null, steps: [], timing: null }, nobody);
      resolve();
    } catch (thrown) {
      reject(thrown as Error);
    }
    await new Promise(setImmediate);
  };
  return { executor, open: () => [...open.keys()], settle, closed: () => closed };
}

describe('driveUnits', () => {
  it('keeps as many units running as the executor takes, and waits for a phase to end', async () => {
    const { schedule, recorded } = twoPhases(['a', 'b', 'c'], ['d']);
    const { executor, open, settle } = manual(2);
    const driving = driveUnits({
      schedule,
      executor,
      hooksOf: () => ({ onPart: ({ key }) => void recorded.push(key) }),
      onFailure: () => undefined,
    });
    await new Promise(setImmediate);
    expect(open()).toEqual(['a', 'b']);
    await settle('b');
    expect(open()).toEqual(['a', 'c']);
    await settle('c');
    expect(open()).toEqual(['a']);
    await settle('a');
    expect(open()).toEqual(['d']);
    await settle('d');
    await driving;
    expect(recorded).toEqual(['b', 'c', 'a', 'd']);
  });

  it('finishes the rest when a unit fails', async () => {
    const { schedule, recorded } = twoPhases(['a', 'b'], []);
    const { executor, settle } = manual(1);
    const failures: string[] = [];
    const driving = driveUnits({
      schedule,
      executor,
      hooksOf: () => ({ onPart: ({ key }) => void recorded.push(key) }),
      onFailure: ({ key }, { message }) => void failures.push(`${key}: ${message}`),
    });
    await new Promise(setImmediate);
    await settle('a', new UnitFailed('three times'));
    await settle('b');
    await driving;
    expect([recorded, failures]).toEqual([['b'], ['a: three times']]);
  });

  it('stops at a failure to record, after all units have ended', async () => {
    const { schedule } = twoPhases(['a', 'b'], ['c']);
    const { executor, settle, closed } = manual(2);
    const driving = driveUnits({
      schedule,
      executor,
      hooksOf: () => ({
        onPart() {
          throw new Error('disk full');
        },
      }),
      onFailure: () => undefined,
    });
    const outcome = expect(driving).rejects.toThrow('disk full');
    await new Promise(setImmediate);
    await settle('a');
    await outcome;
    expect(closed()).toBe(1);
  });

  it('ends at an abort with its reason', async () => {
    const { schedule } = twoPhases(['a', 'b'], []);
    const { executor, closed } = manual(1);
    const abort = new AbortController();
    const driving = driveUnits({
      schedule,
      executor,
      signal: abort.signal,
      hooksOf: () => ({ onPart: () => undefined }),
      onFailure: () => undefined,
    });
    const outcome = expect(driving).rejects.toBe('enough');
    await new Promise(setImmediate);
    abort.abort('enough');
    await outcome;
    expect(closed()).toBe(1);
  });
});
