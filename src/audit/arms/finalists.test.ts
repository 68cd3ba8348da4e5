/** Finalists: decoded together, chosen by their drawn lengths, and measured again. */
import { afterAll, expect, it } from 'vitest';
import { briefSettings, TinyAudits, tinySettings } from '../../../test/support/tiny-audit.js';
import { MistletoeError } from '../../core/errors.js';
import { always } from '../../decode/policies/policy-chooser.js';
import type { Drafter } from '../../draft/drafter.js';
import { poolCounts, type StepCounts } from '../../measure/statistics.js';
import type { Ask } from '../../draft/tree/grow-tree.js';
import { applyPreset } from '../settings.js';
import { listAllowedTokens } from './controls.js';
import { decodeFreely } from './measure-arm.js';
import { PhaseClock } from './phase-clock.js';
import { runArm } from './prompt-audit.js';

const audits = new TinyAudits();
afterAll(() => audits.dispose());

/** A drafter whose first session fails; `open` counts the sessions that are not closed yet. */
function failFirstSession(drafter: Drafter, sessions: { started: number; open: number }): Drafter {
  const startSession: Drafter['startSession'] = (scheduler) => {
    const inner = drafter.startSession(scheduler);
    const fails = sessions.started++ === 0;
    sessions.open += 1;
    return Object.create(inner, {
      propose: {
        value: (ask: Ask) => {
          if (fails) throw new MistletoeError('drafter', 'The drafter failed.');
          return inner.propose(ask);
        },
      },
      close: {
        value: () => {
          sessions.open -= 1;
          inner.close();
        },
      },
    }) as typeof inner;
  };
  return Object.create(drafter, { startSession: { value: startSession } }) as Drafter;
}

it('one that fails leaves the prefix to the others until they end', async () => {
  const pair = await audits.load(audits.writeDrafter('EAGLE-3 with d2t'));
  const sessions = { started: 0, open: 0 };
  const { target, prompt, scorer } = await audits.openScorer(pair, 'abcdefgh');
  const settings = applyPreset('quick', { ...tinySettings, ...briefSettings, epsilon: 100 });
  const setup = {
    ...{ target, drafter: failFirstSession(pair.drafter, sessions), prompt, scorer, seed: 0 },
    ...{ policy: always({ kind: 'chain', length: 3 }), clock: new PhaseClock() },
    ...{ settings, unit: 'unit' },
    allowed: listAllowedTokens(target.tokenizer, target.model.configuration.vocabularySize, settings),
    given: [],
  };
  const clean = () => decodeFreely({ ...setup, drafter: pair.drafter }, []);
  await expect(runArm({ ...setup, clean }, { arm: 'attack', repeat: 1 })).rejects.toThrow(
    'The drafter failed.',
  );
  expect(sessions.started).toBeGreaterThan(1);
  expect(sessions.open).toBe(0);
  scorer.dispose();
});

it('the length of the chosen one is what is expected of its suffix, not the luck that chose it', async () => {
  const pair = await audits.load(audits.writeDrafter('Medusa, torch file'));
  const drawn = { temperature: 1, maxNewTokens: 16, window: 16 };
  const { target, prompt, scorer } = await audits.openScorer(pair, 'abcdefgh', 'total-variation', drawn);
  const settings = applyPreset('quick', {
    ...{ ...tinySettings, ...briefSettings, ...drawn },
    ...{ epsilon: 100, candidates: 12, finalists: 12 },
  });
  const levels = { kind: 'chain', length: Math.min(3, pair.drafter.maximumDepth) } as const;
  const allowed = listAllowedTokens(target.tokenizer, target.model.configuration.vocabularySize, settings);
  const reported: StepCounts[] = [];
  let expectedSteps = 0;
  for (let seed = 0; seed < 40; seed++) {
    const setup = {
      ...{ target, drafter: pair.drafter, prompt, scorer, seed, settings, allowed },
      ...{ policy: always(levels), clock: new PhaseClock(), unit: 'unit', given: [] },
    };
    const clean = () => decodeFreely(setup, []);
    const outcome = await runArm({ ...setup, clean }, { arm: 'attack', repeat: 1 });
    const { suffixIds, sameAnswer } = outcome!.result;
    const [score] = await scorer.score(suffixIds, [{ suffixIds, first: 0 }]);
    reported.push(sameAnswer);
    expectedSteps += (prompt.windowIds.length - 1) / score!.length;
  }
  const steps = poolCounts(reported).steps;
  // With the draws that chose it, it takes 4 % more steps.
  expect(steps / expectedSteps).toBeLessThan(1.02);
  scorer.dispose();
});
