/**
 * Where the judge's state lives: in this process, or shared by several guards. Requests are judged after they end, so what
 * follows from an observation may arrive later than `observe` returns; `decide` never waits.
 */
import type { Judge } from '../judge/judge.js';
import type { ActionEvent, Alert, Decision, Judgment } from '../judge/verdict.js';
import type { Observation } from '../observation.js';

export interface JudgeState {
  decide(tenant: string, atMs: number): Decision;
  /** Judges a request that ended; the result goes to `onJudged`. */
  observe(observation: Observation): void;
  /** Null where the state is not shared. */
  readonly isConnected: boolean | null;
  /** Waits until everything observed has been judged. */
  close(): Promise<void>;
}

export interface StateCallbacks {
  /** One of this guard's own requests. */
  readonly onJudged: (observation: Observation, judgment: Judgment) => void;
  /** Alerts and measures that followed from requests of other guards. */
  readonly onShared?: (alerts: readonly Alert[], actions: readonly ActionEvent[]) => void;
  readonly onNotice?: (message: string) => void;
}

export function createLocalState(judge: Judge, { onJudged }: StateCallbacks): JudgeState {
  return {
    isConnected: null,
    decide: (tenant, atMs) => judge.decide(tenant, atMs),
    observe(observation) {
      onJudged(observation, judge.judge(observation));
    },
    close: () => Promise.resolve(),
  };
}
