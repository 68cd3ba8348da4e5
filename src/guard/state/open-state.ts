import type { Judge } from '../judge/judge.js';
import type { JudgeState, StateCallbacks } from './judge-state.js';

/** @param url redis://host:port, rediss:// or valkey://; undefined keeps the state in this process */
export async function openState(
  url: string | undefined,
  judge: Judge,
  callbacks: StateCallbacks,
): Promise<JudgeState> {
  if (url !== undefined) {
    const { openRedisState } = await import('./redis-state.js');
    return openRedisState(url, judge, callbacks);
  }
  return {
    isConnected: null,
    decide: (tenant, atMs) => judge.decide(tenant, atMs),
    observe(observation) {
      callbacks.onJudged(observation, judge.judge(observation));
    },
    close: () => Promise.resolve(),
  };
}
