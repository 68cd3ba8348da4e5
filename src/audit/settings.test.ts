import { describe, expect, it } from 'vitest';
import type { AuditSettings } from './settings.js';
import { applyPreset, presets } from './settings.js';

describe('settings', () => {
  it('standard looks at the whole answer, paper at its first 20 tokens with lambda 2', () => {
    expect(applyPreset('standard', {})).toMatchObject({
      suffixLength: 20,
      window: 64,
      lambda: 1,
      epsilon: 0.1,
    });
    expect(applyPreset('paper', {})).toMatchObject({ suffixLength: 20, window: 20, lambda: 2, moves: 1 });
  });

  it('the objective follows the temperature unless it is named', () => {
    const drawn = { temperature: 1, keep: 'distribution' } as const;
    expect(applyPreset('standard', drawn).objective).toBe('total-variation');
    expect(applyPreset('standard', { ...drawn, objective: 'kl' }).objective).toBe('kl');
    expect(applyPreset('paper', drawn).objective).toBe('surprisal');
  });

  it.each(Object.keys(presets))('%s fits its own rules', (name) => {
    expect(applyPreset(name, {})).toEqual(presets[name as keyof typeof presets]);
  });

  it('a change overrides the preset and leaves the rest', () => {
    expect(applyPreset('quick', { steps: 3 })).toEqual({ ...presets.quick, steps: 3 });
  });

  it.each([
    ['nope', {}, 'The preset "nope" is not known.'],
    ['quick', { steps: 0 }, 'The audit setting "steps" is '],
    ['quick', { epsilon: -1 }, 'The audit setting "epsilon" is '],
    ['quick', { objective: 'none' }, 'The audit setting "objective" is '],
    ['quick', { window: 2 }, 'Answers of 2 tokens are too short for an objective that looks 1 tokens ahead.'],
    ['quick', { maxNewTokens: 8 }, 'Answers are cut at 8 tokens, and an audit needs 24.'],
    [
      'quick',
      { temperature: 1 },
      'At temperature 1 answers are drawn, so no suffix can be held to "similar".',
    ],
  ])('%s with %o is refused', (name, changes, message) => {
    expect(() => applyPreset(name, changes as Partial<AuditSettings>)).toThrow(message);
  });
});
