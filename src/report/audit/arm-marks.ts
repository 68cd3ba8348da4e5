/** How each row looks in every chart: a colour and a shape, so that colour is never the only difference. */
import type { ArmName } from '../../audit/arms/arms.js';
import { armLabels } from './arm-names.js';
import type { Markup } from '../markup.js';
import { fragment } from '../markup.js';

export interface ArmMark {
  readonly color: string;
  readonly symbol: 'circle' | 'square' | 'triangle' | 'diamond' | 'plus' | 'times' | 'asterisk';
  readonly dash?: string;
}

export const armMarks: Readonly<Record<ArmName, ArmMark>> = {
  clean: { color: 'var(--accent)', symbol: 'circle' },
  'clean-again': { color: 'var(--faint)', symbol: 'plus', dash: '2 4' },
  random: { color: 'var(--soft)', symbol: 'triangle', dash: '3 3' },
  fluent: { color: 'var(--soft)', symbol: 'square', dash: '6 3' },
  undirected: { color: 'var(--ink)', symbol: 'diamond', dash: '1.5 3' },
  'preservation-only': { color: 'var(--soft)', symbol: 'asterisk', dash: '9 3 2 3' },
  unprojected: { color: 'var(--ink)', symbol: 'times', dash: '10 4' },
  given: { color: 'var(--attack)', symbol: 'square' },
  attack: { color: 'var(--attack)', symbol: 'square' },
};

/** The key above a group of charts. */
export function drawKey(arms: readonly ArmName[], as: 'dots' | 'lines'): Markup {
  return fragment`<ul class="key">${arms.map((arm) => fragment`<li>${as === 'dots' ? drawDot(arm) : drawLine(arm)}${armLabels[arm]}</li>`)}</ul>`;
}

function drawLine(arm: ArmName): Markup {
  const { color, dash = 'none' } = armMarks[arm];
  return fragment`<svg viewBox="0 0 24 12" aria-hidden="true"><path d="M0 6h24" stroke="${color}" stroke-width="2.2" stroke-dasharray="${dash}"/></svg>`;
}

const outlines: Readonly<Record<ArmMark['symbol'], string>> = {
  circle: 'M12 2a4 4 0 1 0 .01 0z',
  square: 'M8.5 2.5h7v7h-7z',
  triangle: 'M12 1.5l4.5 8h-9z',
  diamond: 'M12 .8l4 5.2-4 5.2-4-5.2z',
  plus: 'M12 1v10M7 6h10',
  times: 'M8 2l8 8M16 2l-8 8',
  asterisk: 'M12 1v10M7.7 3.5l8.6 5M16.3 3.5l-8.6 5',
};

export const isFilled = (arm: ArmName): boolean => arm === 'clean' || arm === 'attack' || arm === 'given';

function drawDot(arm: ArmName): Markup {
  const { color, symbol } = armMarks[arm];
  const fill = isFilled(arm) ? color : 'none';
  return fragment`<svg viewBox="0 0 24 12" aria-hidden="true"><path d="${outlines[symbol]}" fill="${fill}" stroke="${color}" stroke-width="1.5"/></svg>`;
}
