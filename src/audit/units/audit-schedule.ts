/**
 * The units of an audit in their order, and which of them can run. For each drafter and prompt the controls come first:
 * their clean arm decides whether the prompt counts. Then every search is a unit. The suffix for many prompts needs all
 * prompts of its drafter; transfer needs all drafters. What can run follows from what is recorded, not from when it was.
 */
import type { UnitSource } from '../../runs/run-units.js';
import type { UnitSchedule } from '../../runs/unit.js';
import { isSearched } from '../result.js';
import type { RequestPrompt } from '../arms/drafter-units.js';
import {
  armKeys,
  collectPrompt,
  givenFor,
  nameUnit,
  skipAll,
  skipOf,
  unitKey,
} from '../arms/drafter-units.js';
import type { ArmKey } from '../arms/measure-arm.js';
import { findArm, listShared, transferKey, transferName } from '../arms/transfer.js';
import { universalKey, universalName } from '../arms/universal.js';
import type { AuditUnit, AuditUnitInput, UnitName } from './audit-unit.js';
import { shareRequest, transferSchema, unitSchema, universalSchema } from './audit-unit.js';
import type { AuditRequest } from '../audit-request.js';

type RequestDrafter = AuditRequest['drafters'][number];

interface Pair {
  readonly drafter: RequestDrafter;
  readonly prompt: RequestPrompt;
  readonly keys: readonly ArmKey[];
  /** Units that remain, by what is recorded. */
  pending: readonly ArmKey[];
  /** Everything pending has been handed out. */
  isWaiting: boolean;
}

type RecordedUnits = UnitSource & { has(unit: string): boolean };

export class AuditSchedule implements UnitSchedule<AuditUnitInput> {
  private readonly pairs: readonly Pair[];
  private readonly pairOfKey = new Map<string, Pair>();
  private readonly handedOut = new Set<string>();

  constructor(
    private readonly request: AuditRequest,
    private readonly recorded: RecordedUnits,
  ) {
    this.pairs = request.drafters.flatMap((drafter) =>
      request.prompts.map((prompt): Pair => {
        const keys = armKeys(request, drafter.id, prompt.id);
        const pair = { drafter, prompt, keys, pending: keys, isWaiting: false };
        for (const key of keys) this.pairOfKey.set(unitKey(drafter.id, prompt.id, key), pair);
        this.refresh(pair);
        return pair;
      }),
    );
  }

  next(): AuditUnit | undefined {
    for (const drafter of this.request.drafters) {
      const own = this.pairs.filter((pair) => pair.drafter === drafter);
      for (const pair of own) {
        const unit = pair.isWaiting ? undefined : this.nextOf(pair);
        if (unit !== undefined) return unit;
      }
      const isDone = own.every(({ pending }) => pending.length === 0);
      const unit = isDone ? this.universalOf(drafter) : undefined;
      if (unit !== undefined) return unit;
    }
    return this.request.transfer ? this.nextTransfer() : undefined;
  }

  noteRecorded(key: string): void {
    const pair = this.pairOfKey.get(key);
    if (pair !== undefined) this.refresh(pair);
  }

  /** Names of all units, in order, for displays. */
  listNames(): UnitName[] {
    const { request } = this;
    return [
      ...request.drafters.flatMap((drafter) => [
        ...this.pairs
          .filter((pair) => pair.drafter === drafter)
          .flatMap(({ prompt, keys }) => keys.map((key) => nameUnit(drafter.id, prompt.id, key))),
        ...(request.universal ? [universalName(drafter.id)] : []),
      ]),
      ...(request.transfer
        ? this.listCouples().map(({ found, measured }) => transferName(found.id, measured.id))
        : []),
    ];
  }

  /** How many of those names are finished or not needed. */
  countDone(): number {
    const { request, recorded } = this;
    const arms = this.pairs.reduce((sum, { keys, pending }) => sum + keys.length - pending.length, 0);
    const universal = request.universal
      ? request.drafters.filter(({ id }) => recorded.has(universalKey(id))).length
      : 0;
    const transferred = this.listCouples().filter(({ found, measured }) =>
      request.prompts.some(({ id }) => recorded.has(transferKey(found.id, measured.id, id))),
    ).length;
    return arms + universal + transferred;
  }

  /** Keys that the parts of a unit can have. */
  keysOf({ request: { drafter, prompts }, work }: AuditUnitInput): readonly string[] {
    switch (work.kind) {
      case 'arms':
        return work.arms.map((key) => unitKey(drafter.id, prompts[0]!.id, key));
      case 'universal':
        return [universalKey(drafter.id)];
      case 'transfer':
        return prompts.map(({ id }) => transferKey(work.found, drafter.id, id));
    }
  }

