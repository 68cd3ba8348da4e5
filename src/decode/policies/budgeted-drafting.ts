/**
 * Builds the ladder of a guarded request: its own drafter, the other compatible drafters, n-gram lookup, then plain
 * steps. Finished requests teach the usual acceptance of each rung. Each request has a policy of its own.
 */
import { MistletoeError } from '../../core/errors.js';
import type { Drafter } from '../../draft/drafter.js';
import { rotateDrafters, type RotatingDrafter } from '../../draft/rotating-drafter.js';
import { findWeightless } from '../../draft/systems.js';
import { resolvePolicy, type ResolvedPolicy } from '../../draft/tree/grow-tree.js';
import { parseDraftPolicy } from '../../draft/tree/policy.js';
import type { CausalModel } from '../../model/causal-model.js';
import { mlpWidthPerToken } from '../../model/experts.js';
import type { StepRecord } from '../acceptance.js';
import { BudgetedPolicy, checkBudget, type Rung } from './budgeted-policy.js';
import type { DrafterSwitch, Guarding, PolicyChooser } from './policy-chooser.js';

/**
 * The floor of the budgeted policy's test: the lowest share of steps that accept a draft token in usual requests,
 * learned per kind of rung as requests end. There are few kinds, so no one can crowd out what is known of usual
 * requests.
 * The floor is a rank: one in fifty similar requests lies below it. Requests that left a rung on evidence may be
 * attacks, so their shares are not learned. But some were benign, and ignoring them would raise the floor again and
 * again; so they count as below the floor, for at most half of the one in fifty. A flood of attacks cannot lower the
 * floor further. With too few requests the floor is below all of them; with even fewer it is 0, and only the account
 * decides.
 */
const allowance = 0.02;
/** Shorter requests are mostly noise. */
const minSteps = 16;
const minRequests = 20;
const maxRequests = 512;

interface Kept {
  readonly shares: number[];
  /** [request, latest last] */
  readonly flags: boolean[];
  floor: number | undefined;
}

export class AcceptanceFloors {
  private readonly kinds = new Map<string, Kept>();

  /** 0 if too little is known. */
  floorOf(kind: string): number {
    const kept = this.kinds.get(kind);
    if (kept === undefined) return 0;
    return (kept.floor ??= findFloor(kept));
  }

  /** A request that did not leave its rung on evidence. */
  learn(kind: string, steps: number, accepting: number): void {
    if (steps < minSteps) return;
    const kept = this.keep(kind);
    push(kept.shares, accepting / steps);
    push(kept.flags, false);
  }

  flag(kind: string): void {
    push(this.keep(kind).flags, true);
  }

  private keep(kind: string): Kept {
    const kept = this.kinds.get(kind) ?? { shares: [], flags: [], floor: undefined };
    kept.floor = undefined;
    this.kinds.set(kind, kept);
    return kept;
  }
}

function findFloor({ shares, flags }: Kept): number {
  if (shares.length < minRequests) return 0;
  const flagged = flags.filter(Boolean).length;
  const budget = allowance * (shares.length + flagged + 1);
  const left = budget - Math.min(flagged, budget / 2);
  const sorted = [...shares].sort((lower, higher) => lower - higher);
  if (left >= 1) return sorted[Math.floor(left) - 1]!;
  return Math.sqrt(left) * sorted[0]!;
}

function push<Value>(values: Value[], value: Value): void {
  values.push(value);
  if (values.length > maxRequests) values.shift();
}

export interface BudgetSettings {
  /** Max slowdown against plain decoding, as a share. */
  readonly slowdown?: number | undefined;
  /** Lowest share of accepting steps in usual requests; learned by default. */
  readonly floor?: number | undefined;
  /** Names of the drafters after the request's own; default: the server's drafters, then ngram. */
  readonly ladder?: readonly string[] | undefined;
}

export interface BudgetedRequest {
  readonly drafter: RotatingDrafter;
  readonly policy: PolicyChooser;
  readonly end: (steps: readonly StepRecord[]) => Guarding;
}

interface NamedDrafter {
  readonly name: string;
  readonly drafter: Drafter;
}

interface ResolvedRung extends NamedDrafter {
  readonly policy: ResolvedPolicy;
}

export interface LadderRequest {
  readonly name: string;
  /** As the user wrote it; chains of up to four by default and for `auto`. */
  readonly policy: string | undefined;
  readonly isGreedy: boolean;
  /** Whether the prompt was read for several answers at once, so that its reading time is unknown. */
  readonly hasSharedPrompt: boolean;
}

const lookUp = 'ngram';
const defaultLength = 4;
const maxResolved = 64;

export class BudgetedDrafting {
  readonly misfits: readonly string[];
  /** Used per token. */
  private readonly targetWeights: number;
  private readonly shares = new AcceptanceFloors();
  private readonly ladders = new Map<string, readonly NamedDrafter[]>();
  private readonly resolved = new Map<string, readonly ResolvedRung[]>();

