/**
 * How an answer came about, step by step, where the engine told: in the table a column for every step, in the opened row
 * a box for every token. As in the report of an audit, accepted draft tokens are shaded, the target's own token after a
 * rejected draft has a solid frame, and the one after a draft that was accepted whole a dotted one.
 */
import type { Speculation } from '../../guard/observation.js';
import type { PageElement } from './browser.js';
import type { Pen } from './pen.js';

export interface Step {
  readonly accepted: number;
  /** Draft tokens along the path; of a tree the deepest there could be. Never less than were accepted. */
  readonly proposed: number;
}

export const mostColumns = 64;
export const mostSteps = 400;
const columnWidth = 3;
const columnGap = 1;
const height = 24;

export function listSteps(speculation: Speculation): readonly Step[] | null {
  const { perStepAccepted, perStepProposed, draftLength, isTree } = speculation;
  if (perStepAccepted === null || perStepAccepted.length === 0) return null;
  return perStepAccepted.map((accepted, index) => {
    const counted = isTree ? null : (perStepProposed?.[index] ?? null);
    return { accepted, proposed: Math.max(accepted, counted ?? draftLength ?? 0) };
  });
}

/** Long answers get columns for several steps each, of mean height. */
export function gatherColumns(steps: readonly Step[]): readonly Step[] {
  const each = Math.ceil(steps.length / mostColumns);
  return Array.from({ length: Math.ceil(steps.length / each) }, (_, column) => {
    const part = steps.slice(column * each, (column + 1) * each);
    const mean = (value: (step: Step) => number): number =>
      part.reduce((sum, step) => sum + value(step), 0) / part.length;
    return { accepted: mean(({ accepted }) => accepted), proposed: mean(({ proposed }) => proposed) };
  });
}

export function drawColumns(pen: Pen, steps: readonly Step[]): PageElement {
  const columns = gatherColumns(steps);
  const deepest = Math.max(1, ...columns.map(({ proposed }) => proposed));
  const width = columns.length * (columnWidth + columnGap);
  const trace = (from: (step: Step) => number, to: (step: Step) => number): string =>
    columns
      .map((step, index) => {
        const [bottom, top] = [place(from(step)), place(to(step))];
        return bottom - top < 0.05
          ? ''
          : `M${index * (columnWidth + columnGap)} ${bottom}h${columnWidth}V${top}h-${columnWidth}z`;
      })
      .join('');
  const place = (tokens: number): number => Math.round((height - 3) * (1 - tokens / deepest) * 10) / 10;
  return pen.svg(
    'svg',
    {
      class: 'columns',
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: 'img',
      'aria-label': describeSteps(steps),
    },
    pen.svg('path', {
      class: 'rejected',
      d: trace(
        ({ accepted }) => accepted,
        ({ proposed }) => proposed,
      ),
    }),
    pen.svg('path', {
      class: 'accepted',
      d: trace(
        () => 0,
        ({ accepted }) => accepted,
      ),
    }),
    pen.svg('path', { class: 'ground', d: `M0 ${height - 1}h${width - columnGap}` }),
  );
}

export function drawBoxes(pen: Pen, steps: readonly Step[]): PageElement {
  const shown = steps.slice(0, mostSteps);
  const rest = steps.length - shown.length;
  return pen.html(
    'div',
    { class: 'boxes', role: 'img', 'aria-label': describeSteps(steps) },
    shown.map((step, index) => drawStep(pen, step, index)),
    rest === 0 ? null : pen.html('span', { class: 'soft' }, `and ${rest} further steps`),
  );
}

function drawStep(pen: Pen, { accepted, proposed }: Step, index: number): PageElement {
  return pen.html(
    'span',
    { class: 'step', title: `step ${index + 1}: ${accepted} of ${proposed} draft tokens accepted` },
    Array.from({ length: accepted }, () => pen.html('span', { class: 'a' })),
    pen.html('span', { class: accepted < proposed ? 'r' : 'b' }),
  );
}

export function describeSteps(steps: readonly Step[]): string {
  const accepted = steps.reduce((sum, step) => sum + step.accepted, 0);
  const empty = steps.filter((step) => step.accepted === 0 && step.proposed > 0).length;
  return (
    `${steps.length} steps with ${accepted} accepted draft tokens; ` +
    `in ${empty} of them no draft token was accepted`
  );
}
