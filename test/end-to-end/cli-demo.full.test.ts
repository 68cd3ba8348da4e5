import { stripVTControlCharacters } from 'node:util';
import { describe, expect, it } from 'vitest';
import { expectFirstAct, playFirstAct, textsOf } from './demo-acts.js';

describe('mistletoe demo', () => {
  it('shows long texts, too', async () => {
    expectFirstAct(await playFirstAct(64));
  });

  it('colours instead of brackets on a terminal', async () => {
    const { code, out } = await playFirstAct(24, { isTerminal: true });
    expect(code).toBe(0);
    expect(out).not.toContain('⟨');
    expect(out).toMatch(/│.*\u001b\[32m/);
    const texts = textsOf(stripVTControlCharacters(out));
    expect(texts[1]).toBe(texts[0]);
    expect(texts[3]).toBe(texts[2]);
  });
});
