import { describe, expect, it } from 'vitest';
import { runWithLimit } from './promises.js';

/** Tasks that end when they are told to, and what has happened so far. */
function createTasks(count: number) {
  const events: string[] = [];
  const ends: ((failure?: Error) => void)[] = [];
  const tasks = Array.from({ length: count }, (_, index) => () => {
    events.push(`start ${index}`);
    return new Promise<number>((resolve, reject) => {
      ends[index] = (failure) => {
        events.push(`end ${index}`);
        if (failure === undefined) resolve(index);
        else reject(failure);
      };
    });
  });
  return { events, ends, tasks };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe('tasks that run ahead', () => {
  it('start while earlier ones are under way, no more than so many', async () => {
    const { events, ends, tasks } = createTasks(4);
    const all = runWithLimit(tasks, 2);
    await settle();
    expect(events).toEqual(['start 0', 'start 1']);
    ends[1]!();
    await settle();
    expect(events).toEqual(['start 0', 'start 1', 'end 1']);
    ends[0]!();
    await settle();
    expect(events.slice(3)).toEqual(['end 0', 'start 2', 'start 3']);
    ends[3]!();
    ends[2]!();
    expect(await all).toEqual([0, 1, 2, 3]);
  });

  it('start one after the other where only one may run', async () => {
    const { events, ends, tasks } = createTasks(2);
    const all = runWithLimit(tasks, 1);
    await settle();
    ends[0]!();
    await settle();
    expect(events).toEqual(['start 0', 'end 0', 'start 1']);
    ends[1]!();
    expect(await all).toEqual([0, 1]);
  });

  it('are waited for when one fails, and none starts behind it', async () => {
    const { events, ends, tasks } = createTasks(3);
    let failure: unknown;
    const all = runWithLimit(tasks, 2).catch((cause: unknown) => (failure = cause));
    await settle();
    ends[1]!(new Error('second'));
    await settle();
    expect(failure).toBeUndefined();
    ends[0]!(new Error('first'));
    await all;
    expect(failure).toEqual(new Error('first'));
    expect(events).toEqual(['start 0', 'start 1', 'end 1', 'end 0']);
  });
});
