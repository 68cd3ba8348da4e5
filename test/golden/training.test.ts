import { expect, it } from 'vitest';
import { describeGoldenTraining, golden } from './training.js';

it('has golden values for every system with weights', () => {
  expect(Object.keys(golden.systems).sort()).toEqual(['eagle', 'eagle3', 'hydra', 'medusa', 'sps']);
});

describeGoldenTraining('padded');
