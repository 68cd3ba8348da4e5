import { it } from 'vitest';
import { expectPlainText } from './drafted-answers.js';

it.each([
  ['sps', 'draft model'],
  ['medusa', 'Medusa'],
  ['hydra', 'Hydra'],
  ['eagle', 'EAGLE'],
])('%s gives the text of plain decoding, and numbers that fit together', expectPlainText);