  constructor(
    drafters: ReadonlyMap<string, Drafter>,
    target: CausalModel,
    private readonly settings: BudgetSettings = {},
  ) {
    const { layerCount, hiddenSize } = target.configuration;
    const layerWeights = hiddenSize * (4 * hiddenSize + 3 * mlpWidthPerToken(target.configuration));
    this.targetWeights = layerCount * layerWeights;
    const order = orderOf(drafters, target, settings.ladder);
    const misfits: string[] = [];
    for (const [name, drafter] of drafters) {
      const ladder: NamedDrafter[] = [{ name, drafter }];
      for (const other of order) {
        if (other.name === name) continue;
        const fault = misfitOf([...ladder.map((member) => member.drafter), other.drafter]);
        if (fault === undefined) ladder.push(other);
        else misfits.push(`Guarded requests of ${name} cannot go on with ${other.name}: ${fault}`);
      }
      this.ladders.set(name, ladder);
    }
    this.misfits = misfits;
    // Refuse invalid settings now, not in a request.
    checkBudget({ slowdown: settings.slowdown });
  }

  membersOf(name: string): readonly Drafter[] {
    return this.ladders.get(name)!.map(({ drafter }) => drafter);
  }

  begin({ name, policy, isGreedy, hasSharedPrompt }: LadderRequest): BudgetedRequest {
    const ladder = this.resolve(name, policy).filter(
      ({ drafter }, place) => place === 0 || !hasSharedPrompt || drafter.parameterCount === 0,
    );
    const drafter = rotateDrafters(ladder.map((member) => member.drafter));
    // Acceptance of the first draft token does not depend on the draft length.
    const kinds = ladder.map((each) => `${each.name} ${each.policy.kind} ${isGreedy ? 'greedy' : 'drawn'}`);
    const rungs = ladder.map((member, place): Rung => ({
      policy: member.policy,
      floor: this.settings.floor ?? this.shares.floorOf(kinds[place]!),
      readingShare: Math.min(1, member.drafter.parameterCount / this.targetWeights),
    }));
    const nameOf = (place: number | undefined): string | null =>
      place === undefined ? null : ladder[place]!.name;
    const switches: DrafterSwitch[] = [];
    const chooser = new BudgetedPolicy(rungs, {
      slowdown: this.settings.slowdown,
      use: (place) => {
        drafter.use(place);
      },
      onSwitch: ({ from, to, ...rest }) => switches.push({ from: nameOf(from), to: nameOf(to), ...rest }),
    });
    return {
      drafter,
      policy: chooser,
      end: (steps) => {
        this.learn(kinds, ladder, switches, steps);
        return { ladder: ladder.map((member) => member.name), switches };
      },
    };
  }

  /** Cached, because a policy may read a file. */
  private resolve(name: string, policy: string | undefined): readonly ResolvedRung[] {
    const key = `${name} ${policy ?? ''}`;
    const known = this.resolved.get(key);
    if (known !== undefined) return known;
    const resolved = this.ladders.get(name)!.map((member, place) => ({
      ...member,
      policy: place === 0 ? resolveOwn(policy, member.drafter) : resolveOther(policy, member.drafter),
    }));
    const [oldest] = this.resolved.keys();
    if (this.resolved.size >= maxResolved) this.resolved.delete(oldest!);
    this.resolved.set(key, resolved);
    return resolved;
  }

  private learn(
    kinds: readonly string[],
    ladder: readonly NamedDrafter[],
    switches: readonly DrafterSwitch[],
    steps: readonly StepRecord[],
  ): void {
    for (const [place, { name }] of ladder.entries()) {
      const own = steps.filter(({ drafter, proposed }) => drafter === place && proposed > 0);
      // A failed probe repeats the evidence of the fall before it.
      const isFlagged = switches.some(({ from, reason }) => from === name && reason === 'evidence');
      if (isFlagged) this.shares.flag(kinds[place]!);
      else this.shares.learn(kinds[place]!, own.length, own.filter(({ accepted }) => accepted > 0).length);
    }
  }
}

function orderOf(
  drafters: ReadonlyMap<string, Drafter>,
  target: CausalModel,
  given: readonly string[] | undefined,
): readonly NamedDrafter[] {
  const known = new Map(drafters);
  if (!known.has(lookUp)) known.set(lookUp, findWeightless(lookUp)!.create(lookUp, target));
  const named = [...known].map(([name, drafter]) => ({ name, drafter }));
  const isWeighty = ({ drafter }: NamedDrafter): boolean => drafter.parameterCount > 0;
  if (given === undefined) return [...named.filter(isWeighty), ...named.filter((each) => !isWeighty(each))];
  return given.map((name) => {
    const drafter = known.get(name);
    if (drafter !== undefined) return { name, drafter };
    throw new MistletoeError(
      'usage',
      `The ladder names "${name}"; ${[...known.keys()].join(', ')} were expected.`,
      { hint: 'Name drafters that the server has, as requests do, or ngram.' },
    );
  });
}

/** Why the last drafter does not fit. */
function misfitOf(drafters: readonly Drafter[]): string | undefined {
  try {
    rotateDrafters(drafters);
    return undefined;
  } catch (cause) {
    if (cause instanceof MistletoeError) return cause.message;
    throw cause;
  }
}

function resolveOwn(text: string | undefined, drafter: Drafter): ResolvedPolicy {
  const policy = text === undefined ? undefined : parseDraftPolicy(text);
  if (policy !== undefined && policy.kind !== 'auto') return resolvePolicy(policy, drafter);
  return { kind: 'chain', length: Math.min(defaultLength, drafter.maximumDepth) };
}

/** Another drafter may not support the request's policy. */
function resolveOther(text: string | undefined, drafter: Drafter): ResolvedPolicy {
  try {
    return resolveOwn(text, drafter);
  } catch (cause) {
    if (cause instanceof MistletoeError && cause.code === 'usage') return resolveOwn(undefined, drafter);
    throw cause;
  }
}
