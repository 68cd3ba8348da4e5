/** How each row looks in every chart: a color and a shape, so that color is never the only difference. */
import type { ArmName } from '../../audit/arms/arms.js';
import type { MarkStyle, MarkSymbol } from '../chart.js';
import { armLabels } from './arm-names.js';

const styles: Readonly<Record<ArmName, readonly [color: string, symbol: MarkSymbol, dash?: string]>> = {
  clean: ['var(--accent)', 'circle'],
  'clean-again': ['var(--faint)', 'plus', '2 4'],
  random: ['var(--soft)', 'triangle', '3 3'],
  fluent: ['var(--soft)', 'square', '6 3'],
  undirected: ['var(--ink)', 'diamond', '1.5 3'],
  'preservation-only': ['var(--soft)', 'asterisk', '9 3 2 3'],
  unprojected: ['var(--ink)', 'times', '10 4'],
  given: ['var(--attack)', 'square'],
  attack: ['var(--attack)', 'square'],
};

export function armStyle(arm: ArmName): Required<MarkStyle> {
  const [color, symbol, dash] = styles[arm];
  const filled = arm === 'clean' || arm === 'attack' || arm === 'given';
  return { name: armLabels[arm], color, symbol, dash, filled };
}

/** For the key of a chart of lines. */
export const armLine = (arm: ArmName): MarkStyle => ({ ...armStyle(arm), symbol: undefined });
