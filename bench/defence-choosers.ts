/**
 * Simple defences at inference time, as choosers of drafts: drafters that take turns, another one under doubt, and the prices
 * by which choosers are told what steps cost. Those that decide by the clock hear prices that are fixed before anything is
 * measured, so that what they decide, and with it every accepted length, does not depend on what else the machine does.
 */
import type { DraftChoice, PolicyChooser, StepOutcome } from '../src/decode/policies/policy-chooser.js';

interface MemberChoice extends DraftChoice {
  readonly place: number;
  readonly inner: DraftChoice;
}

/** Chooser of which place drafts; the members' own choosers say how much. */
function combine(
  members: readonly PolicyChooser[],
  use: (place: number) => void,
  placeOf: () => number,
  hear: (place: number, outcome: StepOutcome) => void = () => undefined,
): PolicyChooser {
  return {
    chainLengths: [...new Set(members.flatMap(({ chainLengths }) => chainLengths))],
    trees: members.flatMap(({ trees = [] }) => trees),
    choose(): MemberChoice {
      const place = placeOf();
      use(place);
      const inner = members[place]!.choose();
      return { policy: inner.policy, drafter: place, place, inner };
    },
    learn(made, outcome) {
      const { place, inner } = made as MemberChoice;
      members[place]!.learn(inner, outcome);
      hear(place, outcome);
    },
  };
}

/** Each drafts for so many steps, whatever they bring: whoever attacks one of them slows its turns alone. */
export function takeTurns(
  members: readonly PolicyChooser[],
  use: (place: number) => void,
  stepsOfTurn = 4,
): PolicyChooser {
  let step = 0;
  return combine(members, use, () => Math.floor(step++ / stepsOfTurn) % members.length);
}

/** Steps in a row of which nothing was accepted before the next one drafts, and how long it does. */
export interface Doubt {
  readonly failures: number;
  readonly steps: number;
}

/** The first drafts until it fails some times in a row; then the other does for a while, and the first is tried again. */
export function changeUnderDoubt(
  members: readonly [PolicyChooser, PolicyChooser],
  use: (place: number) => void,
  { failures, steps }: Doubt = { failures: 4, steps: 12 },
): PolicyChooser {
  let failed = 0;
  let left = 0;
  const placeOf = (): number => {
    if (left > 0) left -= 1;
    return left > 0 ? 1 : 0;
  };
  return combine(members, use, placeOf, (place, { proposed, accepted }) => {
    if (place !== 0 || proposed === 0) return;
    failed = accepted > 0 ? 0 : failed + 1;
    if (failed < failures) return;
    // Half as many are enough to doubt again at once.
    [failed, left] = [Math.ceil(failures / 2), steps + 1];
  });
}

export const never: PolicyChooser = {
  ...{ chainLengths: [], trees: [] },
  choose: () => ({ policy: undefined }),
  learn: () => undefined,
};

/** Milliseconds. */
export interface PriceList {
  /** [draft tokens] of a pass of the target over them and the root. */
  readonly verify: readonly number[];
  /** [drafter][levels] */
  readonly draft: Readonly<Record<string, readonly number[]>>;
  /** [drafter] of a small tree, and of the pass over it. */
  readonly tree: Readonly<Record<string, { readonly draft: number; readonly verify: number }>>;
  /** Of a prompt's token. */
  readonly prompt: number;
}

const nearest = (prices: readonly number[], count: number): number =>
  prices[Math.min(count, prices.length - 1)] ?? 0;

/** `names`: of the drafters by their places. */
export function tellPrices(
  chooser: PolicyChooser,
  list: PriceList,
  names: readonly string[],
  promptTokens: number,
): PolicyChooser {
  const priceOf = ({ proposed, depth, drafter = 0 }: StepOutcome): { draftMs: number; verifyMs: number } => {
    const name = names[drafter]!;
    const tree = depth < proposed ? list.tree[name] : undefined;
    if (tree !== undefined) return { draftMs: tree.draft, verifyMs: tree.verify };
    return { draftMs: nearest(list.draft[name] ?? [], depth), verifyMs: nearest(list.verify, proposed) };
  };
  return {
    chainLengths: chooser.chainLengths,
    ...(chooser.trees === undefined ? {} : { trees: chooser.trees }),
    choose: () => chooser.choose(),
    begin: () => chooser.begin?.(list.prompt * promptTokens),
    learn(choice, { proposed, accepted, depth, drafter, ...timed }) {
      const step = { proposed, accepted, depth, ...(drafter === undefined ? {} : { drafter }) };
      chooser.learn(choice, { ...step, ...priceOf({ ...step, ...timed }) });
    },
  };
}
