/** The charts of an audit: by prompt, by depth, and along the search. All drafters of a section share one scale. */
import {
  type ArmName,
  type AuditResult,
  type DrafterResult,
  type PromptResult,
  type TracePoint,
  arms,
} from '../../audit/result.js';
import { countedArm } from '../../audit/summary.js';
import { acceptedLengthText, divergenceText } from '../../core/number-text.js';
import { largest } from '../../core/vector.js';
import {
  type Level,
  type MarkStyle,
  type Point,
  type Series,
  drawChart,
  drawDepths,
  drawKey,
} from '../chart.js';
import { type Section, pictureBlock, section } from '../document.js';
import { type Content, type Markup, fragment } from '../markup.js';
import { drawCard } from '../page.js';
import { armLabels, armStyle, findArm, sameAnswerLength } from './audit-words.js';
import { median } from './timing-summary.js';

export function drawCharts(result: AuditResult): Section[] {
  const drafters = result.drafters.filter(({ summary }) => summary.promptsAudited > 0);
  if (drafters.length === 0) return [];
  const isSearched = drafters.some(({ prompts }) => prompts.some(({ traces }) => traces.length > 0));
  return [
    drawPrompts(drafters),
    drawAllDepths(drafters),
    ...(isSearched ? [drawSearch(drafters, result.setup.options.epsilon)] : []),
  ];
}

function chartSection(
  names: Parameters<typeof section>[0],
  lead: string,
  { drafters, key }: { readonly drafters: readonly DrafterResult[]; readonly key: readonly MarkStyle[] },
  draw: (drafter: DrafterResult) => Content,
): Section {
  const cards = drafters.map((each) =>
    drawCard(fragment`<b>${each.drafter}</b>, n = ${each.summary.promptsAudited}`, draw(each)),
  );
  return section(names, lead, pictureBlock(fragment`${drawKey(key)}<div class="grid">${cards}</div>`));
}

function present(drafters: readonly DrafterResult[], wanted: readonly ArmName[]): ArmName[] {
  return wanted.filter((arm) => drafters.some(({ summary }) => findArm(summary, arm) !== undefined));
}

const listAudited = ({ prompts }: DrafterResult): PromptResult[] =>
  prompts.filter(({ skipped }) => skipped === null);

function drawPrompts(drafters: readonly DrafterResult[]): Section {
  const lengths = drafters.flatMap((drafter) =>
    listAudited(drafter).flatMap((prompt) => arms.flatMap((arm) => sameAnswerLength(prompt, arm) ?? [])),
  );
  const longest = 1.04 * largest(lengths.filter(Number.isFinite), 2);
  return chartSection(
    ['prompts', 'Prompts', 'Prompt by prompt'],
    'Each line is one prompt: how far the accepted length along its clean answer moves from no suffix to the suffix that counts. The open marks are the controls; they should stay near the clean dot.',
    { drafters, key: present(drafters, arms).map(armStyle) },
    (drafter) => drawPairedLengths(drafter, longest),
  );
}

/** Controls are drawn a little above or below the line, where the clean mark does not hide them; in rows. */
const offsets: Readonly<Partial<Record<ArmName, number>>> = {
  'clean-again': -0.27,
  'preservation-only': -0.27,
  undirected: -0.27,
  random: 0.27,
  fluent: 0.27,
};

function drawPairedLengths(result: DrafterResult, longest: number): Markup {
  const counted = countedArm(result.prompts);
  const pairs = listAudited(result)
    .map((prompt) => ({
      prompt,
      clean: sameAnswerLength(prompt, 'clean') ?? NaN,
      attacked: sameAnswerLength(prompt, counted) ?? NaN,
    }))
    .sort((left, right) => right.clean - right.attacked - (left.clean - left.attacked));
  const dotsOf = (arm: ArmName): Series => ({
    ...armStyle(arm),
    dots: pairs.flatMap(({ prompt }, row) => {
      const length = sameAnswerLength(prompt, arm);
      const title = `${prompt.promptId}, ${armLabels[arm]}: ${acceptedLengthText(length)} tokens per step`;
      return length === null ? [] : [{ x: length, y: row + (offsets[arm] ?? 0), title }];
    }),
  });
  const controls = [...arms].reverse().filter((arm) => arm !== counted && arm !== 'clean');
  const spoken = pairs.map(
    ({ prompt, clean, attacked }) =>
      `${prompt.promptId} ${acceptedLengthText(clean)} to ${acceptedLengthText(attacked)}`,
  );
  return drawChart({
    description: `Accepted length of ${result.drafter} along the clean answers, prompt by prompt: ${spoken.join(', ')}.`,
    height: (pairs.length > 24 ? 24 : 36) * pairs.length,
    x: { label: 'accepted length along the clean answer (tokens per step) →', domain: [1, longest] },
    y: {
      domain: [pairs.length - 0.5, -0.5],
      ticks: pairs.map(({ prompt }, row) => ({ at: row, text: shorten(prompt.promptId) })),
    },
    series: [
      {
        ...armStyle(counted),
        lines: pairs.map(({ clean, attacked }, row) => [
          { x: clean, y: row },
          { x: attacked, y: row },
        ]),
        opacity: 0.55,
      },
      ...[...controls, 'clean' as const, counted].map(dotsOf),
    ],
  });
}

function shorten(promptId: string): string {
  const characters = Array.from(promptId);
  return characters.length > 16 ? `${characters.slice(0, 15).join('')}…` : promptId;
}