  private refresh(pair: Pair): void {
    const { drafter, prompt, keys } = pair;
    pair.isWaiting = false;
    if (skipAll(keys) !== null) {
      pair.pending = [];
      return;
    }
    const pending: ArmKey[] = [];
    for (const key of keys) {
      const unit = unitKey(drafter.id, prompt.id, key);
      const data = this.recorded.get(unit, unitSchema);
      if (data === undefined) pending.push(key);
      // What comes after it in the prompt's order is not needed, whether it ran or not.
      else if (skipOf(key, data) !== null) break;
    }
    pair.pending = pending;
  }

  private nextOf(pair: Pair): AuditUnit | undefined {
    const { drafter, prompt, pending } = pair;
    const controls = pending.filter(({ arm }) => !isSearched(arm));
    if (controls.length > 0) {
      pair.isWaiting = true;
      return this.handOut(`${drafter.id}/${prompt.id}/controls`, this.armsOf(pair, controls));
    }
    for (const key of pending) {
      const task = this.matchAttack(pair, key);
      if (task === undefined) continue;
      const unit = this.handOut(unitKey(drafter.id, prompt.id, key), this.armsOf(pair, [task]));
      if (unit !== undefined) return unit;
    }
    pair.isWaiting = true;
    return undefined;
  }

  /** An undirected search runs once it is known what the attack spent. */
  private matchAttack({ drafter, prompt }: Pair, key: ArmKey): ArmKey | undefined {
    if (key.arm !== 'undirected') return key;
    const attack = unitKey(drafter.id, prompt.id, { ...key, arm: 'attack' });
    const data = this.recorded.get(attack, unitSchema);
    if (data === undefined || !('result' in data) || data.trace === null) return undefined;
    const { scoredCandidates, decodedSuffixes } = data.trace;
    return { ...key, effort: { scoredCandidates, decodedSuffixes } };
  }

  private armsOf({ drafter, prompt }: Pair, arms: readonly ArmKey[]): AuditUnitInput {
    const suffixes = givenFor(this.request.suffixes, drafter.id, prompt.id);
    return this.inputOf(drafter, [prompt], suffixes, { kind: 'arms', arms: [...arms] });
  }

  private universalOf(drafter: RequestDrafter): AuditUnit | undefined {
    const key = universalKey(drafter.id);
    if (!this.request.universal || this.recorded.get(key, universalSchema) !== undefined) return undefined;
    // A prompt that its own audit skipped is not used here either.
    const prompts = this.request.prompts.filter(({ id }) =>
      this.recorded.has(unitKey(drafter.id, id, { arm: 'attack', repeat: 1 })),
    );
    return this.handOut(key, this.inputOf(drafter, prompts, [], { kind: 'universal' }));
  }

  private nextTransfer(): AuditUnit | undefined {
    const { request, pairs, recorded } = this;
    if (pairs.some(({ pending }) => pending.length > 0)) return undefined;
    const key = (found: string, measured: string): string => `transfer/${found}/${measured}`;
    const open = this.listCouples().filter(
      ({ found, measured }) => !this.handedOut.has(key(found.id, measured.id)),
    );
    if (open.length === 0) return undefined;
    const results = request.drafters.map(({ id }) => ({
      drafter: id,
      prompts: request.prompts.map((prompt) => collectPrompt(recorded, request, id, prompt)),
    }));
    const shared = listShared(request, results);
    for (const { found, measured } of open) {
      const missing = shared.filter(
        (id) => recorded.get(transferKey(found.id, measured.id, id), transferSchema) === undefined,
      );
      const own = results.find(({ drafter }) => drafter === found.id)!;
      const suffixes = missing.map((id) => [...findArm(own, id, 'attack')!.suffixIds]);
      const prompts = missing.map((id) => request.prompts.find((prompt) => prompt.id === id)!);
      const work = { kind: 'transfer', found: found.id, suffixes } as const;
      const unit = this.handOut(key(found.id, measured.id), this.inputOf(measured, prompts, [], work));
      if (unit !== undefined && missing.length > 0) return unit;
    }
    return undefined;
  }

  private listCouples(): readonly { readonly found: RequestDrafter; readonly measured: RequestDrafter }[] {
    const { drafters } = this.request;
    return drafters.flatMap((found) =>
      drafters.filter((measured) => measured !== found).map((measured) => ({ found, measured })),
    );
  }

  private handOut(key: string, input: AuditUnitInput): AuditUnit | undefined {
    if (this.handedOut.has(key)) return undefined;
    this.handedOut.add(key);
    return { key, input };
  }

  private inputOf(
    { id, name, parameterCount, sha256, system, policy }: RequestDrafter,
    prompts: readonly RequestPrompt[],
    suffixes: AuditRequest['suffixes'],
    work: AuditUnitInput['work'],
  ): AuditUnitInput {
    const drafter = { id, name, parameterCount, sha256, system, policy };
    return {
      command: 'audit',
      request: { ...shareRequest(this.request), drafter, prompts: [...prompts], suffixes: [...suffixes] },
      work,
    };
  }
}
