import { describe, expect, it } from 'vitest';
import { objectiveNames } from '../../audit/search/objectives.js';
import { presets } from '../../audit/settings.js';
import {
  chooseOtherObjective,
  completeHardening,
  hardeningDefaults,
  searchSettings,
} from './hardening-settings.js';

describe('searchSettings', () => {
  const settings = completeHardening({
    ...{ searchSteps: 10, searchGrowth: 1.5, suffixesPerPrompt: 3 },
    ...{ objectives: ['margin', 'kl'], suffixLengths: [8, 16] },
  });

  it('has every objective with every length, in turn', () => {
    const seen = [0, 1, 2, 3, 4].map((place) => {
      const { objective, suffixLength } = searchSettings(settings, presets.standard, 0, place);
      return `${objective} ${suffixLength}`;
    });
    expect(seen).toEqual(['margin 8', 'kl 8', 'margin 16', 'kl 16', 'margin 8']);
  });

  it('searches longer from round to round', () => {
    const steps = [0, 1, 2].map((round) => searchSettings(settings, presets.standard, round, 0).steps);
    expect(steps).toEqual([10, 15, 23]);
  });

  it('understands prompts as the audit does, and tries less', () => {
    const audit = { ...presets.thorough, window: 12, epsilon: 0.3, chat: false, keep: 'identical' as const };
    expect(searchSettings(settings, audit, 0, 0)).toMatchObject({
      ...{ window: 12, epsilon: 0.3, chat: false, keep: 'identical', finalists: 3 },
      ...{ candidates: presets.quick.candidates, starts: presets.quick.starts },
    });
  });
});

describe('completeHardening', () => {
  it('fills what is not given', () => {
    expect(completeHardening({ rounds: 7 })).toEqual({ ...hardeningDefaults, rounds: 7 });
  });

  it.each([
    [{ rounds: 0 }, /The harden setting "rounds" is 0/],
    [{ suffixedShare: 1.5 }, /The harden setting "suffixedShare" is 1.5/],
    [{ objectives: ['speed'] as never }, /The harden setting "objectives" is \["speed"\]/],
    [{ suffixLengths: [] as never }, /The harden setting "suffixLengths" is \[\]/],
  ])('refuses %j', (given, sentence) => {
    expect(() => completeHardening(given)).toThrow(sentence);
  });
});

describe('chooseOtherObjective', () => {
  it('takes what neither training nor the fresh audit drives', () => {
    const choose = (...objectives: typeof objectiveNames) =>
      chooseOtherObjective(presets.standard, completeHardening({ objectives }));
    expect(choose('margin', 'surprisal')).toBe('total-variation');
    expect(choose('total-variation', 'kl')).toBe('expected-length');
  });

  it('refuses where none is left', () => {
    const settings = completeHardening({ objectives: objectiveNames });
    expect(() => chooseOtherObjective(presets.standard, settings)).toThrow(/none is left/);
  });
});
