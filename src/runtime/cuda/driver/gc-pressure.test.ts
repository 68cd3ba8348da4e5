import { describe, expect, it } from 'vitest';
import { GcPressure } from './device-memory.js';

function create(step: number) {
  const asked: number[] = [];
  let held = 0;
  const rows = new GcPressure(64 * step, () => asked.push(held));
  return {
    asked,
    take: (bytes: number): void => {
      held += bytes;
      rows.take(bytes);
    },
    giveBack: (bytes: number): void => {
      held -= bytes;
      rows.giveBack(bytes);
    },
  };
}

describe('rows that somebody holds', () => {
  it('are let be while they are few', () => {
    const { asked, take, giveBack } = create(1000);
    for (let round = 0; round < 50; round++) {
      take(900);
      giveBack(900);
    }
    expect(asked).toEqual([]);
  });

  it('are looked through each time that they have grown by so much', () => {
    const { asked, take } = create(1000);
    for (let round = 0; round < 25; round++) take(100);
    expect(asked).toEqual([1000, 2000]);
  });

  it('are looked through again as soon, once some came back', () => {
    const { asked, take, giveBack } = create(1000);
    for (let round = 0; round < 10; round++) take(100);
    giveBack(900);
    for (let round = 0; round < 10; round++) take(100);
    expect(asked).toEqual([1000, 1100]);
  });
});