const depthArms: readonly ArmName[] = ['clean', 'random', 'fluent', 'undirected', 'given', 'attack'];

function drawAllDepths(drafters: readonly DrafterResult[]): Section {
  const depths = drafters.flatMap(({ summary }) => summary.arms.map((row) => row.acceptanceByDepth.length));
  return chartSection(
    ['depth', 'Depth', 'How deep drafts survive'],
    'The share of steps along the clean answer whose accepted path reaches each depth. One minus the first point is how often the very first draft token is thrown away.',
    { drafters, key: present(drafters, depthArms).map(armStyle) },
    ({ drafter, summary }) =>
      drawDepths(
        `Share of steps that accept each draft depth of ${drafter}.`,
        Math.max(2, ...depths),
        depthArms.map((arm) => ({
          style: armStyle(arm),
          shares: findArm(summary, arm)?.acceptanceByDepth ?? [],
        })),
      ),
  );
}

const searchArms: readonly ArmName[] = ['attack', 'undirected', 'unprojected', 'preservation-only'];

function drawSearch(drafters: readonly DrafterResult[], epsilon: unknown): Section {
  const bound = typeof epsilon === 'number' ? { value: epsilon, name: `bound ε = ${epsilon}` } : null;
  const drawLengths = prepareTraces(drafters, 'acceptedLength', findCleanLevel);
  const drawDivergences = prepareTraces(drafters, 'divergence', () => bound);
  const lines = present(drafters, searchArms).map((arm) => ({ ...armStyle(arm), symbol: undefined }));
  return chartSection(
    ['search', 'Search', 'How the search went'],
    'Above, the lowest accepted length along the clean answer that the search has met so far inside the bounds: lower is worse for the service. Below, how far the suffix that the search stands at moves the target’s own distribution. Thick lines are medians over prompts, thin ones single prompts under attack. A curve that still falls at its end says that a longer search may find worse; an undirected search that falls as far says that luck would do.',
    { drafters, key: lines },
    (drafter) => [drawLengths(drafter), drawDivergences(drafter)],
  );
}

const quantities = {
  acceptedLength: {
    name: 'Lowest accepted length along the clean answer',
    label: '↑ lowest accepted length so far',
    floor: 1,
    text: acceptedLengthText,
  },
  divergence: {
    name: 'Divergence of the target’s distribution',
    label: '↑ KL (nats per token)',
    floor: 0,
    text: divergenceText,
  },
} as const;
type Quantity = keyof typeof quantities;

/** One scale for all drafters, with room for the levels: the bound, or the length without a suffix. */
function prepareTraces(
  drafters: readonly DrafterResult[],
  quantity: Quantity,
  levelOf: (drafter: DrafterResult) => Level | null,
): (drafter: DrafterResult) => Markup {
  const { name, label, floor, text } = quantities[quantity];
  const points = drafters.flatMap((drafter) => [
    ...tracesOf(drafter, 'attack', quantity).flat(),
    ...searchArms.flatMap((arm) => medianTrace(tracesOf(drafter, arm, quantity))),
  ]);
  const values = [
    ...points.map(({ y }) => y),
    ...drafters.flatMap((drafter) => levelOf(drafter)?.value ?? []),
  ];
  const steps = points.map(({ x }) => x);
  const highest = 1.08 * largest(values.filter(Number.isFinite), floor + 0.05);
  return (drafter) => {
    const medians = searchArms.map((arm) => ({
      ...armStyle(arm),
      lines: [medianTrace(tracesOf(drafter, arm, quantity))],
    }));
    const single = {
      ...armStyle('attack'),
      lines: tracesOf(drafter, 'attack', quantity),
      width: 1,
      opacity: 0.28,
    };
    const last = medians[0]?.lines[0]?.at(-1)?.y ?? NaN;
    return drawChart({
      description: `${name} on ${drafter.drafter} over the search; median of the attack at the end: ${text(last)}.`,
      height: 170,
      x: { label: 'search step →', domain: [0, largest(steps, 1)] },
      y: { label, domain: [floor, highest] },
      series: [single, ...medians],
      levels: [levelOf(drafter) ?? []].flat(),
    });
  };
}

/** What the traces fall from: the median over the prompts that were searched. */
function findCleanLevel({ prompts }: DrafterResult): Level | null {
  const searched = prompts.filter(({ traces }) => traces.length > 0);
  const value = median(searched.flatMap((prompt) => sameAnswerLength(prompt, 'clean') ?? []));
  return value === null ? null : { value, name: 'no suffix' };
}

/** Steps before the first suffix inside the bounds have no accepted length. */
function tracesOf({ prompts }: DrafterResult, arm: ArmName, quantity: Quantity): Point[][] {
  const pointOf = ({ step, ...point }: TracePoint): Point[] => {
    const value = point[quantity];
    return value === null ? [] : [{ x: step, y: value }];
  };
  return prompts.flatMap(({ traces }) =>
    traces.filter((trace) => trace.arm === arm).map(({ steps }) => steps.flatMap(pointOf)),
  );
}

/** Over the prompts still searching at that step. */
function medianTrace(traces: readonly (readonly Point[])[]): Point[] {
  const byStep = new Map<number, number[]>();
  for (const { x, y } of traces.flat()) byStep.set(x, [...(byStep.get(x) ?? []), y]);
  return [...byStep]
    .sort(([left], [right]) => left - right)
    .map(([step, values]) => ({ x: step, y: median(values) ?? NaN }));
}
