import { afterEach, expect, it, vi } from 'vitest';
import { PhaseClock } from './phase-clock.js';

afterEach(() => void vi.restoreAllMocks());

function createClock() {
  let ms = 0;
  vi.spyOn(performance, 'now').mockImplementation(() => ms);
  const runtime = { preparationMs: 0 };
  const prepare = (milliseconds: number): void => {
    ms += milliseconds;
    runtime.preparationMs += milliseconds;
  };
  const pass = (milliseconds: number): Promise<void> => {
    ms += milliseconds;
    return Promise.resolve();
  };
  return { clock: new PhaseClock(runtime), pass, prepare };
}

it('enters each work in its phase, and what belongs to none in the total', async () => {
  const { clock, pass } = createClock();
  const { value, times } = await clock.measure(async () => {
    await clock.during('gradient', () => pass(30));
    await pass(5);
    await clock.during('scoring', () => pass(60));
    await clock.during('scoring', () => pass(5));
    return 'done';
  });
  expect(value).toBe('done');
  expect(times).toEqual({
    ...{ gradientMs: 30, scoringMs: 65, exactLengthsMs: 0, decodingMs: 0, preparationMs: 0, totalMs: 100 },
  });
  const { times: next } = await clock.measure(() => clock.during('decoding', () => pass(7)));
  const none = { gradientMs: 0, scoringMs: 0, exactLengthsMs: 0, preparationMs: 0 };
  expect(next).toEqual({ ...none, decodingMs: 7, totalMs: 7 });
});

it('divides the time of what runs at once, and goes on after a failure', async () => {
  const { clock, pass } = createClock();
  const { times } = await clock.measure(async () => {
    let release: () => void = () => undefined;
    const held = clock.during('exactLengths', () => new Promise<void>((resolve) => (release = resolve)));
    const free = [0, 1].map(() => clock.during('decoding', () => Promise.resolve()));
    await pass(90); // one exact length and two decodings run
    await Promise.all(free);
    await pass(10);
    release();
    await held;
    await expect(clock.during('scoring', () => Promise.reject(new Error('no')))).rejects.toThrow('no');
    await pass(3);
  });
  expect(times).toEqual({
    ...{ gradientMs: 0, scoringMs: 0, exactLengthsMs: 40, decodingMs: 60, preparationMs: 0, totalMs: 103 },
  });
});

it('keeps the preparation of programs out of the phase that waits for it', async () => {
  const { clock, pass, prepare } = createClock();
  const { times } = await clock.measure(() =>
    clock.during('gradient', async () => {
      await pass(20);
      prepare(500);
      await pass(10);
    }),
  );
  expect(times).toEqual({
    ...{ gradientMs: 30, scoringMs: 0, exactLengthsMs: 0, decodingMs: 0, preparationMs: 500, totalMs: 530 },
  });
});
