import { describe, expect, it } from 'vitest';
import { applyPreset, presets } from './settings.js';

describe('settings', () => {
  it('standard has the paper’s suffix length, window and lambda', () => {
    expect(applyPreset('standard', {})).toMatchObject({
      suffixLength: 20,
      window: 20,
      lambda: 2,
      epsilon: 0.1,
    });
  });

  it.each(Object.keys(presets))('%s fits its own rules', (name) => {
    expect(applyPreset(name, {})).toEqual(presets[name as keyof typeof presets]);
  });

  it('a change overrides the preset and leaves the rest', () => {
    expect(applyPreset('quick', { steps: 3 })).toEqual({ ...presets.quick, steps: 3 });
  });

  it.each([
    ['nope', {}, 'The preset "nope" is not known.'],
    ['quick', { steps: 0 }, 'The audit\'s setting "steps" is wrong'],
    ['quick', { epsilon: -1 }, 'The audit\'s setting "epsilon" is wrong'],
    ['quick', { objective: 'none' }, 'The audit\'s setting "objective" is wrong'],
    ['quick', { window: 5 }, 'A window of 5 is too short for drafts 4 deep.'],
    ['quick', { maxNewTokens: 8 }, 'Answers of at most 8 tokens are shorter than the window of 12.'],
  ])('%s with %o is refused', (name, changes, message) => {
    expect(() => applyPreset(name, changes)).toThrow(message);
  });
});
